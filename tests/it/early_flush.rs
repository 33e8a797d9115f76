//! Runs that a backlog starts, long before the schedule does.

use std::time::Duration;

use redis::AsyncCommands;

use crate::likes::{SOON, assert_agreement, like_all, load, marks, store};
use crate::support::{Rig, Signal, eventually};

/// A schedule that does not come.
const CONFIG: &str = "sync.early_flush_changes = 50\nsync.cron = \"0 0 1 1 *\"";

async fn runs_of(rig: &Rig, cause: &str) -> u64 {
    let rows = rig.sql(&format!("SELECT COUNT(*) FROM sync_run WHERE caused_by = '{cause}'")).await;
    rows[0][0].as_deref().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_starts_a_run() {
    let rig = Rig::start(CONFIG).await;
    rig.migrate().await;
    load(&mut rig.redis.connect().await, 1..=2).await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    eventually(SOON, async || runs_of(&rig, "start").await == 1, "the run at start is over").await;
    let writer = store(&rig).await;
    like_all(&writer, 1..=1, 1..50).await;
    // It looks every second: one change less than enough is left alone.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!((runs_of(&rig, "backlog").await, marks(&rig).await.len()), (0, 2));
    like_all(&writer, 2..=2, 1..2).await;
    eventually(SOON, async || runs_of(&rig, "backlog").await == 1, "a run starts by itself").await;
    assert_agreement(&rig).await;
    // Again and again.
    like_all(&writer, 1..=2, 100..160).await;
    eventually(SOON, async || marks(&rig).await.is_empty(), "another run starts by itself").await;
    assert_agreement(&rig).await;
    daemon.signal(Signal::TERM);
    daemon.output(SOON).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_cannot_be_synced_is_not_tried_all_the_time() {
    let rig = Rig::start(CONFIG).await;
    rig.migrate().await;
    let mut redis = rig.redis.connect().await;
    load(&mut redis, 1..=2).await;
    like_all(&store(&rig).await, 1..=2, 1..50).await;
    // Every run is refused.
    redis.set::<_, _, ()>("ckpt:1", "4000000000.0").await.unwrap();
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    eventually(SOON, async || runs_of(&rig, "backlog").await == 1, "a run is tried").await;
    // Five looks later.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(runs_of(&rig, "backlog").await, 1, "{}", daemon.log());
    redis.del::<_, ()>("ckpt:1").await.unwrap();
    eventually(SOON, async || marks(&rig).await.is_empty(), "it is tried again, later").await;
    assert_agreement(&rig).await;
}
