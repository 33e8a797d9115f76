//! Asking both servers.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{
    Daemon, DegradedStatus, LagStatus, MysqlStatus, PartitionStatus, ReconcileStatus, RedisStatus, Status, Verdict,
};
use crate::last_run::LastRun;
use crate::model::{Partition, Vocabulary};
use crate::sink::{PartitionRow, SinkError};
use crate::store::{Backlog, StoreError};
use crate::sync::{Context, Lag};

/// How many runs are shown.
const RUNS: u32 = 20;
/// How many passes of reconciliation are shown.
const PASSES: u32 = 20;
/// How long a server may take to answer: who looks at the status does so because something is slow.
const PATIENCE: Duration = Duration::from_millis(1800);

struct Redis {
    /// Every partition in order; one whose keys are not what they should be does not hide the others.
    backlogs: Vec<Result<Backlog, String>>,
    version: Option<String>,
}

struct Mysql {
    partitions: Vec<PartitionRow>,
    runs: Vec<String>,
    passes: Vec<String>,
    journal: u64,
    replayed: u64,
    /// Whether a run would replay some of the journal.
    waits: bool,
    set_aside: u64,
    version: String,
    read_only: bool,
}

/// Asks both servers. One that is down is said to be, and its facts are absent. `daemon` is what this process knows, if it
/// is the daemon.
pub async fn gather(context: &Context, daemon: Option<Daemon>) -> Status {
    let late = |name: &str| format!("{name} did not answer within {} s", PATIENCE.as_secs_f32());
    let (redis, mysql) = tokio::join!(
        tokio::time::timeout(PATIENCE, ask_redis(context)),
        tokio::time::timeout(PATIENCE, ask_mysql(context))
    );
    let address = context.config.redis.url_redacted.clone();
    let redis = redis.unwrap_or_else(|_| Err(StoreError::Unreachable { address, cause: late("Redis") }));
    let address = context.config.mysql.address();
    let mysql = mysql.unwrap_or_else(|_| Err(SinkError::Unreachable { address, cause: late("MySQL") }));
    let pending = mysql.as_ref().ok().map(|mysql| mysql.journal);
    let breaker = match (&redis, &mysql) {
        (Err(_), _) => "open",
        (Ok(_), Ok(Mysql { waits: true, .. })) => "replaying",
        (Ok(_), _) => "closed",
    };
    let partitions = context.partitions().into_iter().enumerate().map(|(at, partition)| {
        let backlog = redis.as_ref().ok().and_then(|redis| redis.backlogs.get(at)?.as_ref().ok());
        let row = mysql.as_ref().ok().and_then(|mysql| mysql.partitions.iter().find(|row| row.partition == partition));
        partition_status(&context.vocabulary, partition, backlog, row)
    });
    let all = |jsons: &[String]| -> Vec<_> { jsons.iter().filter_map(|json| raw(json)).collect() };
    let passes = all(mysql.as_ref().map_or(&[], |mysql| &mysql.passes));
    let mut last_runs = all(mysql.as_ref().map_or(&[], |mysql| &mysql.runs));
    if let Some(own) = daemon.as_ref().and_then(|daemon| unrecorded(daemon.last_run.as_deref()?, &last_runs)) {
        last_runs.insert(0, own);
        last_runs.truncate(RUNS as usize);
    }
    let mut status = Status {
        version: env!("CARGO_PKG_VERSION"),
        verdict: Verdict::default(),
        uptime_s: daemon.as_ref().map(|daemon| daemon.uptime_s),
        // Without requests the daemon has not noticed yet that Redis is away.
        breaker: daemon.as_ref().filter(|_| redis.is_ok()).map_or(breaker, |daemon| daemon.breaker),
        breaker_since_s: daemon.as_ref().and_then(|daemon| daemon.breaker_since_s),
        writes_per_second: daemon.as_ref().map(|daemon| daemon.writes_per_second),
        lag_ms: lag(&last_runs),
        partitions: partitions.collect(),
        redis: RedisStatus {
            up: redis.is_ok(),
            mode: context.config.redis.mode.to_string(),
            version: redis.as_ref().ok().and_then(|redis| redis.version.clone()),
            error: redis_error(redis.as_ref()),
        },
        degraded: DegradedStatus {
            pending,
            accepted_total: mysql.as_ref().ok().map(|mysql| mysql.journal + mysql.replayed),
            replayed_total: mysql.as_ref().ok().map(|mysql| mysql.replayed),
        },
        set_aside: mysql.as_ref().ok().map(|mysql| mysql.set_aside),
        reconcile: ReconcileStatus { last: passes.first().cloned(), passes },
        last_runs,
        mysql: MysqlStatus {
            version: mysql.as_ref().ok().map(|mysql| mysql.version.clone()),
            up: !matches!(mysql, Err(SinkError::Unreachable { .. })),
            error: match &mysql {
                Ok(mysql) => mysql.read_only.then(|| "the server is read-only (read_only is ON)".to_owned()),
                Err(error) => Some(error.to_string()),
            },
        },
    };
    status.verdict = Verdict::of(&status, &context.vocabulary);
    status
}

/// A run that is not done, and not among those that MySQL knows.
fn unrecorded(json: &str, known: &[Box<RawValue>]) -> Option<Box<RawValue>> {
    let own = LastRun::of(json).filter(|run| !run.is_done())?;
    let is_known = known.iter().filter_map(|run| LastRun::of(run.get())).any(|run| run.run_id == own.run_id);
    if is_known { None } else { raw(json) }
}

fn lag(last_runs: &[Box<RawValue>]) -> Option<LagStatus> {
    let mut lag = Lag::default();
    for of_run in last_runs.iter().filter_map(|run| LastRun::of(run.get())?.lag_ms) {
        lag.add(&of_run);
    }
    Some(LagStatus { p50: lag.percentile(50)?, p99: lag.percentile(99)? })
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

fn partition_status(
    vocabulary: &Vocabulary,
    partition: Partition,
    backlog: Option<&Backlog>,
    row: Option<&PartitionRow>,
) -> PartitionStatus {
    let Partition { target_type, shard } = partition;
    let name = vocabulary.targets.iter().find(|target| target.code == target_type).map(|target| target.name.clone());
    PartitionStatus {
        target_type,
        name: name.unwrap_or_default(),
        shard,
        dirty: backlog.map(|b| b.dirty),
        changes: backlog.map(|b| b.changes),
        inflight: backlog.map(|b| b.inflight),
        oldest_change_ms: backlog.and_then(|b| Some((b.now_ms - b.oldest_ms?).max(0))),
        checkpoint: row.map(|row| row.checkpoint.clone()),
        lease_owner: row.and_then(|row| row.lease_owner.clone()),
        restoring: backlog.map(|b| b.restoring),
    }
}

async fn ask_redis(context: &Context) -> Result<Redis, StoreError> {
    let store = context.store().await?;
    let mut backlogs = Vec::new();
    for partition in context.partitions() {
        backlogs.push(match store.backlog(partition).await {
            Ok(backlog) => Ok(backlog),
            Err(error @ StoreError::Unreachable { .. }) => return Err(error),
            Err(error) => Err(format!("partition {partition}: {error}")),
        });
    }
    // Not every user may ask for it.
    Ok(Redis { backlogs, version: store.version().await.ok() })
}

fn redis_error(redis: Result<&Redis, &StoreError>) -> Option<String> {
    match redis {
        Ok(redis) => redis.backlogs.iter().find_map(|backlog| backlog.as_ref().err().cloned()),
        Err(error) => Some(error.to_string()),
    }
}

async fn ask_mysql(context: &Context) -> Result<Mysql, SinkError> {
    let mut session = context.sink.session();
    session.require_schema().await?;
    let partitions = session.partitions().await?;
    let runs = session.last_runs(RUNS).await?;
    let passes = session.last_passes(PASSES).await?;
    let (journal, replayed) = session.journal_balance().await?;
    let waits = session.journal_waits(&context.vocabulary, context.config.redis.shards).await?;
    let set_aside = session.set_aside().await?;
    let (version, read_only) = session.version().await?;
    session.close().await;
    Ok(Mysql { partitions, runs, passes, journal, replayed, waits, set_aside, version, read_only })
}
