//! A dry run: the same reading, and nothing else.
//!
//! Its figures are those of the run that would follow, while nobody writes; only what MySQL would refuse, and what a
//! newer row would not take, it cannot know, nor what becomes of degraded writes beyond their number.

use std::collections::{HashMap, HashSet};

use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::lag::Lag;
use super::partition;
use super::report::{Outcome, PartitionReport, Tally};
use super::run::{Context, Extent};
use super::scan::{COUNTED, TARGETS, items_of};
use super::slab::Slab;
use super::work::Rules;
use crate::model::{Change, Checkpoint, Chunk, Id, Partition};
use crate::sink::{Lease, Writer};
use crate::store::{Corrected, Following, Holder, Loss, LossKind, Marks, ScanItem, Scanned, Store, StoreError};

/// Looks at every partition. It remembers the targets it has met and scanned, and needs memory for them.
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
        if let Some(report) = lost(store, partition, kept.get(&partition).copied().unwrap_or_default()).await {
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
        reports.push(PartitionReport {
            target_type,
            shard,
            outcome,
            error,
            restored: None,
            tally: look.tally,
            lag: Lag::default(),
        });
    }
    reports
}

pub(crate) async fn checkpoints(context: &Context) -> Result<HashMap<Partition, Checkpoint>, RunError> {
    let mut session = context.sink.session();
    let rows = session.partitions().await?;
    session.close().await;
    Ok(rows.into_iter().filter_map(|row| Some((row.partition, row.checkpoint.parse().ok()?))).collect())
}

/// What Redis has lost, by the look of it.
pub(crate) async fn loss(store: &Store, partition: Partition, mysql: Checkpoint) -> Result<Option<Loss>, StoreError> {
    let backlog = store.backlog(partition).await?;
    let found = backlog.checkpoint.unwrap_or_default();
    let held: Checkpoint = found.parse().unwrap_or_default();
    let kind = match (backlog.restoring, held < mysql) {
        (true, _) => LossKind::Interrupted,
        (false, true) if found.is_empty() => LossKind::Missing,
        (false, true) => LossKind::Older,
        (false, false) => return Ok(None),
    };
    Ok(Some(Loss { kind, found }))
}

/// What a run would have to restore first.
async fn lost(store: &Store, partition: Partition, mysql: Checkpoint) -> Option<PartitionReport> {
    let found = match loss(store, partition, mysql).await {
        Ok(found) => found?,
        Err(error) => return Some(PartitionReport::untouched(partition, Outcome::Failed, error.to_string())),
    };
    let lost = partition::lost(&found, mysql);
    let error = format!("{lost}; a run would restore it first: what would be kept and copied then is not known yet");
    Some(PartitionReport::untouched(partition, Outcome::Partial, error))
}

/// A target and an interaction.
type Item = (Id, u16);

struct Look<'c> {
    rules: Rules<'c>,
    holder: Holder,
    writer: Writer,
    tally: Tally,
    /// Whose changes have been looked at: of the marks that are looked at, and of those before.
    marks: Vec<Marks>,
    /// Scanned already, so that a run would find their rows in MySQL.
    scanned: HashSet<Item>,
    /// Counts that a run would have set right, or no longer trusted, by now.
    settled: HashSet<Item>,
}

impl<'c> Look<'c> {
    fn new(context: &'c Context, store: &Store, partition: Partition) -> Self {
        let lease = Lease { partition, token: 0, checkpoint: Checkpoint::default() };
        Self {
            rules: context.rules(),
            holder: store.dry(partition),
            writer: Writer::new(&context.sink, lease, "", context.vocabulary.clone()),
            tally: Tally::default(),
            marks: vec![],
            scanned: HashSet::new(),
            settled: HashSet::new(),
        }
    }

    async fn look(&mut self, extent: Extent, store: &Store) -> Result<(), RunError> {
        self.tally.replayed = self.writer.journal_length().await?;
        for marks in [Marks::Claimed, Marks::Fresh] {
            self.marks.push(marks);
            let met = self.changes(marks).await?;
            self.dirty(marks, &met).await?;
        }
        match extent {
            Extent::Changed => Ok(()),
            Extent::All => self.known().await,
            Extent::Target(target_type, target) => {
                let here = store.keys().partition(target_type, target) == self.holder.partition();
                if here { self.rescan(&[target]).await } else { Ok(()) }
            }
        }
    }

    /// Answers the targets met.
    async fn changes(&mut self, marks: Marks) -> Result<HashSet<Id>, RunError> {
        let mut met = HashSet::new();
        let mut cursor = 0;
        loop {
            let slab = Slab::read(&self.holder, marks, cursor, &CancellationToken::new()).await?;
            self.tally.changes += slab.bad.len() as u64;
            self.tally.rejected += slab.bad.len() as u64;
            for (piece, _) in slab.pieces(self.rules.chunk()) {
                met.extend(piece.iter().map(|change| change.target));
                let chunk = self.holder.read_changes(&piece, Following::Nothing).await?;
                self.tally.changes += piece.len() as u64;
                self.tally.rejected += chunk.rejected.len() as u64;
                self.tally.rows_written += (chunk.records.len() + chunk.counts.len()) as u64;
                let read: HashSet<_> = chunk.records.iter().map(|r| (r.target, r.interaction, Some(r.user))).collect();
                let unread = |c: &&Change| c.user.is_some() && !read.contains(&(c.target, c.interaction, c.user));
                self.settled.extend(piece.iter().filter(unread).map(|c| (c.target, c.interaction)));
            }
            cursor = slab.cursor;
            if cursor == 0 {
                return Ok(met);
            }
        }
    }

    async fn dirty(&mut self, marks: Marks, met: &HashSet<Id>) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let (next, targets, bad) = self.holder.scan_targets(marks, cursor).await?;
            self.tally.rejected += bad.len() as u64;
            // Those acked are of a crashed run; a claim forgets them.
            let acked = |acked: bool| acked && marks == Marks::Claimed;
            self.tally.targets += targets.iter().filter(|&&(_, done)| !acked(done)).count() as u64;
            let targets: Vec<(Id, bool)> =
                targets.into_iter().map(|(target, done)| (target, acked(done) || met.contains(&target))).collect();
            self.scan(&targets).await?;
            self.verify(targets.iter().map(|&(target, _)| target)).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        if marks == Marks::Claimed { self.acked_before().await } else { Ok(()) }
    }

    /// What a crashed run acked is verified by the one that ends its work.
    async fn acked_before(&mut self) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let (next, targets) = self.holder.scan_done(cursor).await?;
            self.verify(targets.into_iter()).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn known(&mut self) -> Result<(), RunError> {
        let mut met = HashSet::new();
        let mut cursor = 0;
        loop {
            let (next, mut targets) = self.holder.scan_known(cursor).await?;
            targets.retain(|&target| met.insert(target));
            self.rescan(&targets).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn rescan(&mut self, targets: &[Id]) -> Result<(), RunError> {
        self.tally.targets += targets.len() as u64;
        let whole: Vec<(Id, bool)> = targets.iter().map(|&target| (target, false)).collect();
        self.scan(&whole).await?;
        self.verify(targets.iter().copied()).await
    }

    async fn scan(&mut self, targets: &[(Id, bool)]) -> Result<(), RunError> {
        for batch in targets.chunks(TARGETS) {
            let rules = self.rules;
            let items: Vec<ScanItem> =
                batch.iter().flat_map(|&(target, acked)| items_of(&rules, target, acked)).collect();
            if items.is_empty() {
                continue;
            }
            for page in self.page(&items).await? {
                let (mut page, mut seen) = (page, HashMap::new());
                seen.extend(page.states.iter().copied());
                while page.item.cursor != 0 {
                    let Some(next) = self.page(&[page.item]).await?.pop() else { break };
                    page = next;
                    if seen.len() <= COUNTED {
                        seen.extend(page.states.iter().copied());
                    }
                }
                let active = seen.values().filter(|&&active| active).count().try_into().unwrap_or(i64::MAX);
                let item = (page.item.target, page.item.interaction);
                if seen.len() <= COUNTED && page.vouches() && page.disagrees(active) && !self.settled.contains(&item) {
                    self.tally.drift += 1;
                    self.settled.extend(page.complete.then_some(item));
                }
            }
            self.scanned.extend(items.iter().map(|item| (item.target, item.interaction)));
        }
        Ok(())
    }

    /// Reads a page of each, and counts what a run would write of it.
    async fn page(&mut self, items: &[ScanItem]) -> Result<Vec<Scanned>, RunError> {
        let (Chunk { records, counts, rejected, .. }, pages) = self.holder.read_scan(items).await?;
        let mut rows = self.writer.differing(records).await?;
        rows.retain(|row| !self.scanned.contains(&(row.target, row.interaction)));
        let changed = self.holder.marked(&self.marks, &rows).await?;
        self.tally.rows_written += (changed.iter().filter(|&&changed| !changed).count() + counts.len()) as u64;
        self.tally.rejected += rejected.len() as u64;
        Ok(pages)
    }

    async fn verify(&mut self, targets: impl Iterator<Item = Id>) -> Result<(), RunError> {
        let interactions = self.rules.vocabulary.interactions.iter().filter(|i| i.has_states());
        let items = targets.flat_map(|target| interactions.clone().map(move |i| (target, i.code)));
        let items: Vec<Item> = items.filter(|item| !self.settled.contains(item)).collect();
        for Corrected { target, interaction, .. } in self.holder.verify(&items, self.rules.verify_limit).await? {
            self.tally.drift += 1;
            self.tally.rows_written += 1;
            self.settled.insert((target, interaction));
        }
        Ok(())
    }
}
