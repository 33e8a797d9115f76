//! A pass: look at everything once, at what differs again, and repair what still does.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hand::Hand;
use super::health::health;
use super::look::Why;
use super::mend::Outcome;
use super::report::Report;
use super::request::{Request, Scope, Trigger};
use super::resume::Place;
use super::steps::Step;
use super::tally::Tally;
use crate::model::{Id, Partition};
use crate::sink::{PassRow, Session};
use crate::store::Store;
use crate::sync::run::{new_run_id, ready};
use crate::sync::{Context, Progress};

/// How long a pass may take: a sample is due every hour, all of it every night.
const SAMPLE_BUDGET: Duration = Duration::from_mins(20);
pub(super) const BUDGET: Duration = Duration::from_hours(8);

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
    match health(context, request.trigger).await {
        Ok((sync, degraded, losses)) => {
            report.sync_health = Some(sync);
            report.degraded = Some(degraded);
            report.losses = Some(losses);
        }
        Err(error) => tracing::debug!(%error, "the runs since the last pass could not be summed up"),
    }
    if request.trigger != Trigger::Command {
        log(&report);
    }
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
        if let Err(error) = session.record_pass(row, context.settings.now().reconcile.keep_days).await {
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
    pub(super) begun: Instant,
    pub(super) deadline: Instant,
    pub(super) out_of_time: bool,
    /// A server is away.
    pub(super) away: bool,
    /// When the work began of which this pass is a part, Unix ms.
    pub(super) started_ms: i64,
    /// The pass that this one goes on with.
    pub(super) continues: Option<String>,
    pub(super) place: Place,
    pub(super) place_kept: Instant,
    /// Where the first suspect is; it is looked at again if the pass is cut short.
    pub(super) open: Option<Place>,
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
            begun: now,
            deadline: now + if request.trigger == Trigger::Sample { SAMPLE_BUDGET } else { BUDGET },
            out_of_time: false,
            away: false,
            started_ms: Utc::now().timestamp_millis(),
            continues: None,
            place: Place::default(),
            place_kept: now,
            open: None,
            looked_at_load: now,
        }
    }

    async fn run(&mut self, store: &Store) {
        if let Err(error) = self.take_up().await {
            return self.leave(None, &error.into());
        }
        self.look_at_all(store).await;
        let deferred = std::mem::take(&mut self.deferred);
        self.by_partition(store, deferred, Step::LookAgain).await;
        let differing = self.confirm(store).await;
        self.tally.differing = differing.len() as u64;
        // Of what is in flight, counts were compared with their own states.
        let in_flight = self.tally.skipped.get(Why::InFlight.as_str()).copied().unwrap_or_default();
        let compared = self.tally.looked_at + in_flight;
        let share = 100.0 * as_float(self.tally.differing) / as_float(compared.max(1));
        let limit = self.context.settings.now().reconcile.stop_percent;
        let targeted = matches!(self.request.scope, Scope::Target(..));
        if !targeted && share > limit {
            self.stopped = Some(format!(
                "{} of {} targets differ ({share:.1} %), more than reconcile.stop_percent ({limit} %): nothing was written",
                self.tally.differing, compared
            ));
        }
        let step = match (self.request.dry_run, &self.stopped) {
            (true, _) => Step::Tell(Outcome::Dry),
            (false, Some(_)) => Step::Tell(Outcome::Refused),
            (false, None) => Step::Mend,
        };
        self.by_partition(store, differing, step).await;
        self.let_go().await;
        self.tell_unconfigured().await;
        self.put_down().await;
        if self.out_of_time {
            let hours = (self.deadline - self.begun).as_secs_f64() / 3600.0;
            let words = format!("the time of the pass, {hours:.1} h, was over; the next one goes on there");
            self.trouble.push((None, false, words));
        }
    }
}

pub(super) fn grouped(targets: BTreeSet<(Partition, Id)>) -> BTreeMap<Partition, Vec<Id>> {
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
