//! A dry run: the same reading, and nothing else.

use std::collections::{HashMap, HashSet};

use super::error::RunError;
use super::partition;
use super::report::{Outcome, PartitionReport, Tally};
use super::run::{Context, Extent};
use super::scan::items_of;
use crate::model::{Change, Checkpoint, Chunk, Id, Partition};
use crate::sink::{Lease, Writer};
use crate::store::{Holder, Marks, ScanItem, Store};

/// Targets whose pages are read together.
const TARGETS: usize = 32;

/// Looks at every partition. It remembers the targets it has met, and needs memory for them.
pub(super) async fn partitions(context: &Context, store: &Store, extent: Extent) -> Vec<PartitionReport> {
    let kept = match checkpoints(context).await {
        Ok(kept) => kept,
        Err(error) => {
            let failed = |p| PartitionReport::untouched(p, Outcome::Failed, error.to_string());
            return context.partitions().into_iter().map(failed).collect();
        }
    };
    let mut reports = Vec::new();
    for partition in context.partitions() {
        if let Some(report) = refused(store, partition, kept.get(&partition).copied().unwrap_or_default()).await {
            reports.push(report);
            continue;
        }
        let mut look = Look::new(context, store, partition);
        let outcome = look.look(extent, store).await;
        look.writer.close().await;
        let Partition { target_type, shard } = partition;
        let (outcome, error) = match outcome {
            Ok(()) => (Outcome::Done, None),
            Err(error) => (Outcome::Failed, Some(error.to_string())),
        };
        reports.push(PartitionReport { target_type, shard, outcome, error, tally: look.tally });
    }
    reports
}

async fn checkpoints(context: &Context) -> Result<HashMap<Partition, Checkpoint>, RunError> {
    let mut session = context.sink.session();
    let rows = session.partitions().await?;
    session.close().await;
    Ok(rows.into_iter().filter_map(|row| Some((row.partition, row.checkpoint.parse().ok()?))).collect())
}

/// What a run would refuse, by the look of it.
async fn refused(store: &Store, partition: Partition, mysql: Checkpoint) -> Option<PartitionReport> {
    let backlog = match store.backlog(partition).await {
        Ok(backlog) => backlog,
        Err(error) => return Some(PartitionReport::untouched(partition, Outcome::Failed, error.to_string())),
    };
    let refused = |error| Some(PartitionReport::untouched(partition, Outcome::Refused, error));
    let found = backlog.checkpoint.unwrap_or_default();
    if backlog.restoring {
        return refused(partition::RESTORING.to_owned());
    }
    let held: Checkpoint = if found.is_empty() { Checkpoint::default() } else { found.parse().unwrap_or_default() };
    if held < mysql { refused(partition::lost(&found, mysql)) } else { None }
}

struct Look<'c> {
    context: &'c Context,
    holder: Holder,
    writer: Writer,
    tally: Tally,
}

impl<'c> Look<'c> {
    fn new(context: &'c Context, store: &Store, partition: Partition) -> Self {
        let lease = Lease { partition, token: 0, checkpoint: Checkpoint::default() };
        let writer = Writer::new(&context.sink, lease, "", context.vocabulary.clone());
        Self { context, holder: store.dry(partition), writer, tally: Tally::default() }
    }

    async fn look(&mut self, extent: Extent, store: &Store) -> Result<(), RunError> {
        let mut met = HashSet::new();
        for marks in [Marks::Claimed, Marks::Fresh] {
            self.changes(marks, &mut met).await?;
        }
        self.tally.targets = met.len() as u64;
        for marks in [Marks::Claimed, Marks::Fresh] {
            self.dirty(marks, &met).await?;
        }
        match extent {
            Extent::Changed => Ok(()),
            Extent::All => self.known().await,
            Extent::Target(target_type, target) => {
                let here = store.keys().partition(target_type, target) == self.holder.partition();
                if here { self.scan(&[(target, false)]).await } else { Ok(()) }
            }
        }
    }

    async fn changes(&mut self, marks: Marks, met: &mut HashSet<Id>) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let page = self.holder.scan_changes(marks, cursor).await?;
            let mut changes: Vec<Change> = page.changes;
            changes.sort_unstable();
            changes.dedup();
            met.extend(changes.iter().map(|change| change.target));
            self.tally.changes += (changes.len() + page.bad.len()) as u64;
            self.tally.rejected += page.bad.len() as u64;
            let chunk = self.holder.read_changes(&changes).await?;
            self.count(chunk).await?;
            cursor = page.cursor;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn dirty(&mut self, marks: Marks, met: &HashSet<Id>) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let (next, targets, bad) = self.holder.scan_targets(marks, cursor).await?;
            self.tally.rejected += bad.len() as u64;
            self.tally.targets += targets.iter().filter(|(target, _)| !met.contains(target)).count() as u64;
            let targets: Vec<(Id, bool)> =
                targets.into_iter().map(|(target, acked)| (target, acked || met.contains(&target))).collect();
            self.scan(&targets).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn known(&mut self) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let (next, targets) = self.holder.scan_known(cursor).await?;
            let targets: Vec<(Id, bool)> = targets.into_iter().map(|target| (target, false)).collect();
            self.scan(&targets).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn scan(&mut self, targets: &[(Id, bool)]) -> Result<(), RunError> {
        for batch in targets.chunks(TARGETS) {
            let rules = self.context.rules();
            let mut items: Vec<ScanItem> =
                batch.iter().flat_map(|&(target, acked)| items_of(&rules, target, acked)).collect();
            while !items.is_empty() {
                let (chunk, pages) = self.holder.read_scan(&items).await?;
                self.count(chunk).await?;
                items = pages.into_iter().map(|page| page.item).filter(|item| item.cursor != 0).collect();
            }
        }
        Ok(())
    }

    async fn count(&mut self, chunk: Chunk) -> Result<(), RunError> {
        self.tally.rejected += chunk.rejected.len() as u64;
        self.tally.rows_written += self.writer.would_write(chunk).await?;
        Ok(())
    }
}
