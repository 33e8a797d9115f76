//! A Redis that lost what MySQL holds is not copied from: the checkpoint proves the loss (hazard 14, sections 6 and 11).

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::likes::{
    assert_agreement, dump, like, like_all, load, marks, records, states, store, table_of, until_paused,
};
use crate::support::{Output, Rig, Signal, failpoints};

const LIMIT: std::time::Duration = std::time::Duration::from_mins(1);

/// 60 likes, synced.
async fn start() -> (Rig, MultiplexedConnection) {
    let rig = Rig::start("sync.batch_rows = 20").await;
    rig.migrate().await;
    let mut redis = rig.redis.connect().await;
    load(&mut redis, 1..=3).await;
    like_all(&store(&rig).await, 1..=3, 1..21).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
    (rig, redis)
}

async fn flush(redis: &mut MultiplexedConnection) {
    redis::cmd("FLUSHDB").query_async::<()>(redis).await.unwrap();
}

/// All of Redis, as an RDB file would hold it.
async fn snapshot(redis: &mut MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for key in redis.keys::<_, Vec<String>>("*").await.unwrap() {
        all.push((key.clone(), redis::cmd("DUMP").arg(key).query_async(redis).await.unwrap()));
    }
    all
}

async fn roll_back(redis: &mut MultiplexedConnection, to: &[(String, Vec<u8>)]) {
    flush(redis).await;
    for (key, value) in to {
        redis::cmd("RESTORE").arg(key).arg(0).arg(value.as_slice()).query_async::<()>(redis).await.unwrap();
    }
}

/// A run and a dry run refuse notes with an error that says `why`, and MySQL stays as it is.
async fn expect_refusal(rig: &Rig, why: &str) {
    let before = dump(rig).await;
    let marked = marks(rig).await;
    for args in [&["sync", "--dry-run", "--json"][..], &["sync", "--json"], &["sync", "--full", "--json"]] {
        let output = rig.tallyd(args).await.expect_code(1);
        assert_eq!(output.json()["outcome"], "refused", "{args:?}: {}", output.stdout);
        let error = error(&output);
        assert!(error.contains(why), "{args:?}: {error}");
    }
    let text = rig.tallyd(&["sync"]).await.expect_code(1);
    assert!(text.stdout.starts_with("refused") && text.stdout.contains(why), "{}", text.stdout);
    assert_eq!(dump(rig).await, before, "MySQL is unchanged");
    assert_eq!(marks(rig).await, marked, "nothing was claimed or acked");
}

fn error(output: &Output) -> String {
    output.json()["partitions"][0]["error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_is_not_copied_from() {
    let (rig, mut redis) = start().await;
    flush(&mut redis).await;
    expect_refusal(&rig, "no checkpoint").await;
    // Writers go on, as for a target that nobody ever liked.
    load(&mut redis, 1..=3).await;
    like(&store(&rig).await, 1, 5, false).await;
    like(&store(&rig).await, 2, 77, true).await;
    expect_refusal(&rig, "Redis has lost writes that MySQL holds").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_redis_is_not_copied_from() {
    let (rig, mut redis) = start().await;
    // Once within one lease, and once from before the lease.
    let older = snapshot(&mut redis).await;
    like(&store(&rig).await, 1, 5, false).await;
    let marked = snapshot(&mut redis).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
    for snapshot in [older, marked] {
        roll_back(&mut redis, &snapshot).await;
        like(&store(&rig).await, 3, 78, true).await;
        expect_refusal(&rig, "Redis has lost writes that MySQL holds").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_decides_by_token_then_step() {
    let (rig, mut redis) = start().await;
    let (token, step) = checkpoint(&rig).await;
    assert_eq!(redis.get::<_, String>("ckpt:1").await.unwrap(), format!("{token}.{step}"), "equal after a run");
    like(&store(&rig).await, 1, 5, false).await;

    for lower in [format!("{token}.{}", step - 1), format!("{}.{}", token - 1, step + 50), "nonsense".into()] {
        redis.set::<_, _, ()>("ckpt:1", &lower).await.unwrap();
        expect_refusal(&rig, &format!("Redis holds {lower}")).await;
        assert_eq!(redis.get::<_, String>("ckpt:1").await.unwrap(), lower, "it goes on proving the loss");
    }
    redis.set::<_, _, ()>("ckpt:1", format!("{token}.{step}")).await.unwrap();
    redis.set::<_, _, ()>("restoring:1", "1.0").await.unwrap();
    expect_refusal(&rig, "a restore of this partition is under way").await;
    redis.del::<_, ()>("restoring:1").await.unwrap();

    // Above every lease: MySQL is the one that lost something, for nobody else holds the lease.
    redis.set::<_, _, ()>("ckpt:1", "4000000000.0").await.unwrap();
    let before = dump(&rig).await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
    assert_eq!(output.json()["outcome"], "refused");
    assert!(error(&output).contains("MySQL has lost writes"), "{}", output.stdout);
    assert_eq!(dump(&rig).await, before);

    redis.set::<_, _, ()>("ckpt:1", format!("{token}.{step}")).await.unwrap();
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

async fn checkpoint(rig: &Rig) -> (u64, u64) {
    let rows = rig.sql("SELECT checkpoint FROM sync_partition WHERE target_type = 1").await;
    let (token, step) = rows[0][0].as_deref().unwrap().split_once('.').unwrap();
    (token.parse().unwrap(), step.parse().unwrap())
}

/// What Redis lost between two chunks reaches no row: the next step is fenced.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loses_writes_in_the_middle_of_a_run_stops_it() {
    if !failpoints() {
        return;
    }
    for (point, flushed) in [
        ("after_claim", true),
        ("after_claim", false),
        ("after_read", true),
        ("after_read", false),
        ("before_ack", true),
    ] {
        let (rig, mut redis) = start().await;
        // An old state of everything: who is rolled back to it must not be believed.
        let old = snapshot(&mut redis).await;
        let (synced, writer) = (dump(&rig).await, store(&rig).await);
        for user in 1..21 {
            for target in 1..=3 {
                like(&writer, target, user, user % 2 == 0).await;
            }
        }
        let truth = states(&rig).await;
        let run = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", &format!("{point}:pause"))]);
        until_paused(&run).await;
        if flushed {
            flush(&mut redis).await;
        } else {
            roll_back(&mut redis, &old).await;
        }
        run.signal(Signal::CONT);
        let output = run.output(LIMIT).await.expect_code(1);
        assert!(error(&output).contains("Redis lost writes"), "{point}: {}", output.stdout);

        // A chunk that was read before is true and whole, and it is all that was written. At the ack of the first, the
        // second is read, too.
        let (now, was) = (records(&rig).await, table_of(&synced));
        let moved: Vec<_> = now.iter().filter(|&(key, state)| was[key] != *state).collect();
        assert!(moved.iter().all(|&(key, state)| truth[key] == *state), "{point}: {moved:?}");
        let chunks = moved.chunk_by(|one, other| one.0.0 == other.0.0);
        let chunks: Vec<_> = chunks.map(|chunk| (chunk[0].0.0, chunk.len())).collect();
        match point {
            "after_claim" => assert_eq!(dump(&rig).await, synced, "{point}"),
            "after_read" => assert_eq!(chunks, [(1, 10)], "{point}"),
            _ => assert!(chunks == [(1, 10)] || chunks == [(1, 10), (2, 10)], "{point}: {chunks:?}"),
        }
        if (point, flushed) == ("after_claim", false) {
            // It lost what was never synced, and nothing that MySQL holds: the checkpoints are equal.
            rig.tallyd(&["sync"]).await.expect_code(0);
            assert_eq!(dump(&rig).await, synced);
            assert_agreement(&rig).await;
        } else {
            expect_refusal(&rig, "Redis has lost writes that MySQL holds").await;
        }
    }
}
