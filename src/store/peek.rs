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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    /// Memory of the machine, bytes; 0 where it is not said.
    pub machine_memory: u64,
    /// Whether the append-only file is on.
    pub append_only: bool,
    /// Whether it could be written, and written anew, at the last time.
    pub append_works: [bool; 2],
    /// `appendfsync`, where the ACL user may ask for it.
    pub append_fsync: Option<String>,
    /// `save`, where the ACL user may ask for it; empty when there are no snapshots by themselves.
    pub save: Option<String>,
    /// Whether the last snapshot succeeded, or there was none yet.
    pub saved: bool,
    /// When the last snapshot that succeeded was made, or the server started, Unix seconds.
    pub saved_at: i64,
    /// How many changes there were since.
    pub unsaved: u64,
    /// The replicas that are connected.
    pub replicas: Vec<Replica>,
    /// The server's time, Unix milliseconds.
    pub now_ms: i64,
}

/// A replica, as its master sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    /// Its address, or the name it gives.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Replica {
    /// Reads a line of INFO such as `slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0`.
    fn of(line: &str) -> Option<Self> {
        let (name, facts) = line.split_once(':')?;
        name.strip_prefix("slave")?.parse::<u32>().ok()?;
        let fact = |wanted: &str| facts.split(',').filter_map(|fact| fact.split_once('=')).find(|(n, _)| *n == wanted);
        Some(Self { host: fact("ip")?.1.to_owned(), port: fact("port")?.1.trim().parse().ok()? })
    }
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
    /// programs that mark only targets. And whether it has a checkpoint.
    pub async fn pending(&self, partition: Partition) -> Result<(u64, bool), StoreError> {
        let mut connection = self.connection.clone();
        let mut pipe = redis::pipe();
        pipe.cmd("HLEN").arg(self.keys.changes(partition));
        pipe.cmd("SCARD").arg(self.keys.dirty(partition));
        pipe.cmd("EXISTS").arg(self.keys.checkpoint(partition));
        let answer: RedisResult<(u64, u64, bool)> = pipe.query_async(&mut connection).await;
        let (changes, targets, checkpoint) = answer.map_err(self.failed("the length of the backlog"))?;
        Ok((changes.max(targets), checkpoint))
    }

    /// `redis_version`.
    pub async fn version(&self) -> Result<String, StoreError> {
        let mut connection = self.connection.clone();
        let info: RedisResult<String> = redis::cmd("INFO").arg("server").query_async(&mut connection).await;
        let info = info.map_err(self.failed("INFO"))?;
        Ok(info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default().trim().to_owned())
    }

    /// What the server says of itself.
    pub async fn server_facts(&self) -> Result<ServerFacts, StoreError> {
        let mut connection = self.connection.clone();
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").cmd("TIME");
        let answer: RedisResult<(String, (i64, i64))> = pipe.query_async(&mut connection).await;
        let (info, time) = answer.map_err(self.failed("INFO"))?;
        // Not every user may ask for these.
        let mut setting = async |name: &str| {
            let pair: RedisResult<Vec<String>> =
                redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut connection).await;
            pair.ok().and_then(|mut pair| pair.pop())
        };
        let (append_fsync, save) = (setting("appendfsync").await, setting("save").await);
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
            machine_memory: fact("total_system_memory").parse().unwrap_or_default(),
            append_only: fact("aof_enabled") == "1",
            append_works: ["aof_last_write_status", "aof_last_bgrewrite_status"].map(|name| fact(name) != "err"),
            append_fsync,
            save,
            saved: fact("rdb_last_bgsave_status") != "err",
            saved_at: fact("rdb_last_save_time").parse().unwrap_or_default(),
            unsaved: fact("rdb_changes_since_last_save").parse().unwrap_or_default(),
            replicas: info.lines().filter_map(Replica::of).collect(),
            now_ms: time.0 * 1000 + time.1 / 1000,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_told_from_the_lines_around_them() {
        let found = |line| Replica::of(line).map(|replica| (replica.host, replica.port));
        let line = "slave0:ip=10.0.0.2,port=6380,state=online,offset=84,lag=1\r";
        assert_eq!(found(line), Some(("10.0.0.2".to_owned(), 6380)));
        for line in ["slave_read_only:1", "connected_slaves:1", "slave0:ip=10.0.0.2", "role:master", ""] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
