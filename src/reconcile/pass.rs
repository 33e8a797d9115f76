//! A pass: look at everything once, at what differs again, and repair what still does.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::Left;
use super::hand::Hand;
use super::health::health;
use super::look::{BATCH, Looked, Purpose, Why, look};
use super::mend::{Outcome, mend};
use super::report::Report;
use super::request::{Request, Scope, Trigger};
use super::tally::{Tally, row};
use crate::model::{Id, Partition};
use crate::sink::{DriftRow, PassRow, Session};
use crate::store::Store;
use crate::sync::run::{new_run_id, ready};
use crate::sync::{Context, Progress};

/// Targets remembered for a second look, of each sort. What is beyond is left to the next pass.
pub(super) const REMEMBERED: usize = 200_000;
/// How long a pass may take: a sample is due every hour, all of it every night.
const SAMPLE_BUDGET: Duration = Duration::from_mins(20);
const BUDGET: Duration = Duration::from_hours(8);

/// One pass. It waits for leases as long as it is told, stops between batches when `stop` is cancelled, never panics, and
/// always says what it did.
pub async fn reconcile(context: &Context, request: Request, progress: &Progress, stop: &CancellationToken) -> Report {
    let (started_at, run_id) = (Utc::now(), new_run_id());
    let mut pass = Pass::new(context, request, run_id, progress, stop);
    match ready(context, !request.dry_run).await {
        Ok(store) => pass.run(&store).await,
        Err(error) => pass.trouble.push((None, false, format!("{error:#}"))),
    }
    let duration_ms = (Utc::now() - started_at).num_milliseconds().try_into().unwrap_or_default();
    let mut report = pass.report(started_at.to_rfc3339_opts(SecondsFormat::Millis, true), duration_ms);
    match health(context).await {
        Ok((sync, degraded, losses)) => {
            report.sync_health = Some(sync);
            report.degraded = Some(degraded);
            report.losses = Some(losses);
        }
        Err(error) => tracing::debug!(%error, "the runs since the last pass could not be summed up"),
    }
    log(&report);
    if !request.dry_run {
        let row = PassRow {
            run_id: report.run_id.clone(),
            caused_by: report.trigger,
            owner: context.owner.clone(),
            started_at,
            duration_ms: report.duration_ms.try_into().unwrap_or(i64::MAX),
            outcome: report.outcome.as_str(),
            report: serde_json::to_string(&report).unwrap_or_default(),
        };
        let mut session = context.sink.session();
        if let Err(error) = session.record_pass(row, context.config.reconcile.keep_days).await {
            tracing::warn!(run_id = report.run_id, %error, "the pass could not be recorded in reconcile_run");
        }
        session.close().await;
    }
    report
}

fn log(report: &Report) {
    let Report { run_id, trigger, looked_at, of, skipped, differing, repaired, residual, duration_ms, .. } = report;
    let (outcome, error) = (report.outcome.as_str(), report.error.as_deref().unwrap_or_default());
    tracing::info!(
        run_id,
        trigger,
        outcome,
        looked_at,
        of,
        skipped,
        differing,
        repaired,
        residual,
        duration_ms,
        error,
        "reconciled"
    );
}

pub(super) struct Pass<'c> {
    pub(super) context: &'c Context,
    pub(super) request: Request,
    pub(super) run_id: String,
    pub(super) progress: &'c Progress,
    pub(super) stop: &'c CancellationToken,
    pub(super) hand: Option<(Partition, Hand)>,
    /// Enumerates, and keeps what is found; no lease concerns it.
    pub(super) session: Session,
    pub(super) tally: Tally,
    /// Differed at the first look.
    pub(super) suspects: BTreeSet<(Partition, Id)>,
    /// In flight at the first look.
    pub(super) deferred: BTreeSet<(Partition, Id)>,
    pub(super) chosen: RandomState,
    /// A partition that is left, whether for another owner, and why.
    pub(super) trouble: Vec<(Option<Partition>, bool, String)>,
    pub(super) stopped: Option<String>,
    pub(super) deadline: Instant,
    pub(super) looked_at_load: Instant,
}

impl<'c> Pass<'c> {
    fn new(
        context: &'c Context,
        request: Request,
        run_id: String,
        progress: &'c Progress,
        stop: &'c CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            context,
            request,
            run_id,
            progress,
            stop,
            hand: None,
            session: context.sink.session(),
            tally: Tally::new(&context.vocabulary),
            suspects: BTreeSet::new(),
            deferred: BTreeSet::new(),
            chosen: RandomState::new(),
            trouble: Vec::new(),
            stopped: None,
            deadline: now + if request.trigger == Trigger::Sample { SAMPLE_BUDGET } else { BUDGET },
            looked_at_load: now,
        }
    }

    async fn run(&mut self, store: &Store) {
        self.look_at_all(store).await;
        let deferred = std::mem::take(&mut self.deferred);
        self.by_partition(store, deferred, Step::LookAgain).await;
        let differing = self.confirm(store).await;
        // Of what is in flight, counts were compared with their own states.
        let in_flight = self.tally.skipped.get(Why::InFlight.as_str()).copied().unwrap_or_default();
        let compared = self.tally.looked_at + in_flight;
        let share = 100.0 * as_float(self.tally.differing) / as_float(compared.max(1));
        let limit = self.context.config.reconcile.stop_percent;
        let targeted = matches!(self.request.scope, Scope::Target(..));
        if !targeted && share > limit {
            self.stopped = Some(format!(
                "{} of {} targets differ ({share:.1} %), more than reconcile.stop_percent ({limit} %): nothing was written",
                self.tally.differing, compared
            ));
        }
        if self.request.dry_run || self.stopped.is_some() {
            let outcome = if self.request.dry_run { Outcome::Dry } else { Outcome::Refused };
            for (partition, looked) in differing {
                let of = |finding| (looked.target, finding, outcome);
                self.found(partition, looked.findings.into_iter().map(of).collect()).await;
            }
        } else {
            let targets = differing.into_iter().map(|(partition, looked)| (partition, looked.target)).collect();
            self.by_partition(store, targets, Step::Mend).await;
        }
        self.let_go().await;
    }

    /// Looks a second time at what differed.
    async fn confirm(&mut self, store: &Store) -> Vec<(Partition, Looked)> {
        let suspects = std::mem::take(&mut self.suspects);
        let mut differing = Vec::new();
        for (partition, targets) in grouped(suspects) {
            for batch in targets.chunks(BATCH) {
                match self.look(store, partition, batch, Purpose::Confirm).await {
                    Ok(looked) => {
                        let drift = looked.into_iter().filter(|looked| !looked.findings.is_empty());
                        differing.extend(drift.map(|looked| (partition, looked)));
                    }
                    Err(left) => {
                        self.leave(Some(partition), &left);
                        break;
                    }
                }
            }
        }
        let real = |looked: &Looked| looked.findings.iter().any(|f| f.kind != super::drift::Kind::Unconfigured);
        self.tally.differing = differing.iter().filter(|(_, looked)| real(looked)).count() as u64;
        differing
    }

    pub(super) async fn by_partition(&mut self, store: &Store, targets: BTreeSet<(Partition, Id)>, step: Step) {
        for (partition, targets) in grouped(targets) {
            for batch in targets.chunks(BATCH) {
                if let Err(left) = self.step(store, partition, batch, step).await {
                    self.leave(Some(partition), &left);
                    break;
                }
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
        if Instant::now() > self.deadline {
            self.tally.skip(Why::Time, batch.len() as u64);
            return Ok(());
        }
        if step == Step::Mend {
            let mut hand = self.in_hand(store, partition).await?;
            let mended = match mend(&mut hand, &self.context.vocabulary, batch).await {
                Ok(mended) => mended,
                Err(error) => {
                    hand.release().await;
                    return Err(error.into());
                }
            };
            self.hand = Some((partition, hand));
            self.found(partition, mended).await;
            return Ok(());
        }
        for looked in self.look(store, partition, batch, Purpose::Suspect).await? {
            let place = (partition, looked.target);
            let later = step == Step::Look && looked.skipped == Some(Why::InFlight) && self.deferred.len() < REMEMBERED;
            if later {
                self.deferred.insert(place);
            } else {
                self.tally.looked(&looked);
                self.progress.advanced(1);
            }
            if !looked.findings.is_empty() && self.suspects.len() < REMEMBERED {
                self.suspects.insert(place);
            }
        }
        Ok(())
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
        tracing::warn!(partition = partition.map(|p| p.to_string()), "not reconciled: {words}");
        self.trouble.push((partition, matches!(left, Left::Busy(_)), words));
    }

    /// Counts drifts, and keeps them, but for a dry run.
    pub(super) async fn found(&mut self, partition: Partition, found: Vec<(Id, super::drift::Finding, Outcome)>) {
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

/// What is done with a batch of targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Look,
    /// At what was in flight.
    LookAgain,
    Mend,
}

fn grouped(targets: BTreeSet<(Partition, Id)>) -> BTreeMap<Partition, Vec<Id>> {
    let mut grouped = BTreeMap::<Partition, Vec<Id>>::new();
    for (partition, target) in targets {
        grouped.entry(partition).or_default().push(target);
    }
    grouped
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with one digit")]
pub(super) fn as_float(number: u64) -> f64 {
    number as f64
}
