//! What a trial by hand found: each of these was once silent, or wrong.

use std::time::Duration;

use redis::AsyncCommands;

use crate::support::{Rig, Signal, eventually};

async fn redis<T: redis::FromRedisValue>(rig: &Rig, command: &str) -> T {
    let words: Vec<&str> = command.split(' ').collect();
    let mut connection = rig.redis.connect().await;
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}

async fn like(rig: &Rig, target: i64, user: i64) {
    let _: i64 = redis(rig, &format!("HSET like:1:{target} {user} 1")).await;
    let _: i64 = redis(rig, &format!("SADD dirty:1 {target}")).await;
}

/// However often it refuses: a MySQL that was restored must not overtake Redis by counting its refusals.
#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_older_than_redis_is_refused_until_somebody_decides() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    like(&rig, 1, 1).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    let backup = rig.sql("SELECT checkpoint, lease_token FROM sync_partition WHERE target_type = 1").await;
    for user in 2..5 {
        like(&rig, user, user).await;
        rig.tallyd(&["sync"]).await.expect_code(0);
    }
    let (checkpoint, token) = (backup[0][0].clone().unwrap(), backup[0][1].clone().unwrap());
    rig.sql_exec(&format!(
        "UPDATE sync_partition SET checkpoint = '{checkpoint}', lease_token = {token} WHERE target_type = 1; \
         DELETE FROM interaction_record WHERE user_id > 1"
    ))
    .await;
    like(&rig, 7, 7).await;
    for _ in 0..6 {
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
        assert_eq!(output.json()["outcome"], "refused");
        assert!(output.stdout.contains("MySQL has lost writes"), "{}", output.stdout);
    }
    let rows = rig.sql("SELECT user_id FROM interaction_record").await;
    assert_eq!(rows, [[Some("1".to_owned())]]);
    // What the README says of a restored MySQL.
    rig.sql_exec("UPDATE sync_partition SET lease_token = lease_token + 1000").await;
    rig.tallyd(&["sync", "--full"]).await.expect_code(0);
    assert_eq!(rig.sql("SELECT COUNT(*) FROM interaction_record").await, [[Some("5".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_later_than_a_scan_stays_and_is_told_of() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    rig.sql_exec(
        "INSERT INTO interaction_record VALUES (1, 77, 1, 5, 1, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)",
    )
    .await;
    let _: i64 = redis(&rig, "HSET like:1:77 5 0").await;
    let _: i64 = redis(&rig, "SADD dirty:1 77").await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(output.json()["drift"], 1, "{}", output.stdout);
    assert!(output.stderr.contains("they are later"), "{}", output.stderr);
    assert_eq!(rig.sql("SELECT status FROM interaction_record").await, [[Some("1".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_cannot_be_read_is_set_aside() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    for (target, count) in [(1, "99999999999999999999"), (2, "12.5"), (3, "-3"), (4, "abc"), (5, "7")] {
        let _: i64 = redis(&rig, &format!("HSET cnt:1:{target} view {count}")).await;
        let _: i64 = redis(&rig, &format!("SADD dirty:1 {target}")).await;
        if target > 2 {
            let _: i64 = redis(&rig, &format!("HSET chg:1 view:{target}:0 1764522000000")).await;
        }
    }
    for target in [6, 7] {
        let _: String = redis(&rig, &format!("SET cnt:1:{target} text")).await;
        let _: i64 = redis(&rig, &format!("SADD dirty:1 {target}")).await;
    }
    let _: i64 = redis(&rig, "HSET chg:1 view:7:0 1764522000000").await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(output.json()["rejected"], 6, "{}", output.stdout);
    let rejected = rig.sql("SELECT mark, reason FROM sync_rejected ORDER BY mark").await;
    let marks: Vec<_> = rejected.iter().map(|row| row[0].clone().unwrap()).collect();
    assert_eq!(marks, ["view:1:0", "view:2:0", "view:3:0", "view:4:0", "view:6:0", "view:7:0"]);
    assert!(rejected.iter().all(|row| row[1].as_deref() == Some("bad_count")), "{rejected:?}");
    let counts = rig.sql("SELECT target_id, count FROM interaction_count").await;
    assert_eq!(counts, [[Some("5".to_owned()), Some("7".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_dirty_targets_alone_starts_a_run() {
    let rig = Rig::start("sync.cron = \"0 0 1 1 *\"\nsync.early_flush_changes = 3").await;
    rig.migrate().await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    daemon.wait_for_log("admin listens on", Duration::from_secs(20)).await;
    let mut connection = rig.redis.connect().await;
    for target in 201..205 {
        let _: i64 = connection.hset(format!("like:1:{target}"), 1, 1).await.unwrap();
    }
    let _: i64 = redis(&rig, "SADD dirty:1 201 202 203 204").await;
    let copied = async || rig.sql("SELECT COUNT(*) FROM interaction_record").await == [[Some("4".to_owned())]];
    eventually(Duration::from_secs(20), copied, "a run that copies four targets").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_is_heard_while_the_start_waits_for_mysql() {
    // It accepts and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let rig = Rig::start("").await;
    let url = format!("mysql://root@{}/x", silent.local_addr().unwrap());
    let daemon = rig.spawn(&["serve", "--no-api"], &[("TALLYD__MYSQL__URL", url.as_str())]);
    daemon.wait_for_log("tallyd starts", Duration::from_secs(20)).await;
    daemon.signal(Signal::TERM);
    let status = daemon.wait(Duration::from_secs(2)).await;
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_counted_also_where_a_run_did_not_begin() {
    let rig = Rig::start("").await;
    like(&rig, 1, 1).await;
    let _: i64 = redis(&rig, "SADD dirty:2 1 2 3").await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
    assert_eq!((&output.json()["outcome"], &output.json()["left"]), (&"failed".into(), &4.into()), "no schema yet");
}
