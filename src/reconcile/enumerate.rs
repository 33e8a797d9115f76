//! Which targets there are: those that MySQL knows, by ranges of its key, and those that only Redis knows.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use super::error::Left;
use super::look::AT_ONCE;
use super::pass::{Pass, as_float};
use super::request::Scope;
use super::steps::{REMEMBERED, Step};
use crate::model::{Id, Partition};
use crate::sink::SinkError;
use crate::store::Store;

/// Targets in one page of the enumeration.
const PAGE: usize = 512;

impl Pass<'_> {
    pub(super) async fn look_at_all(&mut self, store: &Store) {
        if let Scope::Target(target_type, target) = self.request.scope {
            self.tally.of = 1;
            self.progress.found(1);
            let partition = store.keys().partition(target_type, target);
            return self.by_partition(store, BTreeSet::from([(partition, target)]), Step::Look).await;
        }
        let mut partitions = self.context.partitions();
        partitions.sort_unstable();
        for partition in partitions {
            if let Err(left) = self.enumerate(store, partition).await {
                self.leave(Some(partition), &left);
            }
            if self.is_over() {
                return;
            }
        }
        if let Err(left) = self.known_to_redis_alone(store).await {
            self.leave(None, &left);
        }
        if let Err(error) = self.unconfigured_types().await {
            self.leave(None, &error.into());
        }
    }

    /// Looks at what MySQL knows of a partition, page by page of its key.
    async fn enumerate(&mut self, store: &Store, partition: Partition) -> Result<(), Left> {
        let Some(mut after) = self.place.after(partition) else { return Ok(()) };
        loop {
            let (targets, next) = self.session.targets_page(partition.target_type, after, PAGE).await?;
            let mut targets = targets;
            targets.retain(|&target| store.keys().partition(partition.target_type, target) == partition);
            self.tally.of += targets.len() as u64;
            targets.retain(|&target| self.is_chosen(target));
            self.progress.found(targets.len() as u64);
            for batch in targets.chunks(AT_ONCE) {
                let suspects = self.suspects.len();
                self.step(store, partition, batch, Step::Look).await?;
                if self.is_over() {
                    return Ok(());
                }
                if self.suspects.len() > suspects {
                    self.open.get_or_insert(self.place);
                }
                let last = batch.last().map_or(after, |target| target.get());
                self.place = self.place.moved(partition, last, batch.len() as u64);
                self.note_place().await;
            }
            let Some(next) = next else { return Ok(()) };
            after = next;
        }
    }

    /// Looks at what only Redis knows.
    async fn known_to_redis_alone(&mut self, store: &Store) -> Result<(), Left> {
        let partitions = self.context.partitions();
        let (mut cursor, mut alone) = (0, BTreeSet::new());
        loop {
            let (next, found) = store.scan_counted(&partitions, cursor).await?;
            for (partition, mut targets) in found {
                let known = self.session.known_among(partition.target_type, &targets).await?;
                targets.retain(|target| !known.contains(target) && !alone.contains(&(partition, *target)));
                self.tally.of += targets.len() as u64;
                targets.retain(|&target| self.is_chosen(target));
                self.progress.found(targets.len() as u64);
                alone.extend(targets.into_iter().map(|target| (partition, target)));
            }
            cursor = next;
            if cursor == 0 || alone.len() > REMEMBERED {
                let alone = std::mem::take(&mut alone);
                self.by_partition(store, alone, Step::Look).await;
            }
            if cursor == 0 || self.stop.is_cancelled() || self.is_over() {
                return Ok(());
            }
        }
    }

    /// Counts rows of target types that are not configured.
    async fn unconfigured_types(&mut self) -> Result<(), SinkError> {
        let mut types = self.session.target_types().await?;
        types.retain(|code| !self.context.vocabulary.targets.iter().any(|target| target.code == *code));
        for code in types {
            for (interaction, target, rows) in self.session.rows_of_type(code).await? {
                self.tally.unconfigured.insert((code, interaction), (target, rows));
            }
        }
        Ok(())
    }

    fn is_chosen(&self, target: Id) -> bool {
        match self.request.scope {
            Scope::Sample(percent) => as_float(self.chosen.hash_one(target) >> 32) < percent / 100.0 * 4_294_967_296.0,
            Scope::All | Scope::Target(..) => true,
        }
    }
}
