//! Runs while clients write as fast as they can (invariants 4 and 7), and scripts that Redis forgets (hazard 7).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tallyd::sync::{Context, Extent, Outcome, Progress, RunReport, Trigger, run};
use tokio_util::sync::CancellationToken;

use crate::likes::{SOON, assert_agreement, context, load, same, states};
use crate::support::{PrivateRedis, Rig, create_database, eventually};
use crate::writers::Writers;

const RUNS: usize = 100;
const WAIT: Duration = Duration::from_secs(20);

async fn sync(context: &Context) -> RunReport {
    run(context, Trigger::Command, Extent::Changed, WAIT, &Progress::default(), &CancellationToken::new()).await
}

/// Nobody writes any more: one last run, and both stores hold what the clients were told.
async fn assert_all_stored(rig: &Rig, writers: Writers, at_least: u64) {
    let (last, sent) = writers.finish().await;
    assert!(sent > at_least, "only {sent} writes");
    assert_eq!(sync(&context(rig)).await.outcome, Outcome::Done);
    same("the answers and the states", &last, &states(rig).await);
    assert_agreement(rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_runs_under_full_load_store_every_write() {
    // Chunks cut through targets, so that two transactions write the same count.
    let rig = Rig::start("sync.batch_rows = 70").await;
    rig.migrate().await;
    let targets: Vec<_> = (1..=20).collect();
    load(&mut rig.redis.connect().await, targets.clone()).await;
    let writers = Writers::start(&rig, 2, &targets, 10, None);
    let context = context(&rig);
    let mut changes = 0;
    for n in 0..RUNS {
        let report = sync(&context).await;
        assert_eq!(report.outcome, Outcome::Done, "run {n}: {report:?}");
        let tally = report.tally;
        assert_eq!((tally.rejected, tally.left, tally.drift), (0, 0, 0), "run {n}: {report:?}");
        changes += tally.changes;
    }
    assert!(changes > 5_000, "there was something to do: {changes} changes");
    assert_all_stored(&rig, writers, 10_000).await;
}

async fn forget_scripts(redis: &mut MultiplexedConnection) {
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(redis).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_redis_forgets_fail_no_like_and_no_run() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "sync.batch_rows = 70");
    rig.migrate().await;
    let mut connection = redis.connect().await;
    let targets: Vec<_> = (1..=30).collect();
    load(&mut connection, targets.clone()).await;
    let writers = Writers::start(&rig, 2, &targets, 25, None);
    let context = context(&rig);
    let stop = CancellationToken::new();
    let forgetting = async {
        // Between the loading of a script and its call no second loss fits in.
        while tokio::time::timeout(Duration::from_millis(40), stop.cancelled()).await.is_err() {
            forget_scripts(&mut connection).await;
        }
    };
    let running = async {
        for n in 0..15 {
            let report = sync(&context).await;
            assert_eq!(report.outcome, Outcome::Done, "run {n}: {report:?}");
        }
        stop.cancel();
    };
    tokio::join!(forgetting, running);
    assert_all_stored(&rig, writers, 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_redis_loses_no_like_and_runs_go_on() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "sync.batch_rows = 70");
    rig.migrate().await;
    let targets: Vec<_> = (1..=30).collect();
    load(&mut redis.connect().await, targets.clone()).await;
    let writers = Writers::start(&rig, 2, &targets, 25, None);
    let context = context(&rig);
    let stop = CancellationToken::new();
    let done = AtomicUsize::new(0);
    let running = async {
        let mut failed = 0;
        while !stop.is_cancelled() {
            let report = sync(&context).await;
            match report.outcome {
                Outcome::Done => _ = done.fetch_add(1, Ordering::Relaxed),
                // The lease is given back: the next run need not wait for it.
                Outcome::Failed | Outcome::Partial => failed += 1,
                Outcome::Refused | Outcome::Busy => panic!("nothing was lost and nobody else is there: {report:?}"),
            }
            tokio::task::yield_now().await;
        }
        failed
    };
    let restarting = async {
        for restarted in 0..=4 {
            let before = done.load(Ordering::Relaxed);
            eventually(SOON, async || done.load(Ordering::Relaxed) > before, "a run that is done").await;
            if restarted < 4 {
                redis.stop().await;
                redis.start_again().await;
            }
        }
        stop.cancel();
    };
    let (failed, ()) = tokio::join!(running, restarting);
    assert!(failed > 0, "no run met a restart");
    assert_all_stored(&rig, writers, 2_000).await;
}
