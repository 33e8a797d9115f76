//! A Redis that lost what MySQL holds is not copied from: the checkpoint proves the loss, and the partition is restored.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::likes::{
    assert_agreement, dump, like, like_all, load, marks, records, reload, same, states, store, table_of, until_paused,
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

/// A dry run says that a run would restore, and changes nothing.
async fn expect_dry_run(rig: &Rig, why: &str) {
    let (before, marked) = (dump(rig).await, marks(rig).await);
    let output = rig.tallyd(&["sync", "--dry-run", "--json"]).await.expect_code(1);
    assert_eq!(output.json()["outcome"], "partial", "{}", output.stdout);
    let error = error(&output);
    assert!(error.contains(why) && error.contains("a run would restore it first"), "{error}");
    assert_eq!((dump(rig).await, marks(rig).await), (before, marked));
}

/// A run restores notes, reports `kind` and `from`, and is done. Answers how many states it dropped, and how many
/// changes it kept.
async fn expect_restore(rig: &Rig, kind: &str, from: &str) -> (u64, u64) {
    let mysql = rig.sql("SELECT checkpoint FROM sync_partition WHERE target_type = 1").await[0][0].clone().unwrap();
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(output.json()["outcome"], "done", "{}", output.stdout);
    let restored = output.json()["partitions"][0]["restored"].clone();
    let token = rig.sql("SELECT lease_token FROM sync_partition WHERE target_type = 1").await[0][0].clone().unwrap();
    assert_eq!(restored["to"], format!("{token}.0"), "{restored}");
    assert_eq!((&restored["kind"], &restored["from"]), (&kind.into(), &from.into()), "{restored}");
    assert_eq!((&restored["mysql"], &restored["times"]), (&mysql.into(), &1.into()), "{restored}");
    assert!(output.json()["partitions"][1]["restored"].is_null(), "{}", output.stdout);
    let said = output.stderr.lines().filter(|line| line.contains("WARN") && line.contains("what is pending was kept"));
    assert_eq!(said.count(), 1, "{}", output.stderr);
    assert_eq!(marks(rig).await, [""; 0]);
    (restored["dropped"].as_u64().unwrap(), restored["kept"].as_u64().unwrap())
}

/// MySQL is as it was but for `changes`, and so is Redis once it has loaded.
async fn expect_changes(rig: &Rig, before: &[Vec<Option<String>>], changes: &[((i64, i64), i64)]) {
    let mut expected = table_of(before);
    expected.extend(changes.iter().copied());
    same("what must be and record rows", &expected, &records(rig).await);
    reload(rig, 1..=3).await;
    assert_agreement(rig).await;
}

fn error(output: &Output) -> String {
    output.json()["partitions"][0]["error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_is_restored() {
    let (rig, mut redis) = start().await;
    let before = dump(&rig).await;
    flush(&mut redis).await;
    expect_dry_run(&rig, "no checkpoint").await;
    // Writers go on, as for a target that nobody ever liked.
    load(&mut redis, 1..=3).await;
    like(&store(&rig).await, 1, 5, false).await;
    like(&store(&rig).await, 2, 77, true).await;
    expect_dry_run(&rig, "Redis has lost writes that MySQL holds").await;
    assert_eq!(expect_restore(&rig, "missing", "").await, (0, 2));
    expect_changes(&rig, &before, &[((1, 5), 0), ((2, 77), 1)]).await;
    let text = rig.tallyd(&["sync"]).await.expect_code(0);
    assert!(text.stdout.starts_with("done") && !text.stdout.contains("restored"), "once is enough: {}", text.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_redis_is_restored() {
    let (rig, mut redis) = start().await;
    // Once within one lease, and once from before the lease.
    let older = snapshot(&mut redis).await;
    like(&store(&rig).await, 1, 5, false).await;
    let marked = snapshot(&mut redis).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
    for snapshot in [older, marked] {
        let before = dump(&rig).await;
        roll_back(&mut redis, &snapshot).await;
        let from: String = redis.get("ckpt:1").await.unwrap();
        like(&store(&rig).await, 3, 78, true).await;
        like(&store(&rig).await, 3, 7, false).await;
        expect_dry_run(&rig, "Redis has lost writes that MySQL holds").await;
        // The like of user 5 that came back, with its mark or without, is older than its row.
        assert_eq!(expect_restore(&rig, "older", &from).await, (59, 2));
        expect_changes(&rig, &before, &[((3, 78), 1), ((3, 7), 0)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_decides_by_token_then_step() {
    let (rig, mut redis) = start().await;
    let (token, step) = checkpoint(&rig).await;
    assert_eq!(redis.get::<_, String>("ckpt:1").await.unwrap(), format!("{token}.{step}"), "equal after a run");
    like(&store(&rig).await, 1, 5, false).await;

    let before = dump(&rig).await;
    for lower in [format!("{token}.{}", step - 1), format!("{}.{}", token - 1, step + 50), "nonsense".into()] {
        redis.set::<_, _, ()>("ckpt:1", &lower).await.unwrap();
        expect_dry_run(&rig, &format!("Redis holds {lower}")).await;
        assert_eq!(redis.get::<_, String>("ckpt:1").await.unwrap(), lower, "it goes on proving the loss");
        expect_restore(&rig, "older", &lower).await;
        expect_changes(&rig, &before, &[((1, 5), 0)]).await;
    }
    let (token, step) = checkpoint(&rig).await;
    redis.set::<_, _, ()>("restoring:1", "1.0").await.unwrap();
    expect_dry_run(&rig, "a restore of this partition was begun and not ended").await;
    let found = redis.get::<_, String>("ckpt:1").await.unwrap();
    expect_restore(&rig, "interrupted", &found).await;
    expect_changes(&rig, &before, &[((1, 5), 0)]).await;

    // Above every lease: MySQL is the one that lost something, for nobody else holds the lease.
    let kept: String = redis.get("ckpt:1").await.unwrap();
    assert!(checkpoint(&rig).await >= (token, step));
    for key in ["ckpt:1", "restoring:1"] {
        redis.set::<_, _, ()>(key, "4000000000.0").await.unwrap();
        let before = dump(&rig).await;
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
        assert_eq!(output.json()["outcome"], "refused");
        assert!(error(&output).contains("MySQL has lost writes"), "{}", output.stdout);
        assert_eq!(dump(&rig).await, before);
        redis.del::<_, ()>("restoring:1").await.unwrap();
        redis.set::<_, _, ()>("ckpt:1", &kept).await.unwrap();
    }
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

async fn checkpoint(rig: &Rig) -> (u64, u64) {
    let rows = rig.sql("SELECT checkpoint FROM sync_partition WHERE target_type = 1").await;
    let (token, step) = rows[0][0].as_deref().unwrap().split_once('.').unwrap();
    (token.parse().unwrap(), step.parse().unwrap())
}

/// What Redis lost between two chunks reaches no row: the next step is fenced, and the run begins again.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loses_writes_in_the_middle_of_a_run_is_restored_in_the_same_run() {
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
        let output = run.output(LIMIT).await.expect_code(0);
        assert!(output.stderr.contains("in the middle of the run, which begins again"), "{point}: {}", output.stderr);
        let restored = &output.json()["partitions"][0]["restored"];
        match (point, flushed) {
            // It lost what was never synced, and nothing that MySQL holds: the checkpoints are equal.
            ("after_claim", false) => assert!(restored.is_null(), "{restored}"),
            (_, true) => assert_eq!(restored["kind"], "missing", "{point}: {restored}"),
            (_, false) => assert_eq!(restored["kind"], "older", "{point}: {restored}"),
        }

        // A chunk that was read before is true and whole, and it is all that was written. At the ack of the first, the
        // others are read, too.
        let (now, was) = (records(&rig).await, table_of(&synced));
        let moved: Vec<_> = now.iter().filter(|&(key, state)| was[key] != *state).collect();
        assert!(moved.iter().all(|&(key, state)| truth[key] == *state), "{point}: {moved:?}");
        let chunks = moved.chunk_by(|one, other| one.0.0 == other.0.0);
        let chunks: Vec<_> = chunks.map(|chunk| (chunk[0].0.0, chunk.len())).collect();
        match point {
            "after_claim" => assert_eq!(dump(&rig).await, synced, "{point}"),
            "after_read" => assert_eq!(chunks, [(1, 10)], "{point}"),
            _ => assert!(chunks.contains(&(1, 10)) && chunks.iter().all(|chunk| chunk.1 == 10), "{point}: {chunks:?}"),
        }
        reload(&rig, 1..=3).await;
        assert_agreement(&rig).await;
    }
}
