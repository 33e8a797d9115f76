//! A pass: look at everything once, at what differs again, and repair what still does.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::Left;
use super::hand::Hand;
use super::health::health;
use super::look::{BATCH, Looked, Purpose, Why, look};
use super::mend::{Outcome, mend};
use super::report::{Report, Verdict};
use super::request::{Request, Scope, Trigger};
use super::tally::{Tally, row};
use crate::model::{Id, Partition};
use crate::sink::{DriftRow, PassRow, Session, SinkError};
use crate::store::Store;
use crate::sync::run::{new_run_id, ready};
use crate::sync::{Context, Progress, RunError};

/// Targets in one page of the enumeration.
const PAGE: usize = 512;
/// Targets remembered for a second look, of each sort. What is beyond is left to the next pass.
const REMEMBERED: usize = 200_000;
/// Between two leases of a partition: longer than anybody who waits for it takes to look.
const BREATH: Duration = Duration::from_millis(300);
/// How often the load of MySQL is looked at, and from how many threads at work on it is left alone.
const LOAD: Duration = Duration::from_secs(1);
const THREADS: u64 = 48;
/// How long it is left alone at most.
const PATIENCE: Duration = Duration::from_mins(1);
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

struct Pass<'c> {
    context: &'c Context,
    request: Request,
    run_id: String,
    progress: &'c Progress,
    stop: &'c CancellationToken,
    hand: Option<(Partition, Hand)>,
    /// Enumerates, and keeps what is found; no lease concerns it.
    session: Session,
    tally: Tally,
    /// Differed at the first look.
    suspects: BTreeSet<(Partition, Id)>,
    /// In flight at the first look.
    deferred: BTreeSet<(Partition, Id)>,
    chosen: RandomState,
    /// A partition that is left, whether for another owner, and why.
    trouble: Vec<(Option<Partition>, bool, String)>,
    stopped: Option<String>,
    deadline: Instant,
    looked_at_load: Instant,
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
        let share = 100.0 * as_float(self.tally.differing) / as_float(self.tally.looked_at.max(1));
        let limit = self.context.config.reconcile.stop_percent;
        let targeted = matches!(self.request.scope, Scope::Target(..));
        if !targeted && share > limit {
            self.stopped = Some(format!(
                "{} of {} targets differ ({share:.1} %), more than reconcile.stop_percent ({limit} %): nothing was written",
                self.tally.differing, self.tally.looked_at
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

    async fn look_at_all(&mut self, store: &Store) {
        if let Scope::Target(target_type, target) = self.request.scope {
            self.tally.of = 1;
            self.progress.found(1);
            let partition = store.keys().partition(target_type, target);
            return self.by_partition(store, BTreeSet::from([(partition, target)]), Step::Look).await;
        }
        for partition in self.context.partitions() {
            if let Err(left) = self.enumerate(store, partition).await {
                self.leave(Some(partition), &left);
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
        let mut after = 0;
        loop {
            let (targets, next) = self.session.targets_page(partition.target_type, after, PAGE).await?;
            let mut targets = targets;
            targets.retain(|&target| store.keys().partition(partition.target_type, target) == partition);
            self.tally.of += targets.len() as u64;
            targets.retain(|&target| self.is_chosen(target));
            self.progress.found(targets.len() as u64);
            for batch in targets.chunks(BATCH) {
                self.step(store, partition, batch, Step::Look).await?;
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
            if cursor == 0 || self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Tells of target types that have rows and are not configured.
    async fn unconfigured_types(&mut self) -> Result<(), SinkError> {
        let mut types = self.session.target_types().await?;
        types.retain(|code| !self.context.vocabulary.targets.iter().any(|target| target.code == *code));
        for code in types {
            let (targets, _) = self.session.targets_page(code, 0, BATCH).await?;
            let held = self.session.held(code, targets, vec![]).await?;
            let found = held.figures.iter().map(|(&(target, interaction), figures)| {
                (target, super::look::unconfigured(interaction, figures), Outcome::Refused)
            });
            self.found(Partition { target_type: code, shard: 0 }, found.collect()).await;
        }
        Ok(())
    }

    fn is_chosen(&self, target: Id) -> bool {
        match self.request.scope {
            Scope::Sample(percent) => as_float(self.chosen.hash_one(target) >> 32) < percent / 100.0 * 4_294_967_296.0,
            Scope::All | Scope::Target(..) => true,
        }
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

    async fn by_partition(&mut self, store: &Store, targets: BTreeSet<(Partition, Id)>, step: Step) {
        for (partition, targets) in grouped(targets) {
            for batch in targets.chunks(BATCH) {
                if let Err(left) = self.step(store, partition, batch, step).await {
                    self.leave(Some(partition), &left);
                    break;
                }
            }
        }
    }

    async fn step(&mut self, store: &Store, partition: Partition, batch: &[Id], step: Step) -> Result<(), Left> {
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

    /// The partition in hand, for as long as a slice goes; then runs may come in between.
    async fn in_hand(&mut self, store: &Store, partition: Partition) -> Result<Hand, Left> {
        self.breathe().await?;
        match self.hand.take() {
            Some((of, hand)) if of == partition && !hand.is_due() => {
                if let Err(error) = hand.go_on() {
                    hand.release().await;
                    return Err(error.into());
                }
                return Ok(hand);
            }
            Some((of, hand)) => {
                hand.release().await;
                if of == partition {
                    tokio::time::sleep(BREATH).await;
                }
            }
            None => {}
        }
        if self.stop.is_cancelled() {
            return Err(RunError::Stopped.into());
        }
        if self.request.dry_run {
            return Hand::dry(self.context, store, partition, self.stop).await;
        }
        let deadline = Instant::now() + self.request.lease_wait;
        Hand::take(self.context, store, partition, &self.run_id, deadline, self.stop).await
    }

    /// Leaves MySQL alone while it has much to do.
    async fn breathe(&mut self) -> Result<(), Left> {
        if self.looked_at_load.elapsed() < LOAD {
            return Ok(());
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && !self.stop.is_cancelled() {
            self.looked_at_load = Instant::now();
            if self.session.threads_running().await? < THREADS {
                break;
            }
            self.let_go().await;
            tracing::debug!("MySQL has much to do; the pass waits");
            tokio::time::sleep(LOAD).await;
        }
        Ok(())
    }

    async fn let_go(&mut self) {
        if let Some((_, hand)) = self.hand.take() {
            hand.release().await;
        }
    }

    fn leave(&mut self, partition: Option<Partition>, left: &Left) {
        let words = left.to_string();
        tracing::warn!(partition = partition.map(|p| p.to_string()), "not reconciled: {words}");
        self.trouble.push((partition, matches!(left, Left::Busy(_)), words));
    }

    /// Counts drifts, and keeps them, but for a dry run.
    async fn found(&mut self, partition: Partition, found: Vec<(Id, super::drift::Finding, Outcome)>) {
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

    fn report(self, started_at: String, duration_ms: u64) -> Report {
        let mut tally = self.tally;
        tally.keep_worst();
        let outcome = match &self.stopped {
            _ if !self.trouble.is_empty() => Verdict::Failed,
            Some(_) => Verdict::Stopped,
            None if tally.residual > 0 => Verdict::Drift,
            None if tally.repaired > 0 => Verdict::Repaired,
            None => Verdict::Clean,
        };
        let busy = self.trouble.iter().all(|(_, busy, _)| *busy);
        let exit_code = match outcome {
            Verdict::Clean | Verdict::Repaired => 0,
            Verdict::Drift | Verdict::Stopped => 3,
            Verdict::Failed if busy => 75,
            Verdict::Failed => 1,
        };
        let scope = match self.request.scope {
            Scope::All => "all".to_owned(),
            Scope::Sample(percent) => format!("sample {percent:?} %"),
            Scope::Target(code, target) => {
                let named = self.context.vocabulary.targets.iter().find(|t| t.code == code);
                format!("target {}:{target}", named.map_or_else(|| code.to_string(), |t| t.name.clone()))
            }
        };
        let trouble = self.trouble.iter().map(|(partition, _, words)| match partition {
            Some(partition) => format!("{partition}: {words}"),
            None => words.clone(),
        });
        let words: Vec<String> = trouble.chain(self.stopped).collect();
        let known = |code: &u16| self.context.vocabulary.interactions.iter().position(|i| i.code == *code);
        let mut interactions: Vec<_> = tally.interactions.into_iter().collect();
        interactions.sort_by_key(|(code, _)| known(code));
        Report {
            run_id: self.run_id,
            trigger: self.request.trigger.as_str(),
            started_at,
            duration_ms,
            dry_run: self.request.dry_run,
            scope,
            outcome,
            exit_code,
            error: (!words.is_empty()).then(|| words.join("; ")),
            looked_at: tally.looked_at,
            of: tally.of,
            skipped: tally.skipped.values().sum(),
            skipped_why: tally.skipped,
            differing: tally.differing,
            repaired: tally.repaired,
            failed: tally.failed,
            refused: tally.refused,
            residual: tally.residual,
            by_kind: tally.by_kind,
            interactions: interactions.into_iter().map(|(_, figures)| figures).collect(),
            worst: tally.worst,
            sync_health: None,
            degraded: None,
            losses: None,
        }
    }
}

/// What is done with a batch of targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
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
fn as_float(number: u64) -> f64 {
    number as f64
}
