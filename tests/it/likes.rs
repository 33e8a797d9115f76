//! Likes of notes, as the tests of syncing use them: written by the write script, compared on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tallyd::live::Live;
use tallyd::metrics::BreakerMetrics;
use tallyd::model::{Id, Partition};
use tallyd::store::{EventClock, Store, Unloaded, WriteOp, Written};
use tallyd::sync::Context;

use crate::support::{Daemon, Rig, eventually};

/// Target type `note`, the first partition of a run.
pub const NOTES: Partition = Partition { target_type: 1, shard: 0 };
/// Code of `like`.
pub const LIKE: u16 = 1;
/// For whatever must happen soon.
pub const SOON: Duration = Duration::from_secs(30);

/// User or target → value, of one kind of row.
pub type Table = BTreeMap<(i64, i64), i64>;

pub fn id(n: i64) -> Id {
    Id::try_from(n).unwrap()
}

/// The library, with the configuration of the rig.
pub fn context(rig: &Rig) -> Context {
    Context::new(tallyd::config::load(Some(&rig.config())).unwrap())
}

pub async fn store(rig: &Rig) -> Store {
    context(rig).store().await.unwrap()
}

/// Makes targets known as ones that nobody has liked yet.
pub async fn load(redis: &mut MultiplexedConnection, targets: impl IntoIterator<Item = i64>) {
    for target in targets {
        let mut pipe = redis::pipe();
        pipe.hset(format!("like:1:{target}"), 0, "full").hset(format!("cnt:1:{target}"), "like", 0);
        pipe.exec_async(redis).await.unwrap();
    }
}

/// Loads targets from MySQL, as a reader who asks for them does.
pub async fn reload(rig: &Rig, targets: impl IntoIterator<Item = i64>) {
    let live = Live::new(Arc::new(context(rig)), BreakerMetrics::default());
    for target in targets {
        live.counts(1, id(target)).await.unwrap();
    }
}

/// One like or its cancelling; the event time.
pub async fn like(store: &Store, target: i64, user: i64, active: bool) -> i64 {
    let op = WriteOp { interaction: LIKE, target: id(target), user: id(user), active };
    let written = store.write(NOTES, &[op], Unloaded::Refuse, &EventClock::default(), SOON).await.unwrap();
    assert!(matches!(written.1[..], [Written::Recorded { .. }]), "{written:?}");
    written.0
}

/// Likes `targets` × `users`, all active, in one call a target.
pub async fn like_all(store: &Store, targets: impl IntoIterator<Item = i64>, users: std::ops::Range<i64>) {
    for target in targets {
        let op = |user| WriteOp { interaction: LIKE, target: id(target), user: id(user), active: true };
        let ops: Vec<_> = users.clone().map(op).collect();
        let (_, written) = store.write(NOTES, &ops, Unloaded::Refuse, &EventClock::default(), SOON).await.unwrap();
        assert!(written.iter().all(|w| matches!(w, Written::Recorded { .. })), "{written:?}");
    }
}

/// Every state in Redis, by target and user.
pub async fn states(rig: &Rig) -> Table {
    let mut redis = rig.redis.connect().await;
    let mut states = Table::new();
    for key in redis.keys::<_, Vec<String>>("like:1:*").await.unwrap() {
        let target = key.rsplit(':').next().unwrap().parse().unwrap();
        let fields: BTreeMap<i64, String> = redis.hgetall(&key).await.unwrap();
        states.extend(fields.iter().filter(|&(&u, _)| u != 0).map(|(&u, state)| ((target, u), state.parse().unwrap())));
    }
    states
}

/// Every record row, by target and user.
pub async fn records(rig: &Rig) -> Table {
    table(rig, "SELECT target_id, user_id, status FROM interaction_record WHERE target_type = 1").await
}

/// The counts in Redis, with 0 in place of a user.
async fn redis_counts(rig: &Rig) -> Table {
    let mut redis = rig.redis.connect().await;
    let mut counts = Table::new();
    for key in redis.keys::<_, Vec<String>>("cnt:1:*").await.unwrap() {
        let count = redis.hget::<_, _, Option<i64>>(&key, "like").await.unwrap();
        counts.insert((key.rsplit(':').next().unwrap().parse().unwrap(), 0), count.expect("a known count"));
    }
    counts
}

pub async fn count_rows(rig: &Rig) -> Table {
    table(rig, "SELECT target_id, 0, count FROM interaction_count WHERE target_type = 1").await
}

pub fn active(states: &Table) -> Table {
    let mut active = Table::new();
    for (&(target, _), state) in states {
        *active.entry((target, 0)).or_default() += state;
    }
    active
}

async fn table(rig: &Rig, query: &str) -> Table {
    let number = |text: &Option<String>| text.as_deref().unwrap().parse::<i64>().unwrap();
    let rows = rig.sql(query).await;
    rows.iter().map(|row| ((number(&row[0]), number(&row[1])), number(&row[2]))).collect()
}

/// Redis and MySQL say the same: states, record rows, counts, count rows, and the number of active states.
///
/// Every target must have been synced once.
pub async fn assert_agreement(rig: &Rig) {
    let states = states(rig).await;
    same("states and record rows", &states, &records(rig).await);
    let active = active(&states);
    same("active states and Redis counts", &active, &redis_counts(rig).await);
    same("active states and count rows", &active, &count_rows(rig).await);
    assert_eq!(marks(rig).await, [""; 0], "everything is synced");
}

/// Prints only what differs.
pub fn same(what: &str, one: &Table, other: &Table) {
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differ = |key: &&&(i64, i64)| one.get(key) != other.get(key);
    let different: Vec<_> = keys.iter().filter(differ).map(|key| (key, one.get(key), other.get(key))).collect();
    assert!(
        different.is_empty(),
        "{what} differ in {} places: {:?}",
        different.len(),
        &different[..different.len().min(9)]
    );
}

/// The keys that mark unsynced work of notes.
pub async fn marks(rig: &Rig) -> Vec<String> {
    let mut redis = rig.redis.connect().await;
    let mut marks = Vec::new();
    for key in ["dirty:1", "chg:1", "dirty:1:inflight", "chg:1:inflight", "dirty:1:inflight:done"] {
        if redis.exists(key).await.unwrap() {
            marks.push(key.to_owned());
        }
    }
    marks
}

/// All that MySQL holds of interactions, in key order.
pub async fn dump(rig: &Rig) -> Vec<Vec<Option<String>>> {
    let mut rows = rig.sql("SELECT * FROM interaction_record ORDER BY 1, 2, 3, 4").await;
    rows.extend(rig.sql("SELECT * FROM interaction_count ORDER BY 1, 2, 3").await);
    rows
}

/// Waits until a process has stopped itself at a failpoint.
pub async fn until_paused(process: &Daemon) {
    let stat = format!("/proc/{}/stat", process.pid());
    let paused = async || {
        assert!(process.is_running(), "it ended before its failpoint:\n{}\n{}", process.stdout(), process.log());
        fs::read_to_string(&stat).unwrap_or_default().contains(") T ")
    };
    eventually(SOON, paused, "the process stops at its failpoint").await;
}

/// Lets the lease of notes run out now instead of in 15 s.
pub async fn let_lease_run_out(rig: &Rig) {
    let sql = "UPDATE sync_partition SET lease_until = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND WHERE target_type = 1";
    assert_eq!(rig.sql_exec(sql).await, 1);
}

/// The record rows in a [`dump`].
pub fn table_of(dump: &[Vec<Option<String>>]) -> Table {
    let number = |text: &Option<String>| text.as_deref().unwrap().parse().unwrap();
    // target_type, target_id, interaction_type, user_id, status, create_time, update_time
    let records = dump.iter().filter(|row| row.len() == 7);
    records.map(|row| ((number(&row[1]), number(&row[3])), number(&row[4]))).collect()
}
