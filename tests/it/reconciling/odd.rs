//! What cannot be compared is named, and left as it is.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::AsyncCommands;

use super::{ALL, drifts, kinds, pass, synced};
use crate::likes::{dump, records};
use crate::support::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_rows_that_are_not_tallyds_are_named_and_left_alone() {
    let rig = synced(ALL).await;
    let mut redis = rig.redis.connect().await;
    redis.set::<_, _, ()>("like:1:1", "x").await.unwrap();
    redis.hset::<_, _, _, ()>("like:1:2", "abc", 1).await.unwrap();
    redis.hset::<_, _, _, ()>("like:1:3", 4, 7).await.unwrap();
    redis.del::<_, ()>("cnt:1:4").await.unwrap();
    redis.rpush::<_, _, ()>("cnt:1:4", 1).await.unwrap();
    rig.sql_exec("INSERT INTO interaction_record VALUES (1, 5, 1, 0, 1, '2026-01-01', '2026-01-01'), (1, 5, 1, -5, 1, '2026-01-01', '2026-01-01')").await;
    let before = dump(&rig).await;
    for args in [&["--dry-run"][..], &[], &["--all"]] {
        let report = pass(&rig, args, 3).await;
        let expected = BTreeMap::from([("row_without_user".to_owned(), 1), ("unreadable".to_owned(), 4)]);
        assert_eq!((&kinds(&report), &report["repaired"]), (&expected, &0.into()), "{report}");
        if !args.contains(&"--dry-run") {
            let mut found: Vec<_> = drifts(&rig, &report).await.into_iter().map(|d| (d.1, d.0, d.3, d.5)).collect();
            found.sort();
            let row = |note, kind: &str, rows: Option<&str>| {
                (note, kind.to_owned(), rows.map(str::to_owned), "left".to_owned())
            };
            let unreadable = (1..=4).map(|note| row(note, "unreadable", None));
            let all: Vec<_> = unreadable.chain([row(5, "row_without_user", Some("2"))]).collect();
            assert_eq!(found, all, "{report}");
        }
    }
    assert_eq!(dump(&rig).await, before);
    let text = rig.tallyd(&["reconcile", "--target", "note:2"]).await.expect_code(3).stdout;
    assert!(
        text.contains("like 1:2: unreadable (another program wrote what is no state or count), in redis, left alone"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dirty_set_that_is_none_fails_the_pass() {
    let rig = synced("").await;
    rig.redis.connect().await.set::<_, _, ()>("dirty:1", "x").await.unwrap();
    let report = pass(&rig, &[], 1).await;
    assert!(report["error"].as_str().unwrap().contains("SISMEMBER of the dirty sets"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_is_older_than_redis_is_left_to_people() {
    let rig = synced(ALL).await;
    rig.sql_exec(
        "UPDATE sync_partition SET lease_token = 1, checkpoint = '1.0'; \
         UPDATE interaction_record SET status = 0 WHERE target_id = 5",
    )
    .await;
    rig.redis.connect().await.set::<_, _, ()>("ckpt:1", "9.9").await.unwrap();
    for args in [&[][..], &["--dry-run"]] {
        let report = pass(&rig, args, 1).await;
        let error = report["error"].as_str().unwrap();
        assert!(
            error.contains("MySQL has lost writes that Redis knows of") && !error.contains("a run sees to"),
            "{report}"
        );
        assert_eq!((&report["by_kind"], records(&rig).await[&(5, 1)]), (&serde_json::json!({}), 0));
    }
}

/// Where the rows of a target cannot be found, nothing says that a field of its hash is missing.
#[tokio::test(flavor = "multi_thread")]
async fn in_the_older_layout_no_hash_lowers_a_count_row() {
    let rig = synced(ALL).await;
    rig.sql_exec(
        "ALTER TABLE interaction_record DROP PRIMARY KEY, ADD id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST, \
         ADD UNIQUE KEY one (user_id, target_type, target_id, interaction_type)",
    )
    .await;
    let clean = pass(&rig, &[], 0).await;
    assert_eq!((&clean["outcome"], &clean["looked_at"]), (&"clean".into(), &400.into()), "{clean}");
    let mut redis = rig.redis.connect().await;
    redis.hdel::<_, _, ()>("like:1:3", 5).await.unwrap();
    rig.sql_exec("UPDATE interaction_count SET count = 6 WHERE target_id = 4; UPDATE interaction_record SET status = 0 WHERE target_id = 6 AND user_id = 2").await;
    let report = pass(&rig, &[], 3).await;
    let mut found: Vec<_> = drifts(&rig, &report)
        .await
        .into_iter()
        .map(|d| (d.1, d.0, d.3.unwrap_or_default(), d.4.unwrap_or_default(), d.5))
        .collect();
    found.sort();
    let row = |note, kind: &str, before: &str, after: &str, outcome: &str| {
        (note, kind.to_owned(), before.to_owned(), after.to_owned(), outcome.to_owned())
    };
    assert_eq!(
        found,
        [
            row(3, "count_row_off", "8", "7", "left"),
            row(3, "redis_count_off", "8", "7", "repaired"),
            row(4, "count_row_off", "6", "8", "repaired"),
            row(6, "record_row_off", "0", "1", "repaired"),
        ],
        "{report}"
    );
    let counts = rig.sql("SELECT target_id, count FROM interaction_count WHERE count <> 8").await;
    assert!(counts.is_empty(), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_stops_answering_is_not_asked_for_each_partition() {
    let rig = synced("").await;
    let proxy = Proxy::start(&rig.db.url, "/* tallyd reconcile */ START TRANSACTION").await;
    let url = proxy.in_front_of(&rig.db.url);
    let begun = std::time::Instant::now();
    let env = [("TALLYD__MYSQL__URL", url.as_str()), ("TALLYD__MYSQL__TIMEOUT_MS", "1000")];
    let report = rig.tallyd_with(&["reconcile", "--json"], &env).await.expect_code(1).json();
    assert!(proxy.is_frozen(), "{report}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let error = report["error"].as_str().unwrap();
    assert_eq!(error.matches("no answer within 1000 ms").count(), 1, "{error}");
}
