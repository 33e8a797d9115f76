//! The work of a lease holder on one partition: claim, then drain what is claimed.

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::lag::Lag;
use super::pipeline::{Pending, Pipeline};
use super::progress::Progress;
use super::report::Tally;
use super::slab::Slab;
use crate::failpoint;
use crate::model::{Change, Chunk, CountRow, CountValue, Id, Scan, Vocabulary};
use crate::store::{Acked, BadMark, Corrected, Following, Holder, Marks};

/// Changes in one chunk at most. Its reads hold Redis for about a millisecond.
const CHUNK: usize = 2_000;

/// Chunks after which the journal of degraded writes is looked at, which may have grown since.
const REPLAYED: usize = 50;

/// How a partition is worked on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'c> {
    pub(super) vocabulary: &'c Vocabulary,
    /// `sync.batch_rows`
    pub(super) batch_rows: usize,
    /// `sync.verify_limit`
    pub(super) verify_limit: u64,
}

impl Rules<'_> {
    /// Changes in one chunk.
    pub(super) fn chunk(&self) -> usize {
        self.batch_rows.clamp(1, CHUNK)
    }
}

/// When counts are compared with their states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verifying {
    /// With the ack of what is held of the target, while the connections are at work.
    Acked,
    /// All those acked, before the drain ends: of a crashed run too, and after scans.
    AtTheEnd,
}

/// A partition under a lease.
pub(super) struct Work<'c> {
    pub(super) holder: Holder,
    pub(super) pipeline: Pipeline,
    /// Whether the journal of degraded writes had rows when the lease was taken.
    pub(super) journaled: bool,
    pub(super) verifying: Verifying,
    pub(super) rules: Rules<'c>,
    pub(super) tally: Tally,
    pub(super) lag: Lag,
    pub(super) progress: &'c Progress,
    /// The process is asked to stop, or the lease is lost.
    pub(super) stop: CancellationToken,
}

impl Work<'_> {
    /// Replays, drains what a crashed run left, then claims once and drains that.
    pub(super) async fn run(&mut self) -> Result<(), RunError> {
        if self.journaled {
            self.replay().await?;
        }
        loop {
            self.go_on()?;
            let Some(claim) = self.holder.claim().await? else { return Ok(()) };
            failpoint::hit("after_claim");
            tracing::debug!(partition = %self.holder.partition(), ?claim, "claimed");
            self.progress.found(claim.targets + claim.changes);
            self.drain(false, claim.resumed).await?;
            if !claim.resumed {
                return Ok(());
            }
        }
    }

    /// Scans targets whole that need not be dirty.
    pub(super) async fn rescan(&mut self, targets: &[Id]) -> Result<(), RunError> {
        let enlisted = self.holder.enlist(targets).await?;
        self.progress.found(enlisted);
        self.drain(true, false).await
    }

    /// Scans every target whole that Redis knows.
    pub(super) async fn rescan_all(&mut self) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            self.go_on()?;
            let (next, targets) = self.holder.scan_known(cursor).await?;
            let enlisted = self.holder.enlist(&targets).await?;
            self.progress.found(enlisted);
            cursor = next;
            if cursor == 0 {
                return self.drain(true, false).await;
            }
        }
    }

    async fn drain(&mut self, whole: bool, resumed: bool) -> Result<(), RunError> {
        let acked = self.after_changes(whole);
        let at_once = acked == Acked::Done && !resumed;
        self.verifying = if at_once { Verifying::Acked } else { Verifying::AtTheEnd };
        let mut drained = self.drain_changes(acked).await;
        if drained.is_ok() {
            drained = self.drain_scans(whole).await;
        }
        if let Err(RunError::Stopped) = drained {
            // What is handed over is copied yet: counts that were set right have no mark.
            self.settle().await?;
        }
        drained?;
        if self.verifying == Verifying::AtTheEnd {
            self.verify_acked().await?;
        }
        match self.holder.finish().await? {
            (0, 0) => self.replay().await,
            (targets, changes) => Err(RunError::Stuck { targets, changes }),
        }
    }

    /// Targets whose changes are acked are done with, unless they are scanned yet.
    fn after_changes(&self, whole: bool) -> Acked {
        let scan = self.rules.vocabulary.interactions.iter().any(|i| i.scan == Scan::Full);
        if whole || scan { Acked::ToScan } else { Acked::Done }
    }

    async fn drain_changes(&mut self, acked: Acked) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            let slab = Slab::read(&self.holder, Marks::Claimed, cursor, &self.stop).await?;
            cursor = slab.cursor;
            let mut before = None;
            for (number, (changes, after)) in slab.pieces(self.rules.chunk()).enumerate() {
                self.go_on()?;
                let first = changes.first().map(|change| change.target);
                let ends = first == before && first != after;
                let pause = number > 0 && number % REPLAYED == 0;
                if ends || pause {
                    // A count is said to be settled only when every change of its target is committed.
                    self.settle().await?;
                }
                if pause {
                    self.replay().await?;
                }
                before = changes.last().map(|change| change.target);
                let following = match after {
                    _ if cursor != 0 => Following::Pages,
                    Some(target) => Following::From(target),
                    None => Following::Nothing,
                };
                let chunk = self.holder.read_changes(&changes, following).await?;
                failpoint::hit("after_read");
                let targets = targets_of(&changes);
                let ended = targets.iter().copied().filter(|&target| Some(target) != after).collect();
                self.push(chunk, Pending { changes, targets, acked, ended, ..Pending::none() }).await?;
            }
            for piece in slab.bad.chunks(self.rules.chunk()) {
                let chunk = self.set_aside(piece).await?;
                self.push(chunk, Pending { bad_changes: piece.to_vec(), ..Pending::none() }).await?;
            }
            // All acked before the next page, so that no change is read again meanwhile.
            self.settle().await?;
            self.replay().await?;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// A chunk that only sets marks aside.
    pub(super) async fn set_aside(&mut self, bad: &[BadMark]) -> Result<Chunk, RunError> {
        let mut chunk = self.holder.read_changes(&[], Following::Nothing).await?;
        chunk.rejected.extend(bad.iter().map(|mark| mark.rejected.clone()));
        Ok(chunk)
    }

    /// Compares the counts of the targets of this drain with their states, once each.
    async fn verify_acked(&mut self) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            self.go_on()?;
            let (next, targets) = self.holder.scan_done(cursor).await?;
            self.verify(&targets).await?;
            self.settle().await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Compares counts with their states, and hands over those that were set right.
    async fn verify(&mut self, targets: &[Id]) -> Result<(), RunError> {
        let interactions = self.rules.vocabulary.interactions.iter().filter(|i| i.has_states());
        let items: Vec<(Id, u16)> =
            targets.iter().flat_map(|&target| interactions.clone().map(move |i| (target, i.code))).collect();
        let corrected = self.holder.verify(&items, self.rules.verify_limit).await?;
        if corrected.is_empty() {
            return Ok(());
        }
        let mut chunk = self.set_aside(&[]).await?;
        let at_ms = Utc::now().timestamp_millis();
        for Corrected { target, interaction, before, after } in corrected {
            self.drifted(target, interaction, &before, after);
            let value = CountValue::Known(after);
            // Whether the target was written again meanwhile is not asked.
            chunk.counts.push(CountRow { target, interaction, value, at_ms, settled: false });
        }
        chunk.counts.sort_unstable_by_key(|row| (row.target, row.interaction));
        Ok(self.pipeline.submit(chunk, Pending::none())?)
    }

    /// Reports a count that disagreed with its states.
    pub(super) fn drifted(&mut self, target: Id, interaction: u16, count: &str, active: i64) {
        self.tally.drift += 1;
        let partition = self.holder.partition();
        tracing::warn!(%partition, %target, interaction, count, active, "the Redis count disagreed with its states");
    }

    /// Hands a chunk over, and acks older ones until there is room for the next: the connections are at work meanwhile.
    pub(super) async fn push(&mut self, chunk: Chunk, pending: Pending) -> Result<(), RunError> {
        self.pipeline.submit(chunk, pending)?;
        while self.pipeline.is_full() && self.ack_oldest().await? {}
        Ok(())
    }

    /// Waits until everything handed over is committed and acked.
    pub(super) async fn settle(&mut self) -> Result<(), RunError> {
        while self.ack_oldest().await? {}
        Ok(())
    }

    async fn ack_oldest(&mut self) -> Result<bool, RunError> {
        let Some(committed) = self.pipeline.next().await else { return Ok(false) };
        let Pending { changes, targets, acked, ended, bad_changes, bad_targets } = committed?;
        failpoint::hit("before_ack");
        if !(changes.is_empty() && bad_changes.is_empty() && targets.is_empty()) {
            let first = self.holder.ack(&changes, &bad_changes, &targets, acked).await?;
            self.lag.ended(Utc::now().timestamp_millis(), changes.iter().map(|change| change.at_ms));
            let marks = (changes.len() + bad_changes.len()) as u64;
            self.tally.targets += first;
            self.tally.changes += marks;
            self.progress.advanced(first + marks);
        }
        if self.verifying == Verifying::Acked {
            self.verify(&ended).await?;
        }
        if !bad_targets.is_empty() {
            self.holder.discard(&bad_targets).await?;
            self.progress.advanced(bad_targets.len() as u64);
        }
        Ok(true)
    }

    pub(super) fn go_on(&self) -> Result<(), RunError> {
        go_on(&self.stop)
    }
}

pub(super) fn go_on(stop: &CancellationToken) -> Result<(), RunError> {
    if stop.is_cancelled() { Err(RunError::Stopped) } else { Ok(()) }
}

fn targets_of(changes: &[Change]) -> Vec<Id> {
    changes.chunk_by(|a, b| a.target == b.target).map(|group| group[0].target).collect()
}
