//! What wakes a daemon whose schedule does not come: the journal of degraded writes, and a run that failed.

use std::time::{Duration, Instant};

use crate::likes::{SOON, assert_agreement, like_all, load, marks, store};
use crate::replay::{balance, degraded, liked};
use crate::support::{PrivateMysql, PrivateRedis, Rig, create_database, eventually};

async fn runs_of(rig: &Rig, cause: &str) -> u64 {
    let rows = rig.sql(&format!("SELECT COUNT(*) FROM sync_run WHERE caused_by = '{cause}'")).await;
    rows[0][0].as_deref().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_wakes_a_run_when_redis_is_back() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    liked(&rig).await;
    let served = rig.serve(&["--no-api", "--no-schedule"]).await;
    redis.kill();
    degraded(&rig, &[(1, 1, false)]).await;
    // Nobody runs in vain while Redis is away: three looks later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(runs_of(&rig, "journal").await, 0);
    redis.start_again().await;
    eventually(SOON, async || runs_of(&rig, "journal").await == 1, "a run by the journal").await;
    assert_eq!((balance(&rig).await, marks(&rig).await.len()), ((0, 1), 0));
    assert_agreement(&rig).await;
    // And again, without a word about runs that were skipped.
    degraded(&rig, &[(1, 1, true)]).await;
    eventually(SOON, async || balance(&rig).await == (0, 2), "another run").await;
    let counted = async || {
        let metrics = served.admin.get("/metrics").await.expect(200).body;
        metrics.lines().any(|line| line == "tallyd_replayed_writes_total 2")
    };
    eventually(SOON, counted, "the metric counts both").await;
    assert!(!served.log().contains("skipped"), "{}", served.log());
}

/// Without a schedule that would come soon: the run at the start fails, and is tried again until it does not (hazard 19).
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_failed_is_tried_again() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let db = mysql.create_database("likes").await;
    let rig = Rig::on(&redis, &db, "sync.cron = \"0 0 1 1 *\"");
    rig.migrate().await;
    load(&mut redis.connect().await, 1..=1).await;
    like_all(&store(&rig).await, 1..=1, 1..21).await;
    redis.stop().await;
    mysql.stop().await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    daemon.wait_for_log("not synced", SOON).await;
    redis.start_again().await;
    mysql.start_again().await;
    eventually(SOON, async || runs_of(&rig, "retry").await == 1, "it is tried again").await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_looked_for_as_soon_as_redis_is_back_or_a_checkpoint_is_gone() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "sync.cron = \"0 0 1 1 *\"");
    rig.migrate().await;
    liked(&rig).await;
    let served = rig.serve(&["--no-api"]).await;
    let restores = async || {
        let metrics = served.admin.get("/metrics").await.expect(200).body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("tallyd_redis_loss_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let seen = async || runs_of(&rig, "start").await == 1;
    eventually(SOON, seen, "the first run").await;
    // It looks each second, and nothing outside shows it; what it has not seen there it cannot miss.
    let started = Instant::now();
    eventually(SOON, async || started.elapsed() > Duration::from_millis(2500), "a look or two").await;
    let () = redis::cmd("FLUSHALL").query_async(&mut rig.redis.connect().await).await.unwrap();
    eventually(SOON, async || restores().await >= 1, "a restore after a flush").await;
    let before = restores().await;
    // Without persistence it comes back empty.
    redis.kill();
    redis.start_again().await;
    eventually(SOON, async || restores().await > before, "a restore after a restart").await;
    assert!(runs_of(&rig, "redis").await >= 2);
    assert_eq!(runs_of(&rig, "schedule").await, 0);
}
