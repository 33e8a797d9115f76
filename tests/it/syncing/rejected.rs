//! What cannot be written is set aside, and nothing else waits for it.

use redis::Value;

use super::{Bench, Figures};

/// 500 likes of a complete note, users 1 to 500, all changed.
async fn five_hundred_changes(bench: &Bench) {
    bench
        .lua(
            "redis.call('HSET', 'like:1:7', '0', 'full')
             for user = 1, 500 do
               redis.call('HSET', 'like:1:7', user, '1')
               redis.call('HSET', 'chg:1', 'like:7:' .. user, '1767300000000')
             end
             redis.call('HSET', 'cnt:1:7', 'like', 500)
             redis.call('SADD', 'dirty:1', '7')",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_mysql_refuses_is_set_aside_once_and_the_others_go_through() {
    let constraint = "ALTER TABLE interaction_record ADD CONSTRAINT no_13 CHECK (user_id NOT IN (13, 444))";
    let trigger = "CREATE TRIGGER no_13 BEFORE INSERT ON interaction_record FOR EACH ROW \
                   IF NEW.user_id IN (13, 444) THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no_13: gone'; END IF";
    for rule in [constraint, trigger] {
        let bench = Bench::start("").await;
        bench.sql_exec(rule).await;
        for _ in 0..2 {
            five_hundred_changes(&bench).await;
            let figures = Figures { targets: 1, changes: 500, rows_written: 499, rejected: 2, ..Figures::default() };
            assert_eq!(bench.sync(&[]).await, figures);
            assert_eq!(bench.rejected().await, ["like:7:13 refused", "like:7:444 refused"], "twice is once");
            bench.expect_no_marks().await;
        }
        let users = bench.column("SELECT user_id FROM interaction_record ORDER BY user_id").await;
        let expected: Vec<_> = (1..=500).filter(|u| ![13, 444].contains(u)).map(|u: i64| u.to_string()).collect();
        assert_eq!(users, expected);
        assert_eq!(bench.counts().await, ["1:7:1=500"], "Redis knows the count");
        let details = bench.column("SELECT detail FROM sync_rejected").await;
        assert!(
            details.iter().all(|d| d.contains("state 1 of 1767300000000 ms") && d.contains("no_13")),
            "{details:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_cannot_be_read_are_set_aside_and_their_targets_scanned() {
    let bench = Bench::start("").await;
    bench
        .redis_all(
            "HSET chg:1 nonsense 1 like:7:x 1 like:7:0 1 like:0:1 1 dislike:7:1 1 view:7:42 1
             HSET chg:1 like:7:2 soon like:7:3 253402300800000 like:7:4 1767300000000
             HSET like:1:7 1 1 2 1 3 1 4 1 5 maybe x 1\n HSET cnt:1:7 like 4\n SADD dirty:1 7 minus -3 0",
        )
        .await;
    for changes in [9, 2] {
        assert_eq!(bench.sync(&[]).await.changes, changes);
        bench.expect_no_marks().await;
        assert_eq!(
            bench.rejected().await,
            [
                "-3 malformed",
                "0 malformed",
                "dislike:7:1 unknown_interaction",
                "like:0:1 malformed",
                "like:7:0 malformed",
                "like:7:2 bad_time",
                "like:7:3 bad_time",
                "like:7:x malformed",
                "minus malformed",
                "nonsense malformed",
                "view:7:42 malformed",
            ]
        );
        // Met again, they leave no second row.
        bench.redis_all("HSET chg:1 nonsense 1 like:7:x 1").await;
    }
    assert!(bench.records().await.contains(&"1:7:1:4=1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn states_that_cannot_be_read_are_set_aside() {
    let bench = Bench::start("").await;
    bench
        .redis_all(
            "HSET like:1:7 1 1 5 maybe x 1\n HSET cnt:1:7 like 1\n SADD dirty:1 7
             SET like:1:8 oops\n SADD dirty:1 8
             HSET like:1:9 1 yes\n SADD dirty:1 9\n HSET chg:1 like:9:1 1767300000000
             SET like:1:10 oops\n SADD dirty:1 10\n HSET chg:1 like:10:1 1767300000000",
        )
        .await;
    let figures = bench.sync(&[]).await;
    assert_eq!((figures.targets, figures.changes, figures.rejected), (4, 2, 5));
    let rejected = ["like:10:1 bad_state", "like:7:5 bad_state", "like:7:x malformed", "like:8:0 bad_state"];
    assert_eq!(bench.rejected().await, [&rejected[..], &["like:9:1 bad_state"]].concat());
    assert_eq!(bench.records().await, ["1:7:1:1=1"]);
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_key_of_another_type_fails_its_partition_only_and_says_so() {
    for key in ["dirty:1", "chg:1", "dirty:1:inflight", "chg:1:inflight", "ckpt:1"] {
        let bench = Bench::start("").await;
        bench.redis::<Value>("HSET like:2:7 1 1").await;
        bench.redis::<Value>("SADD dirty:2 7").await;
        bench.redis::<Value>(&format!("XADD {key} * a b")).await;
        let before = bench.redis::<Vec<u8>>(&format!("DUMP {key}")).await;

        let report = bench.try_sync(&[]).await.expect_code(1).json();
        assert_eq!(report["outcome"], "partial", "{key}: {report:#}");
        let outcomes: Vec<_> =
            report["partitions"].as_array().unwrap().iter().map(|p| p["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["failed", "done", "done", "done"], "{key}: {report:#}");
        let error = report["partitions"][0]["error"].as_str().unwrap();
        assert!(error.contains("WRONGTYPE"), "{key}: {error}");
        assert_eq!(bench.records().await, ["2:7:1:1=1"], "{key}");
        assert_eq!(bench.redis::<Vec<u8>>(&format!("DUMP {key}")).await, before, "{key} is left as it was");
    }
}
