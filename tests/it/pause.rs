//! A run that stands still at the wrong moment: writes meanwhile, and leases lost meanwhile (hazard 13, invariant 6).

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::likes::{
    assert_agreement, dump, let_lease_run_out, like, like_all, load, marks, records, states, store, until_paused,
};
use crate::support::{Daemon, Output, Rig, Signal, failpoints};

const LIMIT: std::time::Duration = std::time::Duration::from_mins(1);

/// 100 likes, to be synced in chunks of so many.
async fn start(chunk: usize) -> (Rig, MultiplexedConnection) {
    let rig = Rig::start(&format!("sync.batch_rows = {chunk}")).await;
    rig.migrate().await;
    let mut redis = rig.redis.connect().await;
    load(&mut redis, 1..=5).await;
    like_all(&store(&rig).await, 1..=5, 1..21).await;
    (rig, redis)
}

async fn sync_paused(rig: &Rig, failpoint: &str) -> Daemon {
    let process = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", failpoint)]);
    until_paused(&process).await;
    process
}

async fn go_on(process: Daemon) -> Output {
    process.signal(Signal::CONT);
    process.output(LIMIT).await
}

/// What became of the partition of notes.
fn of_notes(output: &Output) -> (String, String) {
    let notes = &output.json()["partitions"][0];
    let text = |name: &str| notes[name].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("error"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_between_read_and_ack_is_stored_by_the_next_run() {
    if !failpoints() {
        return;
    }
    for point in ["after_claim", "after_read", "after_commit", "before_ack"] {
        let (rig, mut redis) = start(20).await;
        let run = sync_paused(&rig, &format!("{point}:pause")).await;
        // Both ways, in the first chunk and in another, by a user who was there and by a new one.
        let writer = store(&rig).await;
        like(&writer, 1, 3, false).await;
        like(&writer, 1, 4, false).await;
        like(&writer, 1, 4, true).await;
        like(&writer, 5, 7, false).await;
        like(&writer, 1, 99, true).await;
        go_on(run).await.expect_code(0);

        assert_eq!(marks(&rig).await, ["dirty:1", "chg:1"], "{point}: still dirty");
        let fresh: Vec<String> = redis.hkeys("chg:1").await.unwrap();
        assert_eq!(fresh.len(), 4, "{point}: {fresh:?}");
        if !["after_claim"].contains(&point) {
            assert_ne!(records(&rig).await, states(&rig).await, "{point}: the chunk was read before");
        }
        rig.tallyd(&["sync"]).await.expect_code(0);
        assert_agreement(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_lost_its_lease_commits_nothing() {
    if !failpoints() {
        return;
    }
    for chunk in [100, 20] {
        let (rig, _) = start(chunk).await;
        let first = sync_paused(&rig, "after_read:pause").await;
        // What it has read is no longer so.
        let writer = store(&rig).await;
        for user in 1..10 {
            like(&writer, 1, user, false).await;
        }
        let_lease_run_out(&rig).await;
        let second = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
        assert_eq!(second.json()["outcome"], "done");
        assert_agreement(&rig).await;
        let (rows, partition) = (dump(&rig).await, rig.sql("SELECT * FROM sync_partition").await);

        let output = go_on(first).await.expect_code(1);
        let (outcome, error) = of_notes(&output);
        assert_eq!(outcome, "failed", "{}", output.stdout);
        // Of a single chunk it is the commit that fails; of many it may be the next read, by the checkpoint.
        let why = if chunk == 100 { "the lease has another owner" } else { "another owner" };
        assert!(error.contains(why), "it says why: {error:?}");
        assert_eq!(output.json()["rows_written"], 0);
        assert_eq!(dump(&rig).await, rows, "the rows are those of the second");
        // It gives no lease back that is not its own, nor does it touch the checkpoint.
        let now = rig.sql("SELECT * FROM sync_partition WHERE target_type = 1").await;
        assert_eq!(now[0], partition[0]);
        assert_agreement(&rig).await;
    }
}

/// It committed in time, and its ack comes too late: what it would forget belongs to another by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_lost_its_lease_acks_nothing() {
    if !failpoints() {
        return;
    }
    // One chunk: a process that stands still has no other transaction open, whose locks the next would wait for.
    let (rig, mut redis) = start(100).await;
    let first = sync_paused(&rig, "before_ack:pause").await;
    let_lease_run_out(&rig).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    // The same changes once more, claimed by a third.
    let writer = store(&rig).await;
    for user in 1..21 {
        like(&writer, 1, user, false).await;
    }
    let third = sync_paused(&rig, "after_claim:pause").await;
    let claimed: usize = redis.hlen("chg:1:inflight").await.unwrap();

    let output = go_on(first).await.expect_code(1);
    let (outcome, error) = of_notes(&output);
    assert_eq!(outcome, "failed", "{}", output.stdout);
    assert!(error.contains("another owner"), "{error}");
    assert_eq!(redis.hlen::<_, usize>("chg:1:inflight").await.unwrap(), claimed, "nothing was acked");
    go_on(third).await.expect_code(0);
    assert_agreement(&rig).await;
}

/// A checkpoint that is not the holder's own stops it, and goes on proving what happened.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_under_a_checkpoint_that_moved_changes_nothing() {
    if !failpoints() {
        return;
    }
    let (rig, mut redis) = start(20).await;
    let run = sync_paused(&rig, "before_ack:pause").await;
    let before: Vec<String> = redis.hkeys("chg:1:inflight").await.unwrap();
    redis.set::<_, _, ()>("ckpt:1", "4000000000.0").await.unwrap();

    let output = go_on(run).await.expect_code(1);
    let (outcome, error) = of_notes(&output);
    assert_eq!(outcome, "refused", "{}", output.stdout);
    assert!(error.contains("Redis holds checkpoint 4000000000.0"), "{error}");
    assert_eq!(redis.hkeys::<_, Vec<String>>("chg:1:inflight").await.unwrap(), before, "nothing was acked");
    assert_eq!(
        redis.get::<_, String>("ckpt:1").await.unwrap(),
        "4000000000.0",
        "the checkpoint is left as it was found"
    );
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
    assert_eq!(output.json()["outcome"], "refused");
}
