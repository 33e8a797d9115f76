//! Reading claimed changes: a page of the change hash, and the states and counts of a chunk together with a step.

use std::collections::BTreeMap;

use redis::{Pipeline, RedisResult, Value};

use super::kept::{Kept, count_value};
use super::{BadMark, Holder, Marks, StoreError, mark, script};
use crate::model::{Change, Chunk, CountRow, Id, Reason, RecordRow, Rejected, Source};

/// Fields asked for in one HSCAN.
const PAGE: usize = 1000;

/// One page of the changes, as Redis answered it: [`Holder::changes_of`] reads it.
#[derive(Debug)]
pub struct ChangePage {
    /// Where to go on; `0` at the end.
    pub cursor: u64,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What comes after a chunk among the claimed changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Following {
    /// Nothing.
    Nothing,
    /// Changes of this target and of greater ones, in key order.
    From(Id),
    /// Other pages, with changes of any target.
    Pages,
}

impl Following {
    /// Whether the target of a chunk may have changes in what follows.
    fn may_concern(self, target: Id) -> bool {
        match self {
            Self::Nothing => false,
            Self::From(next) => next <= target,
            Self::Pages => true,
        }
    }
}

/// A page of a hash: where to go on, and fields with their values.
pub(super) type HashPage = (u64, Vec<(Vec<u8>, Vec<u8>)>);

/// The counts of one target as Redis holds them, by interaction code.
type Counts = BTreeMap<u16, Vec<u8>>;

impl Holder {
    /// One page of the changes. Acking what was read before does not disturb the scan.
    pub async fn scan_changes(&self, marks: Marks, cursor: u64) -> Result<ChangePage, StoreError> {
        let mut connection = self.store.connection.clone();
        let key = self.changes_key(marks);
        let (cursor, fields): HashPage = redis::cmd("HSCAN")
            .arg(key)
            .arg(cursor)
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(self.store.failed("HSCAN of the changes"))?;
        Ok(ChangePage { cursor, fields })
    }

    /// The changes of a page, or why one cannot be read. In no order; what a scan repeats may be there twice.
    pub fn changes_of(&self, page: ChangePage) -> impl Iterator<Item = Result<Change, BadMark>> {
        page.fields.into_iter().map(|(field, value)| mark::parse_change(&self.store.vocabulary, &field, &value))
    }

    /// Which of `rows` have a change among one of `marks`.
    pub async fn marked(&mut self, marks: &[Marks], rows: &[RecordRow]) -> Result<Vec<bool>, StoreError> {
        let mut marked = vec![false; rows.len()];
        if rows.is_empty() {
            return Ok(marked);
        }
        for &marks in marks {
            let mut command = redis::cmd("HMGET");
            command.arg(self.changes_key(marks));
            for &RecordRow { target, interaction, user, at_ms, .. } in rows {
                let change = Change { target, interaction, user: Some(user), at_ms };
                command.arg(mark::field(&self.store.vocabulary, &change));
            }
            let mut connection = self.store.connection.clone();
            let answer: RedisResult<Vec<Option<Vec<u8>>>> = command.query_async(&mut connection).await;
            let times = answer.map_err(self.store.failed("HMGET of the changes"))?;
            for (marked, time) in marked.iter_mut().zip(times) {
                *marked |= time.is_some();
            }
        }
        Ok(marked)
    }

    fn changes_key(&self, marks: Marks) -> String {
        match marks {
            Marks::Fresh => self.store.keys.changes(self.partition),
            Marks::Claimed => self.store.keys.changes_inflight(self.partition),
        }
    }

    /// Reads the states and counts behind `changes` (sorted, each once) and steps the checkpoint, in one MULTI. What
    /// follows them among the claimed changes decides which counts are settled.
    ///
    /// A change whose state is gone is set aside, and its target loses count and completeness; absence is never
    /// written.
    pub async fn read_changes(&mut self, changes: &[Change], following: Following) -> Result<Chunk, StoreError> {
        let groups: Vec<&[Change]> =
            changes.chunk_by(|a, b| (a.target, a.interaction) == (b.target, b.interaction)).collect();
        let targets: Vec<&[Change]> = changes.chunk_by(|a, b| a.target == b.target).collect();
        let keys = self.store.keys;
        let target_type = self.partition.target_type;
        let mut pipe = self.stepping_pipe();
        for group in groups.iter().filter(|group| group[0].user.is_some()) {
            let state = keys.state(self.store.name(group[0].interaction), target_type, group[0].target);
            pipe.cmd("HMGET").arg(state).arg(0);
            for user in group.iter().filter_map(|change| change.user) {
                pipe.arg(user.get());
            }
        }
        for target in &targets {
            pipe.cmd("HMGET").arg(keys.count(target_type, target[0].target));
            for (_, name) in self.interactions_of(target) {
                pipe.arg(name);
            }
            pipe.cmd("SISMEMBER").arg(keys.dirty(self.partition)).arg(target[0].target.get());
        }
        let mut answers = self.step_and_read(&pipe).await?.into_iter();

        let mut chunk = self.new_chunk(Source::Changes);
        let mut kept = BTreeMap::new();
        let mut missing = Vec::new();
        for group in groups.iter().filter(|group| group[0].user.is_some()) {
            let rejected = chunk.rejected.len();
            let whole = self.states_of(group, answers.next(), &mut chunk);
            if chunk.rejected.len() > rejected {
                missing.push((group[0].target, group[0].interaction));
                kept.insert((group[0].target, group[0].interaction), Kept::Unknown);
            } else {
                kept.insert((group[0].target, group[0].interaction), whole);
            }
        }
        for target in targets {
            let (counts, broken) = Self::counts_of(&self.interactions_of(target), answers.next());
            let dirty = answers.next().and_then(|answer| redis::from_redis_value(answer.ok()?).ok()).unwrap_or(true);
            let settled = !dirty && !following.may_concern(target[0].target);
            for group in target.chunk_by(|a, b| a.interaction == b.interaction) {
                let first = &group[0];
                let at_ms = group.iter().map(|change| change.at_ms).max().unwrap_or(first.at_ms);
                let kept = kept.get(&(first.target, first.interaction)).copied();
                let raw = counts.get(&first.interaction).or(broken.as_ref());
                let bad =
                    raw.and_then(|raw| mark::bad_count(&self.store.vocabulary, first.target, first.interaction, raw));
                chunk.rejected.extend(bad);
                if let Some(value) = count_value(kept, raw.and_then(|raw| mark::count(raw))) {
                    let Change { target, interaction, .. } = *first;
                    chunk.counts.push(CountRow { target, interaction, value, at_ms, settled });
                }
            }
        }
        self.disown(&missing).await?;
        Ok(chunk)
    }

    fn states_of(&self, group: &[Change], answer: Option<RedisResult<Value>>, chunk: &mut Chunk) -> Kept {
        let set_aside = |change: &Change, reason, detail: String| Rejected {
            mark: mark::field(&self.store.vocabulary, change),
            reason,
            detail,
        };
        let values =
            answer.unwrap_or(Ok(Value::Nil)).and_then(|v| Ok(redis::from_redis_value::<Vec<Option<Vec<u8>>>>(v)?));
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                let detail = error.to_string();
                chunk.rejected.extend(group.iter().map(|c| set_aside(c, Reason::BadState, detail.clone())));
                return Kept::Unknown;
            }
        };
        let mut values = values.into_iter();
        let kept = Kept::of(values.next().flatten().as_deref());
        for change in group {
            let Some(user) = change.user else { continue };
            let row = |active| RecordRow {
                target: change.target,
                interaction: change.interaction,
                user,
                active,
                at_ms: change.at_ms,
            };
            match values.next().flatten().as_deref() {
                Some(b"1") => chunk.records.push(row(true)),
                Some(b"0") => chunk.records.push(row(false)),
                Some(other) => {
                    let detail = format!("the state is {:?}", String::from_utf8_lossy(other));
                    chunk.rejected.push(set_aside(change, Reason::BadState, detail));
                }
                None => {
                    let detail = "the state is gone from its hash".to_owned();
                    chunk.rejected.push(set_aside(change, Reason::StateMissing, detail));
                }
            }
        }
        kept
    }

    fn interactions_of(&self, changes: &[Change]) -> Vec<(u16, String)> {
        let groups = changes.chunk_by(|a, b| a.interaction == b.interaction);
        groups.map(|group| (group[0].interaction, self.store.name(group[0].interaction).to_owned())).collect()
    }

    /// The counts, or what Redis says of a key that is not a hash, in place of each.
    fn counts_of(asked: &[(u16, String)], answer: Option<RedisResult<Value>>) -> (Counts, Option<Vec<u8>>) {
        let values =
            answer.unwrap_or(Ok(Value::Nil)).and_then(|v| Ok(redis::from_redis_value::<Vec<Option<Vec<u8>>>>(v)?));
        match values {
            Ok(values) => {
                (asked.iter().zip(values).filter_map(|((code, _), value)| Some((*code, value?))).collect(), None)
            }
            Err(error) => (Counts::new(), Some(error.to_string().into_bytes())),
        }
    }

    pub(super) fn new_chunk(&self, source: Source) -> Chunk {
        Chunk { checkpoint: self.expected, source, records: vec![], counts: vec![], rejected: vec![] }
    }

    /// A MULTI that starts with the step; in a dry run with a look at the checkpoint.
    pub(super) fn stepping_pipe(&self) -> Pipeline {
        let mut pipe = redis::pipe();
        pipe.atomic().ignore_errors();
        if self.dry {
            pipe.cmd("GET").arg(self.store.keys.checkpoint(self.partition));
            return pipe;
        }
        pipe.cmd("EVAL")
            .arg(script::STEP)
            .arg(1)
            .arg(self.store.keys.checkpoint(self.partition))
            .arg(self.expected.to_string())
            .arg(self.expected.next().to_string());
        pipe
    }

    /// Runs such a MULTI. On a fenced step the reads are thrown away.
    pub(super) async fn step_and_read(&mut self, pipe: &Pipeline) -> Result<Vec<RedisResult<Value>>, StoreError> {
        let mut connection = self.store.connection.clone();
        let what = "the reading of a chunk";
        let answers: RedisResult<Vec<RedisResult<Value>>> = pipe.query_async(&mut connection).await;
        let mut answers = answers.map_err(self.store.failed(what))?;
        if answers.is_empty() {
            return Ok(answers);
        }
        answers.remove(0).map_err(self.store.failed(what))?;
        if !self.dry {
            self.expected = self.expected.next();
        }
        Ok(answers)
    }

    async fn disown(&mut self, missing: &[(Id, u16)]) -> Result<(), StoreError> {
        if missing.is_empty() || self.dry {
            return Ok(());
        }
        let mut invocation = self.fenced(&script::DISOWN);
        for (target, interaction) in missing {
            let name = self.store.name(*interaction);
            invocation
                .key(self.store.keys.state(name, self.partition.target_type, *target))
                .key(self.store.keys.count(self.partition.target_type, *target))
                .arg(name);
        }
        self.invoke("the disowning of counts", &invocation).await
    }
}
