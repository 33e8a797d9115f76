//! The facts that the status page, `/status` and `tallyd status` show, gathered from both servers, with the daemon up or
//! down. What only the daemon knows is absent outside it.

mod gather;
mod verdict;

use serde::Serialize;
use serde_json::value::RawValue;

pub use gather::gather;
pub use verdict::{Finding, Verdict};

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
    /// Changes that lie in `sync_rejected`; at most 10,000 are counted.
    pub set_aside: Option<u64>,
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
#[derive(Clone, PartialEq, Debug)]
pub struct Daemon {
    /// How long it has been up, seconds.
    pub uptime_s: u64,
    /// Where its calls go.
    pub breaker: &'static str,
    /// For how long the breaker has not been closed, seconds.
    pub breaker_since_s: Option<u64>,
    /// What it acknowledged over the last minute.
    pub writes_per_second: f64,
    /// Its last run, as `tallyd sync --json` prints it: MySQL has not heard of one that it refused.
    pub last_run: Option<String>,
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
