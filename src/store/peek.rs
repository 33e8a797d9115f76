//! Looking without touching: the backlog of a partition and the facts of the server.

use redis::RedisResult;

use super::{Store, StoreError};
use crate::model::Partition;

/// Changes sampled for the age of the oldest: one page of a hash is a random sample of it.
const SAMPLE: usize = 1000;

/// What waits in one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// Targets marked dirty.
    pub dirty: u64,
    /// Changes marked.
    pub changes: u64,
    /// Targets claimed and not yet acked.
    pub inflight: u64,
    /// Changes claimed and not yet acked.
    pub inflight_changes: u64,
    /// Event time of the oldest change, Unix milliseconds: exact up to a thousand changes, beyond that the oldest
    /// of a sample.
    pub oldest_ms: Option<i64>,
    /// Redis' own time, Unix milliseconds.
    pub now_ms: i64,
    /// What `ckpt` holds.
    pub checkpoint: Option<String>,
    /// Whether a restore is under way.
    pub restoring: bool,
}

/// What INFO says of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFacts {
    /// `redis_version`.
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// `maxmemory_policy`.
    pub eviction_policy: String,
    /// `maxmemory`, bytes; 0 without a limit.
    pub max_memory: u64,
    /// `used_memory`, bytes.
    pub used_memory: u64,
    /// Whether the append-only file is on.
    pub append_only: bool,
    /// The server's time, Unix milliseconds.
    pub now_ms: i64,
}

impl Store {
    /// What waits in a partition. No command of it is longer for a longer backlog.
    pub async fn backlog(&self, partition: Partition) -> Result<Backlog, StoreError> {
        type Page = (u64, Vec<(Vec<u8>, Vec<u8>)>);
        type Answer = (u64, u64, u64, u64, Option<String>, bool, Page, Page, (i64, i64));
        let keys = self.keys;
        let mut connection = self.connection.clone();
        let mut pipe = redis::pipe();
        pipe.cmd("SCARD").arg(keys.dirty(partition));
        pipe.cmd("HLEN").arg(keys.changes(partition));
        pipe.cmd("SCARD").arg(keys.dirty_inflight(partition));
        pipe.cmd("HLEN").arg(keys.changes_inflight(partition));
        pipe.cmd("GET").arg(keys.checkpoint(partition));
        pipe.cmd("EXISTS").arg(keys.restoring(partition));
        for changes in [keys.changes(partition), keys.changes_inflight(partition)] {
            pipe.cmd("HSCAN").arg(changes).arg(0).arg("COUNT").arg(SAMPLE);
        }
        pipe.cmd("TIME");
        let answer: RedisResult<Answer> = pipe.query_async(&mut connection).await;
        let (dirty, changes, inflight, inflight_changes, checkpoint, restoring, fresh, claimed, time) =
            answer.map_err(self.failed("the look at the backlog"))?;
        let sample = fresh.1.iter().chain(&claimed.1);
        let oldest_ms = sample.filter_map(|(_, at)| std::str::from_utf8(at).ok()?.parse().ok()).min();
        let now_ms = time.0 * 1000 + time.1 / 1000;
        Ok(Backlog { dirty, changes, inflight, inflight_changes, oldest_ms, now_ms, checkpoint, restoring })
    }

    /// How much waits in a partition, claimed marks not included: changes, or targets where those are more, as with
    /// programs that mark only targets.
    pub async fn pending(&self, partition: Partition) -> Result<u64, StoreError> {
        let mut connection = self.connection.clone();
        let mut pipe = redis::pipe();
        pipe.cmd("HLEN").arg(self.keys.changes(partition));
        pipe.cmd("SCARD").arg(self.keys.dirty(partition));
        let answer: RedisResult<(u64, u64)> = pipe.query_async(&mut connection).await;
        let (changes, targets) = answer.map_err(self.failed("the length of the backlog"))?;
        Ok(changes.max(targets))
    }

    /// What the server says of itself.
    pub async fn server_facts(&self) -> Result<ServerFacts, StoreError> {
        let mut connection = self.connection.clone();
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").cmd("TIME");
        let answer: RedisResult<(String, (i64, i64))> = pipe.query_async(&mut connection).await;
        let (info, time) = answer.map_err(self.failed("INFO"))?;
        let fact = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        Ok(ServerFacts {
            version: fact("redis_version"),
            role: fact("role"),
            eviction_policy: fact("maxmemory_policy"),
            max_memory: fact("maxmemory").parse().unwrap_or_default(),
            used_memory: fact("used_memory").parse().unwrap_or_default(),
            append_only: fact("aof_enabled") == "1",
            now_ms: time.0 * 1000 + time.1 / 1000,
        })
    }
}
