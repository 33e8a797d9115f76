//! Full scans: what is healthy is left alone, what differs is written, what no mark told is found.

use super::{Bench, Figures};

/// A note with `users` likes, every third cancelled; the hash as another program left it, or complete.
async fn liked(bench: &Bench, target: i64, users: i64, complete: bool) {
    let complete = if complete { format!("redis.call('HSET', 'like:1:{target}', '0', 'full')") } else { String::new() };
    bench
        .lua(&format!(
            "local active = 0
             for user = 1, {users} do
               local state = user % 3 == 0 and '0' or '1'
               active = active + tonumber(state)
               redis.call('HSET', 'like:1:{target}', user, state)
             end
             redis.call('HSET', 'cnt:1:{target}', 'like', active)
             {complete}"
        ))
        .await;
}

/// The likes of a note beyond 5,000 are of one page of HSCAN no more.
const MANY: i64 = 7000;
const ACTIVE: i64 = MANY - MANY / 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_what_is_healthy_changes_no_row() {
    let bench = Bench::start("").await;
    liked(&bench, 1, MANY, true).await;
    liked(&bench, 2, MANY, false).await;
    liked(&bench, 3, 20, true).await;
    liked(&bench, 4, 20, false).await;
    bench.redis_all("SADD dirty:1 1 2 3 4").await;
    let active = 2 * (ACTIVE + 14);
    let figures = Figures { targets: 4, rows_written: active.unsigned_abs() + 4, ..Figures::default() };
    assert_eq!(bench.sync(&[]).await, figures, "a cancelled state without a row needs none");
    let records = bench.records().await;
    assert_eq!(records.len(), usize::try_from(active).unwrap());
    assert!(records.iter().all(|row| row.ends_with("=1")));
    let small = "SELECT count FROM interaction_count WHERE target_id IN (3, 4)";
    assert_eq!(bench.column(small).await, ["14", "14"]);
    let large = "SELECT count FROM interaction_count WHERE target_id IN (1, 2)";
    assert_eq!(bench.column(large).await, [ACTIVE.to_string(), ACTIVE.to_string()]);

    let before = bench.tables().await;
    bench.redis_all("SADD dirty:1 1 2 3 4").await;
    let figures = Figures { targets: 4, rows_written: 4, ..Figures::default() };
    assert_eq!(bench.sync(&[]).await, figures);
    let after = bench.tables().await;
    for table in ["interaction_record", "interaction_count", "sync_rejected"] {
        assert_eq!(after[table], before[table], "{table}");
    }
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_writes_the_rows_that_differ_and_no_other() {
    for users in [30, MANY] {
        let bench = Bench::start("").await;
        liked(&bench, 7, users, true).await;
        bench.redis_all("SADD dirty:1 7").await;
        bench.sync(&[]).await;
        let healthy = bench.records().await;
        bench
            .sql_exec(
                "UPDATE interaction_record SET status = 0 WHERE user_id IN (4, 28); \
                 DELETE FROM interaction_record WHERE user_id = 5; \
                 INSERT INTO interaction_record VALUES (1, 7, 1, 6, 1, '2026-01-01', '2026-01-01'); \
                 UPDATE interaction_count SET count = 3",
            )
            .await;
        let column = "SELECT CONCAT(user_id, ' ', update_time) FROM interaction_record \
                      WHERE user_id NOT IN (4, 5, 6, 28) ORDER BY user_id";
        let untouched = bench.column(column).await;

        bench.redis_all("SADD dirty:1 7").await;
        let figures = Figures { targets: 1, rows_written: 4 + 1, ..Figures::default() };
        assert_eq!(bench.sync(&[]).await, figures, "{users} users");
        let mut expected = healthy;
        expected.push("1:7:1:6=0".to_owned());
        let mut found = bench.records().await;
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(bench.column(column).await, untouched);
        assert_eq!(bench.counts().await, [format!("1:7:1={}", users - users / 3)]);
    }
}

const FULL_SCAN: &str = "
    [[interaction]]
    name = \"like\"
    code = 1
    kind = \"state\"
    scan = \"full\"
    [[interaction]]
    name = \"collect\"
    code = 2
    kind = \"state\"
";

#[tokio::test(flavor = "multi_thread")]
async fn where_other_programs_write_too_their_unmarked_changes_are_found() {
    for (extra, found) in [(FULL_SCAN, &["1:7:1:1=1", "1:7:1:2=1"][..]), ("", &["1:7:1:1=1"])] {
        let bench = Bench::start(extra).await;
        bench.redis_all("HSET like:1:7 0 full\n HSET cnt:1:7 like 0").await;
        bench.like(7, 1, true).await;
        // Another program, which knows the plain protocol: no chg. And one of an interaction that is not shared.
        bench.redis_all("HSET like:1:7 2 1\n HINCRBY cnt:1:7 like 1\n SADD dirty:1 7\n HSET collect:1:7 3 1").await;
        let figures = bench.sync(&[]).await;
        assert_eq!((figures.targets, figures.changes, figures.drift), (1, 1, 0), "{extra}");
        assert_eq!(bench.records().await, found, "{extra}");
        assert_eq!(bench.counts().await, ["1:7:1=2"], "{extra}");
        bench.expect_no_marks().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_target_is_rescanned_whole_though_nothing_is_dirty() {
    for name in ["1:10086", "note:10086"] {
        let bench = Bench::start("").await;
        bench
            .redis_all(
                "HSET like:1:10086 42 1 43 0\n HSET cnt:1:10086 like 1 view 9\n HSET collect:1:10086 42 1
                 HSET like:1:10087 42 1\n HSET like:2:10086 42 1",
            )
            .await;
        let figures = Figures { targets: 1, rows_written: 2 + 3, ..Figures::default() };
        assert_eq!(bench.sync(&["--target", name]).await, figures);
        assert_eq!(bench.records().await, ["1:10086:1:42=1", "1:10086:2:42=1"]);
        assert_eq!(bench.counts().await, ["1:10086:1=1", "1:10086:2=1", "1:10086:4=9"]);
        bench.expect_no_marks().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_run_finds_what_no_mark_told() {
    let bench = Bench::start("").await;
    bench
        .redis_all(
            "HSET like:1:1 42 1\n HSET like:2:9223372036854775807 9007199254740993 1\n HSET cnt:3:5 view 12
             HSET like:1:2 1 0\n HSET like:9:1 1 1\n HSET dislike:1:3 1 1\n HSET like:1:x 1 1\n SET note 1",
        )
        .await;
    let figures = bench.sync(&["--full"]).await;
    assert_eq!((figures.targets, figures.changes, figures.rejected), (4, 0, 0));
    assert_eq!(bench.records().await, ["1:1:1:42=1", "2:9223372036854775807:1:9007199254740993=1"]);
    assert_eq!(bench.counts().await, ["1:1:1=1", "1:2:1=0", "2:9223372036854775807:1=1", "3:5:4=12"]);
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_meant_is_a_usage_error() {
    let bench = Bench::start("").await;
    for bad in ["10086", "1:", "1:0", "1:-1", "1:9223372036854775808", "9:1", "song:1", "1:2:3", ""] {
        let output = bench.try_sync(&["--target", bad]).await.expect_code(2);
        assert_eq!(output.stdout, "", "{bad}");
        assert!(output.stderr.contains("--target"), "{bad}: {}", output.stderr);
    }
    bench.try_sync(&["--target", "1:1", "--full"]).await.expect_code(2);
    assert_eq!(bench.redis::<Vec<String>>("KEYS *").await, [] as [String; 0]);
}
