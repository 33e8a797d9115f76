//! Being asked to stop: the chunk under way whole or not at all, the rest still marked (hazard 3).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use sqlx::{Connection, Executor, MySqlConnection};

use crate::likes::{SOON, assert_agreement, let_lease_run_out, like_all, load, marks, records, store};
use crate::support::{Daemon, Output, Rig, Signal, eventually};

const CHUNK: usize = 50;

/// 500 likes in 10 chunks, one a target.
async fn start(extra: &str) -> Rig {
    let rig = Rig::start(&format!("sync.batch_rows = {CHUNK}\nsync.cron = \"0 0 1 1 *\"\n{extra}")).await;
    rig.migrate().await;
    load(&mut rig.redis.connect().await, 1..=10).await;
    like_all(&store(&rig).await, 1..=10, 1..51).await;
    rig
}

/// Holds a row of chunk 3 in a transaction of its own, so that the commit of that chunk waits.
async fn hold_chunk_three(rig: &Rig) -> MySqlConnection {
    let mut holder = rig.db.connect().await;
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute("INSERT INTO interaction_record VALUES (1, 3, 1, 25, 1, NOW(3), NOW(3))").await.unwrap();
    holder
}

/// Chunk 3 waits when its neighbours on the other connection are through: no chunk is read while four are under way.
async fn until_chunk_three(rig: &Rig) {
    eventually(SOON, async || records(rig).await.len() == 4 * CHUNK, "chunks 1, 2, 4 and 6 are stored").await;
}

/// Every chunk is stored whole or not at all, and whatever is not stored is marked.
async fn assert_nothing_lost(rig: &Rig) {
    let stored: BTreeSet<_> = records(rig).await.into_keys().collect();
    for target in 1..=10 {
        let size = stored.iter().filter(|key| key.0 == target).count();
        assert!([0, CHUNK].contains(&size), "chunk {target} has {size} of {CHUNK} rows");
    }
    assert!(stored.len() < 10 * CHUNK, "it stopped on the way");
    let mut redis = rig.redis.connect().await;
    let marked: BTreeSet<String> = redis.hkeys("chg:1:inflight").await.unwrap();
    let targets: BTreeSet<i64> = redis.smembers("dirty:1:inflight").await.unwrap();
    for (target, user) in (1..=10).flat_map(|target| (1..=50).map(move |user| (target, user))) {
        let marked = marked.contains(&format!("like:{target}:{user}")) && targets.contains(&target);
        assert!(marked || stored.contains(&(target, user)), "like {target}:{user} is neither stored nor marked");
    }
}

async fn end(daemon: Daemon, limit: Duration) -> (Option<i32>, String) {
    let output = daemon.output(limit).await;
    (output.code, output.stderr)
}

/// A run by hand that is interrupted while chunk 3 waits.
async fn stopped_by_hand(rig: &Rig) -> Output {
    let holder = hold_chunk_three(rig).await;
    let run = rig.spawn(&["sync", "--json"], &[]);
    until_chunk_three(rig).await;
    run.signal(Signal::INT);
    holder.close_hard().await.unwrap();
    run.output(SOON).await.expect_code(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_stops_between_two_chunks_and_the_next_start_goes_on() {
    for signal in [Signal::TERM, Signal::INT] {
        let rig = start("serve.grace_seconds = 20").await;
        let holder = hold_chunk_three(&rig).await;
        let daemon = rig.spawn(&["serve", "--no-api"], &[]);
        until_chunk_three(&rig).await;
        daemon.signal(signal);
        daemon.wait_for_log("tallyd stops", SOON).await;
        assert!(daemon.is_running(), "it waits for the chunk under way");
        holder.close_hard().await.unwrap();

        let (code, log) = end(daemon, SOON).await;
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("tallyd has stopped") && log.contains("stopped on request"), "{log}");
        assert_nothing_lost(&rig).await;
        assert_eq!(records(&rig).await.get(&(3, 25)), Some(&1), "the chunk under way was finished");
        let leases = rig.sql("SELECT COUNT(*) FROM sync_partition WHERE lease_until IS NOT NULL").await;
        assert_eq!(leases[0][0].as_deref(), Some("0"), "every lease is given back");

        let daemon = rig.spawn(&["serve", "--no-api"], &[]);
        eventually(SOON, async || marks(&rig).await.is_empty(), "the next start finishes it").await;
        daemon.signal(signal);
        assert_eq!(end(daemon, SOON).await.0, Some(0));
        assert_agreement(&rig).await;
    }
}

/// MySQL does not answer: the grace time is kept all the same, and what is cut off is not half there.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_does_not_outstay_its_grace_time() {
    let rig = start("serve.grace_seconds = 1").await;
    let holder = hold_chunk_three(&rig).await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    until_chunk_three(&rig).await;
    daemon.signal(Signal::TERM);
    let begun = Instant::now();
    let (code, log) = end(daemon, SOON).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("did not end within serve.grace_seconds"), "{log}");
    assert_nothing_lost(&rig).await;
    holder.close_hard().await.unwrap();
    // The lease could not be given back.
    let_lease_run_out(&rig).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_by_hand_stops_between_two_chunks_and_says_what_is_left() {
    let rig = start("").await;
    let output = stopped_by_hand(&rig).await;
    let json = output.json();
    assert_eq!(json["outcome"], "partial", "{}", output.stdout);
    assert_eq!(json["left"], 4, "what was handed over is copied: {}", output.stdout);
    assert_nothing_lost(&rig).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

/// A count that was set right in Redis has no mark: it must reach its row before the run ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_set_right_is_copied_before_a_run_stops() {
    let rig = start("").await;
    let () = rig.redis.connect().await.hset("cnt:1:1", "like", 99).await.unwrap();
    let output = stopped_by_hand(&rig).await;
    assert_eq!(
        (&output.json()["outcome"], &output.json()["drift"]),
        (&"partial".into(), &1.into()),
        "{}",
        output.stdout
    );
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_daemon_stops_at_once() {
    let rig = Rig::start("sync.cron = \"0 0 1 1 *\"").await;
    rig.migrate().await;
    for (args, signal) in [
        (&["serve", "--no-api"][..], Signal::TERM),
        (&["serve", "--no-api"], Signal::INT),
        (&["serve", "--no-api", "--no-schedule"], Signal::TERM),
    ] {
        let daemon = rig.spawn(args, &[("RUST_LOG", "tallyd=debug")]);
        let idle = if args.len() == 2 { "run: nothing to do" } else { "tallyd starts" };
        daemon.wait_for_log(idle, SOON).await;
        let begun = Instant::now();
        daemon.signal(signal);
        let (code, log) = end(daemon, SOON).await;
        assert_eq!(code, Some(0), "{args:?}: {log}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{args:?}: {:?}\n{log}", begun.elapsed());
    }
}
