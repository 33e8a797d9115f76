//! Restoring a partition after Redis lost writes that MySQL holds: what is pending and newer than its row stays, and
//! everything else is dropped, so that loading takes it from MySQL when it is asked for.
//!
//! Writers go on meanwhile: every script decides by what Redis holds at that moment. The order matters: changes are
//! decided about first; afterwards a state without a change is known to be of the past.

use redis::{Script, ScriptInvocation};

use super::keys::TargetKey;
use super::read::HashPage;
use super::{Holder, Loss, Marks, Store, StoreError, mark, script};
use crate::model::{Change, Checkpoint, Id, Interaction, Partition};

/// Keys asked for in one SCAN, fields in one HSCAN.
const PAGE: usize = 1000;
/// The largest hash that one script goes through whole.
const WHOLE: usize = 1000;
/// States that one script goes through: a few milliseconds of Redis at most.
const BUDGET: usize = 2000;

/// A page of what Redis knows of a partition. What a SCAN repeats may come again.
#[derive(Debug, Default)]
pub struct KnownPage {
    /// Where to go on; `0` at the end.
    pub cursor: u64,
    /// State hashes: target and interaction.
    pub states: Vec<(Id, u16)>,
    /// Targets with a count hash.
    pub counts: Vec<Id>,
    /// Targets with a loader's lock.
    pub locks: Vec<Id>,
}

/// A restore under way. Every script requires that there still is no checkpoint, and that nobody else has gone on with
/// the restore; else it changes nothing, and answers [`StoreError::Fenced`].
pub struct Restorer {
    store: Store,
    partition: Partition,
    /// `restoring` as last set.
    at: Checkpoint,
    /// Reads marks, which needs no hold.
    reader: Holder,
}

impl std::fmt::Debug for Restorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { partition, at, .. } = self;
        let mut debug = f.debug_struct("Restorer");
        debug.field("partition", partition).field("at", at).finish_non_exhaustive()
    }
}

impl Store {
    /// Begins a restore for the holder of the lease `token`; takes over what a crashed one left.
    pub async fn begin_restore(&self, partition: Partition, loss: &Loss, token: u64) -> Result<Restorer, StoreError> {
        let keys = self.keys;
        let mut invocation = script::RESTORE_BEGIN.key(keys.checkpoint(partition));
        invocation
            .key(keys.restoring(partition))
            .key(keys.dirty(partition))
            .key(keys.dirty_inflight(partition))
            .key(keys.done(partition))
            .arg(&loss.found)
            .arg(token);
        let mut connection = self.connection.clone();
        let begun: redis::RedisResult<()> = script::invoke(&invocation, &mut connection).await;
        begun.map_err(self.failed("the beginning of a restore"))?;
        Ok(Restorer { store: self.clone(), partition, at: Checkpoint::first(token), reader: self.dry(partition) })
    }
}

impl Restorer {
    fn guarded<'s>(&self, script: &'s Script) -> ScriptInvocation<'s> {
        let mut invocation = script.key(self.store.keys.checkpoint(self.partition));
        invocation
            .key(self.store.keys.restoring(self.partition))
            .arg(self.at.to_string())
            .arg(self.at.next().to_string());
        invocation
    }

    async fn invoke<T: redis::FromRedisValue>(&mut self, invocation: &ScriptInvocation<'_>) -> Result<T, StoreError> {
        let mut connection = self.store.connection.clone();
        let answer = script::invoke(invocation, &mut connection).await;
        let answer = answer.map_err(self.store.failed("a step of the restore"))?;
        self.at = self.at.next();
        Ok(answer)
    }

    /// One page of the changes. Marks that cannot be read are left to the run.
    pub async fn scan_changes(&self, marks: Marks, cursor: u64) -> Result<(u64, Vec<Change>), StoreError> {
        let page = self.reader.scan_changes(marks, cursor).await?;
        Ok((page.cursor, self.reader.changes_of(page).filter_map(Result::ok).collect()))
    }

    /// Decides about changes, a few hundred at a time. `rows` are the latest times that their rows may stand for. Answers
    /// how many states were dropped, and how many changes stay.
    pub async fn decide(&mut self, changes: &[Change], rows: &[Option<i64>]) -> Result<(u64, u64), StoreError> {
        let (keys, target_type) = (self.store.keys, self.partition.target_type);
        let mut invocation = self.guarded(&script::RESTORE_MARKS);
        invocation
            .key(keys.changes(self.partition))
            .key(keys.changes_inflight(self.partition))
            .key(keys.dirty(self.partition));
        for (change, row) in changes.iter().zip(rows) {
            let name = self.store.name(change.interaction);
            invocation
                .key(keys.state(name, target_type, change.target))
                .key(keys.count(target_type, change.target))
                .arg(mark::field(&self.store.vocabulary, change))
                .arg(name)
                .arg(change.target.get())
                .arg(change.user.map_or(0, Id::get))
                .arg(row.map_or_else(String::new, |row| row.to_string()));
        }
        self.invoke(&invocation).await
    }

    /// One page of the keys of the partition; those of other programs are left out.
    pub async fn scan_known(&mut self, cursor: u64) -> Result<KnownPage, StoreError> {
        let (cursor, found) = self.store.scan_keys(self.partition, cursor).await?;
        let mut known = KnownPage { cursor, ..KnownPage::default() };
        for key in found.iter().filter_map(|key| std::str::from_utf8(key).ok()) {
            match self.store.keys.parse(self.partition, key) {
                Some(TargetKey::Count(target)) => known.counts.push(target),
                // No interaction has this name.
                Some(TargetKey::State(word, target)) if word == "lock" => known.locks.push(target),
                Some(TargetKey::State(word, target)) => {
                    let interaction = self.store.vocabulary.interaction(&word).filter(|i| i.has_states());
                    known.states.extend(interaction.map(|i| (target, i.code)));
                }
                None => {}
            }
        }
        Ok(known)
    }

    /// Drops the states without a change from some hashes, and their counts and completeness. Answers how many were
    /// dropped, and the hashes that are too large for one call: these are for [`Restorer::drop_page`].
    pub async fn drop_states(&mut self, items: &[(Id, u16)]) -> Result<(u64, Vec<(Id, u16)>), StoreError> {
        let (keys, target_type) = (self.store.keys, self.partition.target_type);
        let (mut dropped, mut large) = (0, Vec::new());
        let mut rest = items;
        while !rest.is_empty() {
            let mut invocation = self.guarded(&script::RESTORE_STATES);
            invocation.key(keys.changes(self.partition)).key(keys.dirty(self.partition)).arg(WHOLE).arg(BUDGET);
            for &(target, interaction) in rest {
                let name = self.store.name(interaction);
                invocation
                    .key(keys.state(name, target_type, target))
                    .key(keys.count(target_type, target))
                    .arg(name)
                    .arg(target.get());
            }
            let answer: Vec<u64> = self.invoke(&invocation).await?;
            let number = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            dropped += answer.get(1).copied().unwrap_or_default();
            large.extend(answer.iter().skip(2).filter_map(|&at| rest.get(number(at))));
            let looked_at = answer.first().map_or(1, |&looked_at| number(looked_at).max(1));
            rest = rest.get(looked_at..).unwrap_or_default();
        }
        Ok((dropped, large))
    }

    /// Drops the states without a change from one page of a hash. Answers where to go on (`0` at the end) and how many
    /// were dropped.
    pub async fn drop_page(&mut self, (target, interaction): (Id, u16), cursor: u64) -> Result<(u64, u64), StoreError> {
        let name = self.store.name(interaction).to_owned();
        let states = self.store.keys.state(&name, self.partition.target_type, target);
        let mut connection = self.store.connection.clone();
        let (cursor, fields): HashPage = redis::cmd("HSCAN")
            .arg(&states)
            .arg(cursor)
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(self.store.failed("HSCAN of a large hash"))?;
        let mut invocation = self.guarded(&script::RESTORE_PAGE);
        invocation.key(self.store.keys.changes(self.partition)).key(states).arg(format!("{name}:{target}:"));
        for (user, _) in &fields {
            invocation.arg(user.as_slice());
        }
        Ok((cursor, self.invoke(&invocation).await?))
    }

    /// Drops the counts of some targets; a counter with a change stays, and takes the larger of its value and that of
    /// its row. `rows` are those of counters, by target and interaction.
    pub async fn drop_counts(
        &mut self,
        targets: &[Id],
        rows: &std::collections::HashMap<(i64, u16), i64>,
    ) -> Result<(), StoreError> {
        let vocabulary = self.store.vocabulary.clone();
        let (states, counters): (Vec<&Interaction>, Vec<&Interaction>) =
            vocabulary.interactions.iter().partition(|i| i.has_states());
        let mut invocation = self.guarded(&script::RESTORE_COUNTS);
        invocation.key(self.store.keys.changes(self.partition));
        for group in [&states, &counters] {
            invocation.arg(group.len());
            for interaction in group {
                invocation.arg(&interaction.name);
            }
        }
        for &target in targets {
            invocation.key(self.store.keys.count(self.partition.target_type, target)).arg(target.get());
            for counter in &counters {
                let row = rows.get(&(target.get(), counter.code));
                invocation.arg(row.map_or_else(String::new, ToString::to_string));
            }
        }
        self.invoke(&invocation).await
    }

    /// Drops loaders' locks.
    pub async fn drop_locks(&mut self, targets: &[Id]) -> Result<(), StoreError> {
        let mut invocation = self.guarded(&script::RESTORE_LOCKS);
        for &target in targets {
            invocation.key(self.store.keys.load_lock(self.partition.target_type, target));
        }
        self.invoke(&invocation).await
    }

    /// Ends the restore: the partition is held as after a check that found nothing lost.
    pub async fn end(mut self) -> Result<Holder, StoreError> {
        let holder = self.store.holder(self.partition, self.at.token);
        let mut invocation = self.guarded(&script::RESTORE_END);
        invocation.arg(holder.expected.to_string());
        self.invoke::<()>(&invocation).await?;
        Ok(holder)
    }
}
