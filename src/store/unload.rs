//! Unloading targets that nobody used for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::RedisResult;

use super::keys::TargetKey;
use super::load::millis;
use super::{Store, StoreError, script};
use crate::model::{Id, Partition};

/// Keys looked at in one SCAN.
const PAGE: usize = 1000;

/// Targets of one partition that may be unloaded while nothing moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idle {
    /// The targets.
    pub targets: Vec<Id>,
    partition: Partition,
    checkpoint: String,
    since: String,
}

impl Store {
    /// One page of the targets that have counts, by partition, and where to go on (`0` at the end). What a SCAN repeats
    /// may come again.
    pub async fn scan_counted(
        &self,
        partitions: &[Partition],
        cursor: u64,
    ) -> Result<(u64, BTreeMap<Partition, Vec<Id>>), StoreError> {
        let mut connection = self.connection.clone();
        let (cursor, found): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
            .arg(cursor)
            .arg("MATCH")
            .arg(self.keys.count_pattern())
            .arg("COUNT")
            .arg(PAGE)
            .query_async(&mut connection)
            .await
            .map_err(self.failed("SCAN of the counts"))?;
        let mut targets = BTreeMap::<Partition, Vec<Id>>::new();
        for key in found.iter().filter_map(|key| std::str::from_utf8(key).ok()) {
            let of = |partition: &Partition| match self.keys.parse(*partition, key) {
                Some(TargetKey::Count(target)) => Some((*partition, target)),
                _ => None,
            };
            if let Some((partition, target)) = partitions.iter().find_map(of) {
                targets.entry(partition).or_default().push(target);
            }
        }
        Ok((cursor, targets))
    }

    /// Which of some targets of a partition are clean and were neither written nor loaded for `idle`; a hundred or so.
    pub async fn idle(&self, partition: Partition, targets: &[Id], idle: Duration) -> Result<Idle, StoreError> {
        let mut invocation = self.of_partition(&script::UNLOAD_BEGIN, partition);
        invocation.arg(millis(idle));
        for &target in targets {
            invocation
                .key(self.keys.load_lock(partition.target_type, target))
                .key(self.keys.count(partition.target_type, target))
                .arg(target.get());
        }
        let mut connection = self.connection.clone();
        let answer: RedisResult<Vec<String>> = script::invoke(&invocation, &mut connection).await;
        let mut words = answer.map_err(self.failed("the look for idle targets"))?.into_iter();
        let (checkpoint, since) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let targets = words.filter_map(|target| target.parse().ok()).collect();
        Ok(Idle { targets, partition, checkpoint, since })
    }

    /// Unloads targets, unless anything has moved since they were found idle. `rows` are the count rows of counters, by
    /// target and code; a counter that is greater than its row keeps its target. Answers how many are gone.
    pub async fn unload(&self, idle: &Idle, rows: &BTreeMap<(Id, u16), i64>) -> Result<u64, StoreError> {
        let mut invocation = self.of_partition(&script::UNLOAD_END, idle.partition);
        let counters: Vec<u16> = self.counters().collect();
        invocation.arg(&idle.checkpoint).arg(&idle.since).arg(self.stateful().count()).arg(counters.len());
        for &code in &counters {
            invocation.arg(self.name(code));
        }
        let target_type = idle.partition.target_type;
        for &target in &idle.targets {
            invocation.key(self.keys.load_lock(target_type, target)).key(self.keys.count(target_type, target));
            for code in self.stateful() {
                invocation.key(self.keys.state(self.name(code), target_type, target));
            }
            invocation.arg(target.get());
            for &code in &counters {
                invocation.arg(rows.get(&(target, code)).copied().unwrap_or_default());
            }
        }
        let mut connection = self.connection.clone();
        script::invoke(&invocation, &mut connection).await.map_err(self.failed("the unloading of idle targets"))
    }

    fn of_partition<'s>(&self, script: &'s redis::Script, partition: Partition) -> redis::ScriptInvocation<'s> {
        let mut invocation = script.key(self.keys.checkpoint(partition));
        invocation
            .key(self.keys.restoring(partition))
            .key(self.keys.dirty(partition))
            .key(self.keys.dirty_inflight(partition))
            .key(self.keys.done(partition));
        invocation
    }
}
