//! What a pass does with a batch of targets, in the partition in hand.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::drift::{Finding, Kind};
use super::error::Left;
use super::look::{BATCH, Looked, Purpose, Why, look};
use super::mend::{Outcome, mend};
use super::pass::{Pass, grouped};
use super::tally::row;
use crate::model::{Id, Partition};
use crate::sink::DriftRow;
use crate::store::Store;

/// Targets remembered for a second look, of each sort. What is beyond is left to the next pass.
pub(super) const REMEMBERED: usize = 200_000;

/// What is done with a batch of targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Look,
    /// At what was in flight.
    LookAgain,
    /// Says what differs, and that nothing was done about it.
    Tell(Outcome),
    Mend,
}

impl Pass<'_> {
    pub(super) async fn by_partition(&mut self, store: &Store, targets: BTreeSet<(Partition, Id)>, step: Step) {
        for (partition, targets) in grouped(targets) {
            for batch in targets.chunks(BATCH) {
                if let Err(left) = self.step(store, partition, batch, step).await {
                    self.leave(Some(partition), &left);
                    break;
                }
            }
            if self.away {
                return;
            }
        }
    }

    pub(super) async fn step(
        &mut self,
        store: &Store,
        partition: Partition,
        batch: &[Id],
        step: Step,
    ) -> Result<(), Left> {
        match step {
            Step::Mend => {
                let mended = self.mend(store, partition, batch).await?;
                self.found(partition, mended).await;
                return Ok(());
            }
            Step::Tell(outcome) => {
                for looked in self.look(store, partition, batch, Purpose::Confirm).await? {
                    let left = |finding: &Finding| finding.is_left(looked.by_target) && outcome == Outcome::Refused;
                    let of = |finding| {
                        let outcome = if left(&finding) { Outcome::Left } else { outcome };
                        (looked.target, finding, outcome)
                    };
                    self.found(partition, looked.findings.into_iter().map(of).collect()).await;
                }
                return Ok(());
            }
            Step::Look | Step::LookAgain if self.is_over() => {
                self.tally.skip(Why::Time, batch.len() as u64);
                return Ok(());
            }
            Step::Look | Step::LookAgain => {}
        }
        for looked in self.look(store, partition, batch, Purpose::Suspect).await? {
            let place = (partition, looked.target);
            let later = step == Step::Look && looked.skipped == Some(Why::InFlight) && self.deferred.len() < REMEMBERED;
            if later {
                self.deferred.insert(place);
            } else {
                self.tally.looked(partition.target_type, &looked);
                self.progress.advanced(1);
            }
            if looked.findings.is_empty() {
                continue;
            }
            if self.suspects.len() < REMEMBERED {
                self.suspects.insert(place);
            } else {
                self.tally.skip(Why::TooMany, 1);
            }
        }
        Ok(())
    }

    /// Whether no more is to be looked at; what was found is still seen to.
    pub(super) fn is_over(&mut self) -> bool {
        self.out_of_time |= Instant::now() > self.deadline;
        self.out_of_time || self.away
    }

    /// Looks a second time at what differed. Answers what still does.
    pub(super) async fn confirm(&mut self, store: &Store) -> BTreeSet<(Partition, Id)> {
        let suspects = std::mem::take(&mut self.suspects);
        let mut differing = BTreeSet::new();
        for (partition, targets) in grouped(suspects) {
            for batch in targets.chunks(BATCH) {
                match self.look(store, partition, batch, Purpose::Confirm).await {
                    Ok(looked) => {
                        let drift = looked.into_iter().filter(|looked| !looked.findings.is_empty());
                        differing.extend(drift.map(|looked| (partition, looked.target)));
                    }
                    Err(left) => {
                        self.leave(Some(partition), &left);
                        break;
                    }
                }
            }
            if self.away {
                break;
            }
        }
        differing
    }

    async fn mend(
        &mut self,
        store: &Store,
        partition: Partition,
        batch: &[Id],
    ) -> Result<Vec<(Id, Finding, Outcome)>, Left> {
        let mut hand = self.in_hand(store, partition).await?;
        match mend(&mut hand, &self.context.vocabulary, batch).await {
            Ok(mended) => {
                self.hand = Some((partition, hand));
                Ok(mended)
            }
            Err(error) => {
                hand.release().await;
                Err(error.into())
            }
        }
    }

    async fn look(
        &mut self,
        store: &Store,
        partition: Partition,
        batch: &[Id],
        purpose: Purpose,
    ) -> Result<Vec<Looked>, Left> {
        let mut hand = self.in_hand(store, partition).await?;
        match look(&mut hand, &self.context.vocabulary, batch, purpose).await {
            Ok(looked) => {
                self.hand = Some((partition, hand));
                Ok(looked)
            }
            Err(error) => {
                hand.release().await;
                Err(error.into())
            }
        }
    }

    pub(super) fn leave(&mut self, partition: Option<Partition>, left: &Left) {
        let words = left.to_string();
        self.away |= left.is_away();
        tracing::warn!(partition = partition.map(|p| p.to_string()), "not reconciled: {words}");
        self.trouble.push((partition, matches!(left, Left::Busy(_)), words));
    }

    /// Tells of rows whose codes are not configured: how many of each, and one of their targets.
    pub(super) async fn tell_unconfigured(&mut self) {
        for ((target_type, interaction), (target, rows)) in std::mem::take(&mut self.tally.unconfigured) {
            let (before, kind) = (Some(rows.to_string()), Kind::Unconfigured);
            let finding = Finding { interaction, user: None, kind, before, after: None, row_ms: 0, kept_count: None };
            self.found(Partition { target_type, shard: 0 }, vec![(target, finding, Outcome::Left)]).await;
        }
    }

    /// Counts drifts, and keeps them, but for a dry run.
    pub(super) async fn found(&mut self, partition: Partition, found: Vec<(Id, Finding, Outcome)>) {
        let target_type = partition.target_type;
        for (target, finding, outcome) in &found {
            self.tally.found(target_type, *target, finding, *outcome);
        }
        if self.request.dry_run || found.is_empty() {
            return;
        }
        let rows: Vec<DriftRow> =
            found.iter().map(|(target, finding, outcome)| row(target_type, *target, finding, *outcome)).collect();
        if let Err(error) = self.session.record_drifts(&self.run_id, rows).await {
            tracing::warn!(%error, "drifts could not be recorded in reconcile_drift");
        }
    }
}
