//! Writes that went to MySQL while Redis was down come back into Redis (sections 6 and 7, hazard 15).

use redis::AsyncCommands;

use crate::likes::{
    SOON, active, assert_agreement, count_rows, dump, let_lease_run_out, like, like_all, load, records, reload, same,
    states, store, until_paused,
};
use crate::support::{Rig, Signal, failpoints};

/// Writes to MySQL as the API does while Redis is down: record, count when the state flips, journal. The event time is
/// that of now, and later than the row's.
pub async fn degraded(rig: &Rig, writes: &[(i64, i64, bool)]) {
    let now = chrono::Utc::now().timestamp_millis();
    for writes in writes.chunks(500) {
        let mut sql = "START TRANSACTION;".to_owned();
        for &(target, user, active) in writes {
            let (status, sign) = (i32::from(active), if active { '+' } else { '-' });
            let write = format!(
                "SET @old = (SELECT status FROM interaction_record WHERE target_type = 1 AND target_id = {target} \
                    AND interaction_type = 1 AND user_id = {user} FOR UPDATE);
                 SET @at = FROM_UNIXTIME({now} / 1000);
                 INSERT INTO interaction_record VALUES (1, {target}, 1, {user}, {status}, @at, @at) \
                    ON DUPLICATE KEY UPDATE status = VALUES(status), \
                    update_time = GREATEST(VALUES(update_time), update_time + INTERVAL 1000 MICROSECOND);
                 INSERT INTO interaction_count VALUES (1, {target}, 1, 0, @at) ON DUPLICATE KEY UPDATE count = count;
                 UPDATE interaction_count SET count = count {sign} (COALESCE(@old, 0) <> {status}) \
                    WHERE target_type = 1 AND target_id = {target} AND interaction_type = 1;
                 INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms) \
                    VALUES (1, 0, {target}, 1, {user}, {status}, {now});"
            );
            sql.push_str(&write);
        }
        rig.sql_exec(&format!("SET time_zone = '+00:00'; {sql} COMMIT")).await;
    }
}

/// Rows in the journal, and how many were ever replayed.
pub async fn balance(rig: &Rig) -> (i64, i64) {
    let select = "SELECT (SELECT COUNT(*) FROM degraded_write), \
                  COALESCE((SELECT value FROM tallyd_meta WHERE name = 'degraded.replayed_total'), 0)";
    let rows = rig.sql(select).await;
    let number = |at: usize| rows[0][at].as_deref().unwrap().parse().unwrap();
    (number(0), number(1))
}

async fn start() -> Rig {
    let rig = Rig::start("").await;
    rig.migrate().await;
    liked(&rig).await;
    rig
}

/// Notes 1 to 3 with 20 likes each, synced.
pub async fn liked(rig: &Rig) {
    load(&mut rig.redis.connect().await, 1..=3).await;
    like_all(&store(rig).await, 1..=3, 1..21).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_is_replayed_once() {
    let rig = start().await;
    // Note 4 is not loaded; users twice and more, so that states turn back and forth.
    let writes: Vec<_> = (0..2500).map(|n| (1 + n % 4, 1 + n * 7 % 40, n * 13 % 5 < 3)).collect();
    degraded(&rig, &writes).await;
    assert_eq!(balance(&rig).await, (2500, 0));
    let before = dump(&rig).await;
    let dry = rig.tallyd(&["sync", "--dry-run"]).await.expect_code(0).stdout;
    assert!(dry.contains("2500 degraded writes would be replayed"), "{dry}");

    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!((&output.json()["replayed"], &output.json()["outcome"]), (&2500.into(), &"done".into()));
    assert_eq!(balance(&rig).await, (0, 2500));
    assert_eq!(dump(&rig).await, before, "a replay changes no row, and no time of one");
    let status = rig.tallyd(&["status", "--json"]).await.expect_code(0).json();
    assert_eq!(status["degraded"], serde_json::json!({"pending": 0, "accepted_total": 2500, "replayed_total": 2500}));
    reload(&rig, [4]).await;
    assert_agreement(&rig).await;

    // Once more is the same.
    let held = states(&rig).await;
    for (target, user, active) in &writes {
        let status = i32::from(*active);
        rig.sql_exec(&format!(
            "INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms) \
             VALUES (1, 0, {target}, 1, {user}, {status}, 0)"
        ))
        .await;
    }
    let text = rig.tallyd(&["sync"]).await.expect_code(0).stdout;
    assert!(text.contains("2500 degraded writes replayed"), "{text}");
    assert_eq!(dump(&rig).await, before);
    same("states before and after", &held, &states(&rig).await);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_change_that_is_newer_stays() {
    let rig = start().await;
    // Older, unsynced: overridden. Claimed by a run that crashed: the same.
    let writer = store(&rig).await;
    for user in 1..=4 {
        like(&writer, 1, user, false).await;
    }
    let mut redis = rig.redis.connect().await;
    for user in [3, 4] {
        let field = format!("like:1:{user}");
        let at: i64 = redis.hget("chg:1", &field).await.unwrap();
        redis.hset::<_, _, _, ()>("chg:1:inflight", &field, at).await.unwrap();
        redis.hdel::<_, _, ()>("chg:1", &field).await.unwrap();
    }
    degraded(&rig, &[(1, 1, true), (1, 3, true), (2, 5, false), (2, 30, true)]).await;
    // Newer: it stays.
    let later = chrono::Utc::now().timestamp_millis() + 60_000;
    for (key, user) in [("chg:1", 5), ("chg:1:inflight", 30)] {
        redis.hset::<_, _, _, ()>(key, format!("like:2:{user}"), later).await.unwrap();
    }
    redis.hset::<_, _, _, ()>("like:1:2", 30, 0).await.unwrap();
    redis.sadd::<_, _, ()>("dirty:1", &[1, 2]).await.unwrap();
    redis.sadd::<_, _, ()>("dirty:1:inflight", &[1, 2]).await.unwrap();
    let mut expected = records(&rig).await;
    expected.extend([((1, 1), 1), ((1, 2), 0), ((1, 3), 1), ((1, 4), 0), ((2, 5), 1), ((2, 30), 0)]);
    rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    same("what must be and record rows", &expected, &records(&rig).await);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_of_single_users_does_not_vouch_for_more() {
    let rig = start().await;
    let mut redis = rig.redis.connect().await;
    redis.hset_multiple::<_, _, _, ()>("like:1:2", &[("0", "partial"), ("7", "1")]).await.unwrap();
    redis.hdel::<_, _, ()>("like:1:2", &["8", "9"]).await.unwrap();
    // Of a user who is there the count moves; of one who is not it is not known any more.
    degraded(&rig, &[(2, 7, false)]).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    let kept = (Some("partial".to_owned()), Some("19".to_owned()));
    assert_eq!((redis.hget("like:1:2", 0).await.unwrap(), redis.hget("cnt:1:2", "like").await.unwrap()), kept);
    degraded(&rig, &[(2, 8, false)]).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_eq!(redis.hget::<_, _, Option<String>>("like:1:2", 0).await.unwrap(), None);
    assert_eq!(redis.hget::<_, _, Option<String>>("cnt:1:2", "like").await.unwrap(), None);
    assert_eq!((balance(&rig).await, count_rows(&rig).await[&(2, 0)]), ((0, 2), 18));
    reload(&rig, [2]).await;
    assert_agreement(&rig).await;
}

/// A column without fractions: a row stands for its whole second.
#[tokio::test(flavor = "multi_thread")]
async fn a_pending_change_of_the_second_of_its_row_is_not_newer() {
    let rig = start().await;
    rig.sql_exec(
        "ALTER TABLE interaction_record MODIFY create_time DATETIME NOT NULL, MODIFY update_time DATETIME NOT NULL",
    )
    .await;
    let mut redis = rig.redis.connect().await;
    for (user, lost) in [(50, false), (51, true)] {
        rig.sql_exec(&format!(
            "INSERT INTO interaction_record VALUES (1, 1, 1, {user}, 1, '2033-05-18 03:33:20', '2033-05-18 03:33:20');
             UPDATE interaction_count SET count = count + 1 WHERE target_type = 1 AND target_id = 1"
        ))
        .await;
        redis.hset::<_, _, _, ()>("like:1:1", user, 0).await.unwrap();
        redis.hset::<_, _, _, ()>("chg:1", format!("like:1:{user}"), 2_000_000_000_500_i64).await.unwrap();
        redis.sadd::<_, _, ()>("dirty:1", 1).await.unwrap();
        if lost {
            redis.del::<_, ()>("ckpt:1").await.unwrap();
        } else {
            rig.sql_exec(&format!(
                "INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms) \
                 VALUES (1, 0, 1, 1, {user}, 1, 2000000000700)"
            ))
            .await;
        }
        rig.tallyd(&["sync"]).await.expect_code(0);
        assert_eq!(records(&rig).await[&(1, user)], 1);
        reload(&rig, 1..=3).await;
        assert_agreement(&rig).await;
    }
}

/// The twins write the same, in the same order; one of them is killed on the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_was_killed_is_done_again() {
    if !failpoints() {
        return;
    }
    let writes: Vec<_> = (0..1300).map(|n| (1 + n % 4, 1 + n % 60, n % 7 < 3)).collect();
    // Between the scripts and the transaction; after the transaction.
    for (point, left) in [("after_read", 1300), ("after_commit", 300)] {
        let rig = start().await;
        degraded(&rig, &writes).await;
        let before = dump(&rig).await;
        let killed = rig.tallyd_with(&["sync"], &[("TALLYD_FAILPOINT", &format!("{point}:kill"))]).await;
        assert_eq!(killed.code, None, "{point}");
        assert_eq!(balance(&rig).await, (left, 1300 - left), "{point}");
        // Whatever Redis held, each state is marked: a batch of a thousand writes is about all of them.
        let marked: usize = rig.redis.connect().await.hlen("chg:1").await.unwrap();
        assert_eq!(marked, 60, "{point}");
        let_lease_run_out(&rig).await;
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
        assert_eq!(output.json()["replayed"], left, "{point}: {}", output.stdout);
        assert!(output.json()["partitions"][0]["restored"].is_null(), "{point}: {}", output.stdout);
        assert_eq!(balance(&rig).await, (0, 1300), "{point}");
        assert_eq!(dump(&rig).await, before, "{point}");
        reload(&rig, [4]).await;
        assert_agreement(&rig).await;
    }
}

/// A Redis that lost the replay has lost its step too.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_in_the_middle_of_a_replay_is_found() {
    if !failpoints() {
        return;
    }
    for flushed in [true, false] {
        let rig = start().await;
        degraded(&rig, &[(1, 1, false), (2, 50, true)]).await;
        let run = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", "after_read:pause")]);
        until_paused(&run).await;
        let mut redis = rig.redis.connect().await;
        if flushed {
            redis::cmd("FLUSHDB").query_async::<()>(&mut redis).await.unwrap();
        } else {
            // Back to between the check and the replay.
            let ckpt: String = redis.get("ckpt:1").await.unwrap();
            let token = ckpt.strip_suffix(".1").expect("one step");
            let mut back = redis::pipe();
            back.set("ckpt:1", format!("{token}.0")).del(&["dirty:1", "chg:1"]);
            back.hset("like:1:1", 1, 1).hset("cnt:1:1", "like", 20).hdel("like:1:2", 50).hset("cnt:1:2", "like", 20);
            back.exec_async(&mut redis).await.unwrap();
        }
        run.signal(Signal::CONT);
        let output = run.output(SOON).await.expect_code(0);
        let kind = if flushed { "missing" } else { "older" };
        assert_eq!(output.json()["partitions"][0]["restored"]["kind"], kind, "{}", output.stdout);
        assert_eq!(balance(&rig).await, (0, 2));
        reload(&rig, 1..=3).await;
        assert_agreement(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_comes_in_the_middle_of_a_run_is_replayed_by_it() {
    if !failpoints() {
        return;
    }
    let rig = start().await;
    like(&store(&rig).await, 1, 1, false).await;
    let run = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", "after_read:pause")]);
    until_paused(&run).await;
    degraded(&rig, &[(2, 2, false)]).await;
    run.signal(Signal::CONT);
    let output = run.output(SOON).await.expect_code(0);
    assert_eq!((&output.json()["replayed"], balance(&rig).await), (&1.into(), (0, 1)), "{}", output.stdout);
    // Its mark is for the next run.
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_replay_is_left_alone_or_told_of() {
    let rig = start().await;
    rig.sql_exec(
        "INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms) VALUES \
         (99, 0, 1, 1, 1, 1, 5), (1, 0, 1, 77, 1, 1, 5), (1, 0, 1, 1, 999, 1, 5), (1, 0, 1, 1, -1, 1, 5)",
    )
    .await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert!(output.stderr.contains("degraded writes have no record row any more"), "{}", output.stderr);
    let left = rig.sql("SELECT target_type, interaction_type FROM degraded_write ORDER BY id").await;
    assert_eq!(left, [["99", "1"], ["1", "77"]].map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
    assert_eq!(balance(&rig).await, (2, 2));
    assert_agreement(&rig).await;
    assert_eq!(active(&states(&rig).await)[&(1, 0)], 20);
}
