//! What reconciliation reads of targets, and how it sets right what it found.

use redis::{RedisResult, Value};

use super::kept::Kept;
use super::read::HashPage;
use super::{Holder, StoreError, script};
use crate::model::Id;

/// Fields asked for in the first page of a hash. Redis returns a small hash whole, whatever is asked for.
const PAGE: usize = 500;

/// One state hash (or counter), with its count, as of one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Code of the interaction.
    pub interaction: u16,
    /// Whether the hash is there.
    pub present: bool,
    /// Whether it is known to hold every user.
    pub complete: bool,
    /// The count as Redis holds it.
    pub count: Option<String>,
    /// Every user and whether the state is active; `None` where the hash is too large to be read at once.
    pub states: Option<Vec<(Id, bool)>>,
}

/// A target as of one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// The target.
    pub target: Id,
    /// Whether nothing of it is marked: neither dirty nor in flight.
    pub settled: bool,
    /// Every configured interaction; the code of one of which a key is not what the protocol makes it, if there is one.
    pub seen: Result<Vec<Seen>, u16>,
}

/// What is set right in Redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repair {
    /// An absent field of a complete hash comes back, from its row.
    Fill(Id, bool),
    /// A count that its hash does not vouch for: from, to.
    Count(String, i64),
    /// The count beside a hash that is gone.
    Drop(String),
}

impl Holder {
    /// Reads targets, a hundred or so, and steps the checkpoint, in one MULTI. Answers the Redis time (Unix ms), too.
    pub async fn inspect(&mut self, targets: &[Id]) -> Result<(i64, Vec<Inspected>), StoreError> {
        let keys = self.store.keys;
        let (partition, target_type) = (self.partition, self.partition.target_type);
        let vocabulary = self.store.vocabulary.clone();
        let mut pipe = self.stepping_pipe();
        pipe.cmd("TIME");
        for &target in targets {
            for set in [keys.dirty(partition), keys.dirty_inflight(partition), keys.done(partition)] {
                pipe.cmd("SISMEMBER").arg(set).arg(target.get());
            }
            pipe.cmd("HMGET").arg(keys.count(target_type, target));
            for interaction in &vocabulary.interactions {
                pipe.arg(&interaction.name);
            }
            for interaction in vocabulary.interactions.iter().filter(|i| i.has_states()) {
                let states = keys.state(&interaction.name, target_type, target);
                pipe.cmd("HSCAN").arg(&states).arg(0).arg("COUNT").arg(PAGE);
                pipe.cmd("HGET").arg(&states).arg(0);
            }
        }
        let mut answers = self.step_and_read(&pipe).await?.into_iter();
        let (seconds, micros): (i64, i64) = take(answers.next()).map_err(self.store.failed("TIME"))?;
        let mut inspected = Vec::with_capacity(targets.len());
        for &target in targets {
            let mut settled = true;
            for _ in 0..3 {
                let marked: RedisResult<bool> = take(answers.next());
                settled &= !marked.map_err(self.store.failed("SISMEMBER of the dirty sets"))?;
            }
            let counts = take::<Vec<Option<String>>>(answers.next());
            let mut unreadable = vocabulary.interactions.first().filter(|_| counts.is_err()).map(|i| i.code);
            let mut counts = counts.unwrap_or_default().into_iter();
            let mut seen = Vec::with_capacity(vocabulary.interactions.len());
            for interaction in &vocabulary.interactions {
                let count = counts.next().flatten();
                let mut item = Seen {
                    interaction: interaction.code,
                    present: false,
                    complete: false,
                    count,
                    states: Some(vec![]),
                };
                if interaction.has_states() {
                    let page = take::<HashPage>(answers.next());
                    let kept = take::<Option<Vec<u8>>>(answers.next()).unwrap_or_default();
                    match page {
                        Ok((cursor, fields)) => {
                            item.present = !fields.is_empty() || cursor != 0;
                            item.complete = Kept::of(kept.as_deref()) == Kept::Full;
                            item.states = if cursor == 0 { states(&fields) } else { None };
                            if cursor == 0 && item.states.is_none() {
                                unreadable = Some(interaction.code);
                            }
                        }
                        Err(_) => unreadable = Some(interaction.code),
                    }
                }
                seen.push(item);
            }
            inspected.push(Inspected { target, settled, seen: unreadable.map_or(Ok(seen), Err) });
        }
        Ok((seconds * 1000 + micros / 1000, inspected))
    }

    /// Sets right what still is as it was found. Answers which were.
    pub async fn repair(&mut self, items: &[(Id, u16, Repair)]) -> Result<Vec<bool>, StoreError> {
        if items.is_empty() {
            return Ok(vec![]);
        }
        let keys = self.store.keys;
        let target_type = self.partition.target_type;
        let mut invocation = self.fenced(&script::REPAIR);
        invocation
            .key(keys.dirty(self.partition))
            .key(keys.dirty_inflight(self.partition))
            .key(keys.done(self.partition));
        for (target, interaction, repair) in items {
            let name = self.store.name(*interaction);
            invocation.key(keys.state(name, target_type, *target)).key(keys.count(target_type, *target));
            invocation.arg(target.get()).arg(name);
            match repair {
                Repair::Fill(user, active) => invocation.arg("fill").arg(user.get()).arg(u8::from(*active)),
                Repair::Count(before, after) => invocation.arg("count").arg(before).arg(*after),
                Repair::Drop(before) => invocation.arg("drop").arg(before).arg(""),
            };
        }
        self.invoke("the repair of what was found", &invocation).await
    }
}

/// The states of a whole hash, each user once; `None` when a field is no state.
pub(super) fn states(fields: &[(Vec<u8>, Vec<u8>)]) -> Option<Vec<(Id, bool)>> {
    let mut states = Vec::with_capacity(fields.len());
    for (user, state) in fields.iter().filter(|(user, _)| user != b"0") {
        let user = std::str::from_utf8(user).ok()?.parse::<Id>().ok()?;
        states.push((
            user,
            if state == b"1" {
                true
            } else if state == b"0" {
                false
            } else {
                return None;
            },
        ));
    }
    states.sort_unstable();
    states.dedup_by_key(|(user, _)| *user);
    Some(states)
}

pub(super) fn take<T: redis::FromRedisValue>(answer: Option<RedisResult<Value>>) -> RedisResult<T> {
    Ok(redis::from_redis_value(answer.unwrap_or(Ok(Value::Nil))?)?)
}
