//! What people are told when something is wrong: why, and what really mends it.

use serde_json::{Value, json};

use crate::support::{PrivateRedis, Rig, create_database};

const TABLES: &str = "sql/migrations/0001_records_and_counts.sql";

/// The finding of this name, and whether `check` failed.
async fn finding(rig: &Rig, name: &str) -> (Value, bool) {
    let output = rig.tallyd(&["check", "--json"]).await;
    let report = output.json();
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == name);
    (found.unwrap_or_else(|| panic!("no {name} in {report:#}")).clone(), output.code != Some(0))
}

/// Asserts its level, that `check` fails with it, and the words in its detail and in its fix.
async fn expect_finding(rig: &Rig, name: &str, level: &str, detail: &[&str], fix: &[&str]) {
    let (finding, failed) = finding(rig, name).await;
    assert_eq!((finding["level"].as_str(), failed), (Some(level), level == "fail"), "{finding:#}");
    for (field, words) in [("detail", detail), ("fix", fix)] {
        let text = finding[field].as_str().unwrap_or_default();
        assert!(words.iter().all(|word| text.contains(word)), "{field} lacks one of {words:?}: {finding:#}");
    }
    assert_eq!(finding.get("fix").is_some(), level != "ok", "{finding:#}");
}

async fn migrated() -> Rig {
    let rig = Rig::start("").await;
    rig.migrate().await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_with_an_old_schema_is_up() {
    let rig = Rig::start("").await;
    let output = rig.tallyd(&["status", "--json"]).await.expect_code(1);
    let mysql = &output.json()["mysql"];
    assert_eq!(mysql["up"], true, "{mysql}");
    assert!(mysql["error"].as_str().unwrap().contains("run `tallyd migrate`"), "{mysql}");
    assert_eq!(output.json()["degraded"]["pending"], Value::Null);
    let text = rig.tallyd(&["status"]).await.expect_code(1).stdout;
    assert!(text.contains("\nmysql: up, but the schema is not current: "), "{text}");
    expect_finding(&rig, "mysql schema", "fail", &["the schema is not current"], &["tallyd migrate"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_gone_is_named_with_what_brings_it_back() {
    let rig = migrated().await;
    expect_finding(&rig, "mysql schema", "ok", &["current"], &[]).await;
    rig.sql_exec("DROP TABLE interaction_record").await;
    let fix = ["restore it from a backup, or create it as in ", TABLES];
    expect_finding(&rig, "mysql schema", "fail", &["interaction_record is missing"], &fix).await;
    let (finding, _) = finding(&rig, "mysql schema").await;
    assert!(!finding["fix"].as_str().unwrap().contains("tallyd migrate"), "{finding:#}");
    // It says that nothing is left to apply, and does not end as if all were well.
    let migrated = rig.tallyd(&["migrate"]).await.expect_code(1);
    assert!(
        migrated.stderr.contains("interaction_record is missing although every migration is applied; "),
        "{}",
        migrated.stderr
    );
    assert_eq!(migrated.stdout, "");
    let run = rig.tallyd(&["sync", "--json"]).await.expect_code(1).json();
    assert!(run["partitions"][0]["error"].as_str().unwrap().contains("interaction_record is missing"), "{run:#}");

    rig.sql_exec("DROP TABLE interaction_count; DROP TABLE sync_partition").await;
    let missing = ["interaction_record", "interaction_count", "sync_partition"];
    expect_finding(&rig, "mysql schema", "fail", &missing, &[TABLES, "sql/migrations/0002_syncing.sql"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_unique_key_comes_with_the_statement_that_adds_it() {
    let rig = migrated().await;
    rig.sql_exec("ALTER TABLE interaction_record DROP PRIMARY KEY").await;
    let statement = "ALTER TABLE interaction_record ADD UNIQUE KEY (target_type, target_id, interaction_type, user_id)";
    expect_finding(&rig, "mysql schema", "fail", &["interaction_record has no unique key"], &[statement]).await;
    let migrated = rig.tallyd(&["migrate"]).await.expect_code(1);
    assert!(migrated.stderr.contains(statement), "{}", migrated.stderr);
    rig.sql_exec(statement).await;
    expect_finding(&rig, "mysql schema", "ok", &["current"], &[]).await;

    rig.sql_exec("ALTER TABLE interaction_count DROP PRIMARY KEY").await;
    let statement = "ALTER TABLE interaction_count ADD UNIQUE KEY (target_type, target_id, interaction_type)";
    expect_finding(&rig, "mysql schema", "fail", &["interaction_count has no unique key"], &[statement]).await;
    rig.sql_exec(statement).await;
    assert_eq!(rig.tallyd(&["migrate"]).await.expect_code(0).stdout, "the schema is current\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reasons_of_a_run_that_failed_are_told() {
    let rig = migrated().await;
    expect_finding(&rig, "last run", "ok", &["none yet"], &[]).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    expect_finding(&rig, "last run", "ok", &["done at 20"], &[]).await;
    let text = rig.tallyd(&["status"]).await.expect_code(0).stdout;
    assert!(!text.contains("why "), "{text}");

    rig.sql_exec("UPDATE tallyd_meta SET value = '16' WHERE name = 'redis.shards'").await;
    rig.tallyd(&["sync"]).await.expect_code(1);
    let text = rig.tallyd(&["status"]).await.expect_code(0).stdout;
    let (_, reasons) = text.split_once("\nwhy the last run is not done:\n").unwrap_or_else(|| panic!("{text}"));
    let all = "  note 1/0, video 2/0, comment 3/0, user 4/0 failed: redis.shards is 1";
    assert!(reasons.starts_with(all) && reasons.trim_end().lines().count() == 1, "{text}");
    let detail = ["failed at 20", "note 1/0, video 2/0", "redis.shards is 1"];
    expect_finding(&rig, "last run", "warn", &detail, &["tallyd sync"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_nearly_full_is_told() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    expect_finding(&rig, "redis memory", "ok", &["no limit"], &[]).await;
    let mut redis = redis.connect().await;
    let mut limit = async |bytes: u64| {
        let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query_async::<()>(&mut redis).await;
        set.unwrap();
    };
    limit(1 << 30).await;
    expect_finding(&rig, "redis memory", "ok", &["of 1073741824 bytes"], &[]).await;
    limit(1000).await;
    expect_finding(&rig, "redis memory", "fail", &["of 1000 bytes", "OOM"], &["maxmemory"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_times_of_the_future_are_told() {
    let rig = migrated().await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    expect_finding(&rig, "event times", "ok", &[], &[]).await;
    let ahead = "UPDATE sync_partition SET last_event_ms = (UNIX_TIMESTAMP() + 3600) * 1000 WHERE target_type = 2";
    rig.sql_exec(ahead).await;
    let detail = ["ahead of Redis' time (video 2/0 by 35", "cannot be changed"];
    expect_finding(&rig, "event times", "warn", &detail, &["clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_rust_log_is_bad_configuration() {
    let rig = Rig::start("").await;
    let output = rig.tallyd_with(&["status"], &[("RUST_LOG", "tallyd=loud")]).await.expect_code(78);
    assert!(output.stderr.starts_with("tallyd: $RUST_LOG "), "{}", output.stderr);
    assert_eq!(output.stdout, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_a_sync_are_told_in_english() {
    let rig = migrated().await;
    let mut redis = rig.redis.connect().await;
    let mut add = async |mark: &str| {
        redis::cmd("SADD").arg("dirty:1").arg(mark).query_async::<()>(&mut redis).await.unwrap();
    };
    add("x").await;
    let text = rig.tallyd(&["sync", "--dry-run"]).await.expect_code(0).stdout;
    assert!(text.contains("\n1 entry would be set aside in sync_rejected\n"), "{text}");
    let text = rig.tallyd(&["sync"]).await.expect_code(0).stdout;
    assert!(text.contains("\n1 entry set aside in sync_rejected\n"), "{text}");
    add("7").await;
    let text = rig.tallyd(&["sync"]).await.expect_code(0).stdout;
    assert!(text.contains(": 0 changes on 1 target, wrote 0 rows\n"), "{text}");
    assert_eq!(rig.tallyd(&["status", "--json"]).await.json()["last_runs"][0]["targets"], json!(1));
}
