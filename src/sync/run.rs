//! A run: every partition in turn.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::report::{Outcome, PartitionReport, RunReport, Trigger};
use super::work::Rules;
use super::{dry, partition};
use crate::config::{Changes, Config, Settings};
use crate::model::{Id, Partition, Vocabulary};
use crate::sink::{RunRow, Sink, SinkError};
use crate::store::{Store, StoreError};

/// How long a run waits for one answer of Redis. A run is patient where a request is not.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a loop over both servers may make no progress: longer than any wait for them lasts. One for MySQL is over
/// after `mysql.timeout_ms`; the end of another task's call, with a new connection and a transaction taken back, after
/// four times that.
const SILENCE: Duration = Duration::from_secs(20);
const WAITS: u32 = 4;

/// What every run of a process needs.
pub struct Context {
    /// The configuration at the start: for what a reload leaves alone.
    pub config: Config,
    /// The configuration as it is now.
    pub settings: Settings,
    /// The same vocabulary, shared.
    pub vocabulary: Arc<Vocabulary>,
    /// The durable mirror.
    pub sink: Sink,
    /// Who this process is, in leases and in the ledger.
    pub owner: String,
}

/// What a run copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// What is marked.
    Changed,
    /// That, and every target that Redis knows, whole.
    All,
    /// That, and one target (type and id), whole.
    Target(u16, Id),
}

/// One run under way.
pub(super) struct Run<'c> {
    pub(super) context: &'c Context,
    pub(super) id: String,
    pub(super) extent: Extent,
    pub(super) progress: &'c Progress,
    pub(super) stop: &'c CancellationToken,
}

impl Context {
    /// Reads what is needed from the configuration. No connection is made yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let vocabulary = Arc::new(config.vocabulary.clone());
        let sink = Sink::new(&config.mysql, config.sync.batch_rows as usize);
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        let instance = uuid::Uuid::new_v4().simple().to_string();
        let owner = format!("{host}:{}:{}", std::process::id(), instance.get(..8).unwrap_or(&instance));
        Self { settings: Settings::new(config.clone()), config, vocabulary, sink, owner }
    }

    /// How long a loop over both servers may make no progress; one that makes none for longer is stuck.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        SILENCE + self.config.mysql.timeout * WAITS
    }

    /// Takes what may change from a configuration that was read again, and says what that is.
    #[must_use]
    pub fn reload(&self, read: Config) -> Changes {
        let changes = self.settings.reload(read);
        self.sink.set_batch_rows(self.settings.now().sync.batch_rows as usize);
        changes
    }

    pub(super) fn rules(&self) -> Rules<'_> {
        let settings = self.settings.now();
        let sync = &settings.sync;
        Rules { vocabulary: &self.vocabulary, batch_rows: sync.batch_rows as usize, verify_limit: sync.verify_limit }
    }

    /// Every partition, in order.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let shards = self.config.redis.shards;
        let of = |target_type| (0..shards).map(move |shard| Partition { target_type, shard });
        self.vocabulary.targets.iter().flat_map(|target| of(target.code)).collect()
    }

    /// A connection to Redis that waits as patiently as a run does.
    pub async fn store(&self) -> Result<Store, StoreError> {
        Store::connect(&self.config.redis, self.vocabulary.clone(), PATIENCE).await
    }
}

/// Copies what changed to MySQL. Doing it twice leaves the same data as doing it once.
///
/// It waits `lease_wait` in all for other owners, stops between chunks when `stop` is cancelled, never panics, and
/// always says what it did.
pub async fn run(
    context: &Context,
    trigger: Trigger,
    extent: Extent,
    lease_wait: Duration,
    progress: &Progress,
    stop: &CancellationToken,
) -> RunReport {
    run_as(new_run_id(), context, trigger, extent, lease_wait, progress, stop).await
}

/// A new run id: a UUID, version 7.
pub(crate) fn new_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// As [`run`], under an id that somebody has been told already.
pub(super) async fn run_as(
    id: String,
    context: &Context,
    trigger: Trigger,
    extent: Extent,
    lease_wait: Duration,
    progress: &Progress,
    stop: &CancellationToken,
) -> RunReport {
    let started_at = Utc::now();
    let run = Run { context, id, extent, progress, stop };
    let mut ledger = true;
    let partitions = match ready(context, true).await {
        Ok(store) => all(&run, store, Instant::now() + lease_wait).await,
        Err(error) => {
            // Who could not be reached a moment ago is not asked to wait for a second time.
            ledger = !matches!(error.downcast_ref(), Some(SinkError::Unreachable { .. }));
            let mut reports = untouched(context, &error);
            if error.downcast_ref::<StoreError>().is_none() {
                let store = context.store().await.ok();
                for report in &mut reports {
                    count_left(store.as_ref(), report).await;
                }
            }
            reports
        }
    };
    let report = RunReport::new(run.id, trigger, started_at, partitions, false);
    log(&report);
    if ledger {
        record(context, &report, started_at).await;
    }
    report
}

async fn all(run: &Run<'_>, store: Store, deadline: Instant) -> Vec<PartitionReport> {
    let mut store = Some(store);
    let mut reports = Vec::new();
    for partition in run.context.partitions() {
        if run.stop.is_cancelled() {
            let error = "stopped on request".to_owned();
            let mut report = PartitionReport::untouched(partition, Outcome::Partial, error);
            count_left(store.as_ref(), &mut report).await;
            reports.push(report);
            continue;
        }
        let connected = match store.take() {
            Some(store) => Ok(store),
            None => run.context.store().await,
        };
        let mut report = match &connected {
            Ok(store) => Box::pin(partition::sync(run, store, partition, deadline)).await,
            Err(error) => PartitionReport::untouched(partition, Outcome::Failed, error.to_string()),
        };
        // A connection on which nothing comes any more never recovers: after a failure another takes its place.
        store = match connected {
            Ok(_) if report.outcome == Outcome::Failed => run.context.store().await.ok(),
            connected => connected.ok(),
        };
        count_left(store.as_ref(), &mut report).await;
        reports.push(report);
    }
    reports
}

/// Says how many targets are still marked in a partition that is not done.
async fn count_left(store: Option<&Store>, report: &mut PartitionReport) {
    let unfinished = matches!(report.outcome, Outcome::Partial | Outcome::Failed | Outcome::Refused);
    let Some(store) = store.filter(|_| unfinished) else { return };
    match store.backlog(Partition { target_type: report.target_type, shard: report.shard }).await {
        Ok(backlog) => report.tally.left = backlog.dirty + backlog.inflight,
        Err(error) => tracing::debug!(%error, "what is left could not be counted"),
    }
}

/// Says what a run would write, and changes nothing.
pub async fn dry_run(context: &Context, extent: Extent) -> RunReport {
    let started_at = Utc::now();
    let partitions = match ready(context, false).await {
        Ok(store) => dry::partitions(context, &store, extent).await,
        Err(error) => untouched(context, &error),
    };
    RunReport::new(new_run_id(), Trigger::Command, started_at, partitions, true)
}

fn untouched(context: &Context, error: &anyhow::Error) -> Vec<PartitionReport> {
    let report = |partition| PartitionReport::untouched(partition, Outcome::Failed, format!("{error:#}"));
    context.partitions().into_iter().map(report).collect()
}

/// Both servers are there, the schema is current, and the number of shards is the one that it always was; the first
/// one is kept only if `keep`.
pub(crate) async fn ready(context: &Context, keep: bool) -> anyhow::Result<Store> {
    const SHARDS: &str = "redis.shards";
    let mut session = context.sink.session();
    session.require_schema().await?;
    let shards = context.config.redis.shards.to_string();
    let kept = match session.meta(SHARDS).await? {
        None if keep => Some(session.keep_meta(SHARDS, shards.clone()).await?),
        kept => kept,
    };
    session.close().await;
    if let Some(kept) = kept.filter(|kept| *kept != shards) {
        anyhow::bail!(
            "redis.shards is {shards}, but this database was set up with {kept}; the names of keys depend on it: set \
             it back to {kept}"
        );
    }
    Ok(context.store().await?)
}

fn log(report: &RunReport) {
    let RunReport { run_id, trigger, outcome, tally, duration_ms, partitions, .. } = report;
    for (at, partition) in partitions.iter().enumerate() {
        let Some(error) = &partition.error else { continue };
        // What fails all of them alike is said once.
        if partitions[..at].iter().any(|other| other.error.as_ref() == Some(error)) {
            continue;
        }
        let same = partitions[at..].iter().filter(|other| other.error.as_ref() == Some(error));
        let names: Vec<String> = same.map(|p| format!("{}/{}", p.target_type, p.shard)).collect();
        let outcome = partition.outcome.as_str();
        tracing::warn!(partitions = names.join(" "), outcome, "not synced: {error}");
    }
    let (trigger, outcome) = (trigger.as_str(), outcome.as_str());
    let crate::sync::Tally { targets, changes, rows_written, rejected, left, drift, retries, replayed } = *tally;
    if report.is_idle() {
        tracing::debug!(run_id, trigger, outcome, duration_ms, "run: nothing to do");
    } else {
        tracing::info!(
            run_id,
            trigger,
            outcome,
            targets,
            changes,
            rows_written,
            rejected,
            left,
            drift,
            retries,
            replayed,
            duration_ms,
            "run"
        );
    }
}

async fn record(context: &Context, report: &RunReport, started_at: DateTime<Utc>) {
    let row = RunRow {
        run_id: report.run_id.clone(),
        caused_by: report.trigger.as_str(),
        owner: context.owner.clone(),
        started_at,
        duration_ms: report.duration_ms.try_into().unwrap_or(i64::MAX),
        outcome: report.outcome.as_str(),
        retries: report.tally.retries,
        report: serde_json::to_string(report).unwrap_or_default(),
    };
    let mut session = context.sink.session();
    match session.record_run(row, context.settings.now().reconcile.keep_days).await {
        Ok(()) | Err(SinkError::Schema { .. }) => {}
        Err(error) => tracing::warn!(run_id = report.run_id, %error, "the run could not be recorded in sync_run"),
    }
    session.close().await;
}
