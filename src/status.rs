//! The facts that `tallyd status` shows, gathered from both servers, with the daemon up or down.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::Partition;
use crate::sink::{PartitionRow, SinkError};
use crate::store::{Backlog, StoreError};
use crate::sync::Context;

/// How many runs are shown.
const RUNS: u32 = 20;
/// How long a server may take to answer: who looks at the status does so because something is slow.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known now. What a server that is down would know is absent.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Of this program.
    pub version: &'static str,
    /// Of the daemon, seconds; `None` from outside it.
    pub uptime_s: Option<u64>,
    /// Redis.
    pub redis: RedisStatus,
    /// MySQL.
    pub mysql: MysqlStatus,
    /// `closed`; `open` while Redis is down; `replaying` while degraded writes wait for it.
    pub breaker: &'static str,
    /// Every configured partition, in order.
    pub partitions: Vec<PartitionStatus>,
    /// The last runs, newest first, as `tallyd sync --json` prints them.
    pub last_runs: Vec<Box<RawValue>>,
    /// Writes that went to MySQL while Redis was down.
    pub degraded: DegradedStatus,
    /// Reconciliation.
    pub reconcile: ReconcileStatus,
}

/// Redis, as seen now.
#[derive(Debug, Serialize)]
pub struct RedisStatus {
    /// Whether it answers.
    pub up: bool,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: String,
    /// Why it does not, or what it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// MySQL, as seen now.
#[derive(Debug, Serialize)]
pub struct MysqlStatus {
    /// Whether it answers.
    pub up: bool,
    /// Why it does not, or why what it holds cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One partition, as seen now.
#[derive(Debug, Serialize)]
pub struct PartitionStatus {
    /// Code of the target type.
    pub target_type: u16,
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
}

struct Mysql {
    partitions: Vec<PartitionRow>,
    runs: Vec<String>,
    pass: Option<String>,
    journal: u64,
    replayed: u64,
    /// Whether a run would replay some of the journal.
    waits: bool,
}

/// Asks both servers. One that is down is said to be, and its facts are absent.
pub async fn gather(context: &Context) -> Status {
    let late = |name: &str| format!("{name} did not answer within {} s", PATIENCE.as_secs());
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
        let backlog = redis.as_ref().ok().and_then(|backlogs| backlogs.get(at)?.as_ref().ok());
        let row = mysql.as_ref().ok().and_then(|mysql| mysql.partitions.iter().find(|row| row.partition == partition));
        partition_status(partition, backlog, row)
    });
    Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: None,
        breaker,
        partitions: partitions.collect(),
        redis: RedisStatus {
            up: redis.is_ok(),
            mode: context.config.redis.mode.to_string(),
            error: redis_error(redis.as_ref()),
        },
        degraded: DegradedStatus {
            pending,
            accepted_total: mysql.as_ref().ok().map(|mysql| mysql.journal + mysql.replayed),
            replayed_total: mysql.as_ref().ok().map(|mysql| mysql.replayed),
        },
        reconcile: ReconcileStatus { last: mysql.as_ref().ok().and_then(|mysql| raw(mysql.pass.as_deref()?)) },
        last_runs: mysql.as_ref().map_or(&[][..], |mysql| &mysql.runs).iter().filter_map(|run| raw(run)).collect(),
        mysql: MysqlStatus {
            up: !matches!(mysql, Err(SinkError::Unreachable { .. })),
            error: mysql.err().map(|error| error.to_string()),
        },
    }
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

fn partition_status(partition: Partition, backlog: Option<&Backlog>, row: Option<&PartitionRow>) -> PartitionStatus {
    let Partition { target_type, shard } = partition;
    PartitionStatus {
        target_type,
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

/// Every partition in order; one whose keys are not what they should be does not hide the others.
async fn ask_redis(context: &Context) -> Result<Vec<Result<Backlog, String>>, StoreError> {
    let store = context.store().await?;
    let mut backlogs = Vec::new();
    for partition in context.partitions() {
        backlogs.push(match store.backlog(partition).await {
            Ok(backlog) => Ok(backlog),
            Err(error @ StoreError::Unreachable { .. }) => return Err(error),
            Err(error) => Err(format!("partition {partition}: {error}")),
        });
    }
    Ok(backlogs)
}

fn redis_error(redis: Result<&Vec<Result<Backlog, String>>, &StoreError>) -> Option<String> {
    match redis {
        Ok(backlogs) => backlogs.iter().find_map(|backlog| backlog.as_ref().err().cloned()),
        Err(error) => Some(error.to_string()),
    }
}

async fn ask_mysql(context: &Context) -> Result<Mysql, SinkError> {
    let mut session = context.sink.session();
    session.require_schema().await?;
    let partitions = session.partitions().await?;
    let runs = session.last_runs(RUNS).await?;
    let pass = session.last_passes(1).await?.pop();
    let (journal, replayed) = session.journal_balance().await?;
    let waits = session.journal_waits(&context.vocabulary, context.config.redis.shards).await?;
    session.close().await;
    Ok(Mysql { partitions, runs, pass, journal, replayed, waits })
}
