//! The facts that the status page, `/status` and `tallyd status` show, gathered from both servers, with the daemon up or
//! down. What only the daemon knows is absent outside it.

mod verdict;

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::last_run::LastRun;
use crate::model::{Partition, Vocabulary};
use crate::sink::{PartitionRow, SinkError};
use crate::store::{Backlog, StoreError};
use crate::sync::{Context, Lag};
pub use verdict::{Finding, Verdict};

/// How many runs are shown.
const RUNS: u32 = 20;
/// How many passes of reconciliation are shown.
const PASSES: u32 = 20;
/// How long a server may take to answer: who looks at the status does so because something is slow.
const PATIENCE: Duration = Duration::from_millis(1800);

/// What is known now. What a server that is down would know is absent.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Of this program.
    pub version: &'static str,
    /// Whether all is well, and what is not.
    pub verdict: Verdict,
    /// Of the daemon, seconds; `None` from outside it.
    pub uptime_s: Option<u64>,
    /// Redis.
    pub redis: RedisStatus,
    /// MySQL.
    pub mysql: MysqlStatus,
    /// `closed`; `open` while Redis is down; `replaying` while degraded writes wait for it.
    pub breaker: &'static str,
    /// For how long the breaker has not been closed, seconds; only the daemon knows.
    pub breaker_since_s: Option<u64>,
    /// Acknowledged by this daemon, over the last minute; only the daemon knows.
    pub writes_per_second: Option<f64>,
    /// How long the changes of the last runs had waited; `None` when there were none.
    pub lag_ms: Option<LagStatus>,
    /// Every configured partition, in order.
    pub partitions: Vec<PartitionStatus>,
    /// The last runs, newest first, as `tallyd sync --json` prints them.
    pub last_runs: Vec<Box<RawValue>>,
    /// Writes that went to MySQL while Redis was down.
    pub degraded: DegradedStatus,
    /// Reconciliation.
    pub reconcile: ReconcileStatus,
}

/// How long changes waited until MySQL held them, milliseconds, to 10 % above.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LagStatus {
    /// Half of them at most so long.
    pub p50: u64,
    /// Of a hundred, 99 at most so long.
    pub p99: u64,
}

/// What the daemon alone knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Daemon {
    /// How long it has been up, seconds.
    pub uptime_s: u64,
    /// Where its calls go.
    pub breaker: &'static str,
    /// For how long the breaker has not been closed, seconds.
    pub breaker_since_s: Option<u64>,
    /// What it acknowledged over the last minute.
    pub writes_per_second: f64,
}

/// Redis, as seen now.
#[derive(Debug, Serialize)]
pub struct RedisStatus {
    /// Whether it answers.
    pub up: bool,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: String,
    /// Of the server.
    pub version: Option<String>,
    /// Why it does not, or what it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// MySQL, as seen now.
#[derive(Debug, Serialize)]
pub struct MysqlStatus {
    /// Whether it answers.
    pub up: bool,
    /// Of the server.
    pub version: Option<String>,
    /// Why it does not, or why what it holds cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One partition, as seen now.
#[derive(Debug, Serialize)]
pub struct PartitionStatus {
    /// Code of the target type.
    pub target_type: u16,
    /// Its name.
    pub name: String,
    /// The shard.
    pub shard: u16,
    /// Targets marked dirty.
    pub dirty: Option<u64>,
    /// Changes marked, claimed ones not included.
    pub changes: Option<u64>,
    /// Targets claimed and not yet acked.
    pub inflight: Option<u64>,
    /// Age of the oldest change, milliseconds (exact up to a thousand changes, then of a sample).
    pub oldest_change_ms: Option<i64>,
    /// MySQL's checkpoint.
    pub checkpoint: Option<String>,
    /// Who is at work on it.
    pub lease_owner: Option<String>,
    /// Whether a restore is under way.
    pub restoring: Option<bool>,
}

/// Writes that went to MySQL while Redis was down.
#[derive(Debug, Serialize)]
pub struct DegradedStatus {
    /// Not yet replayed.
    pub pending: Option<u64>,
    /// Since the database was set up.
    pub accepted_total: Option<u64>,
    /// Of those, replayed.
    pub replayed_total: Option<u64>,
}

/// Reconciliation.
#[derive(Debug, Serialize)]
pub struct ReconcileStatus {
    /// The last pass.
    pub last: Option<Box<RawValue>>,
    /// The last passes, newest first.
    pub passes: Vec<Box<RawValue>>,
}

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
    version: String,
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
    let last_runs = all(mysql.as_ref().map_or(&[], |mysql| &mysql.runs));
    let mut status = Status {
        version: env!("CARGO_PKG_VERSION"),
        verdict: Verdict::default(),
        uptime_s: daemon.map(|daemon| daemon.uptime_s),
        // Without requests the daemon has not noticed yet that Redis is away.
        breaker: daemon.filter(|_| redis.is_ok()).map_or(breaker, |daemon| daemon.breaker),
        breaker_since_s: daemon.and_then(|daemon| daemon.breaker_since_s),
        writes_per_second: daemon.map(|daemon| daemon.writes_per_second),
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
        reconcile: ReconcileStatus { last: passes.first().cloned(), passes },
        last_runs,
        mysql: MysqlStatus {
            version: mysql.as_ref().ok().map(|mysql| mysql.version.clone()),
            up: !matches!(mysql, Err(SinkError::Unreachable { .. })),
            error: mysql.err().map(|error| error.to_string()),
        },
    };
    status.verdict = Verdict::of(&status, &context.vocabulary);
    status
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
    let version = session.version().await?;
    session.close().await;
    Ok(Mysql { partitions, runs, passes, journal, replayed, waits, version })
}
