//! Which counts are copied, which are counted again, and what absence does: nothing.

use redis::Value;

use super::{Bench, Figures};

/// Three active likes and a cancelled one of each of these notes, which no state in Redis tells of.
async fn three_active_rows(bench: &Bench, targets: std::ops::RangeInclusive<i64>) {
    for target in targets {
        let row = |user: i64, status: i64| format!("(1, {target}, 1, {user}, {status}, '2026-01-01', '2026-01-01')");
        let rows = [row(101, 1), row(102, 1), row(103, 1), row(104, 0)].join(",");
        bench.sql_exec(&format!("INSERT INTO interaction_record VALUES {rows}")).await;
    }
}

fn mark(target: i64) -> String {
    format!("SADD dirty:1 {target}\n HSET chg:1 like:{target}:1 1767300000000\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_is_copied_when_it_is_known_not_negative_and_vouched_for_and_else_counted_again() {
    // Two users are active in Redis; with the three in MySQL, four rows are once user 1 is copied.
    let cases = [
        ("HSET like:1:1 0 full 1 1 2 1\n HSET cnt:1:1 like 2", 2),
        ("HSET like:1:2 0 partial 1 1\n HSET cnt:1:2 like 77", 77),
        ("HSET like:1:3 1 1 2 1\n HSET cnt:1:3 like 77", 4),
        ("HSET like:1:4 0 other 1 1 2 1\n HSET cnt:1:4 like 77", 4),
        ("HSET like:1:5 0 partial 1 1\n HSET cnt:1:5 like -1", 4),
        ("HSET like:1:6 0 partial 1 1\n HSET cnt:1:6 like many", 4),
        ("HSET like:1:7 0 partial 1 1\n HSET cnt:1:7 collect 9", 4),
        ("HSET like:1:8 0 full 1 1 2 1", 4),
        ("HSET like:1:9 0 partial 1 1\n SET cnt:1:9 oops", 4),
    ];
    let bench = Bench::start("").await;
    three_active_rows(&bench, 1..=9).await;
    for (target, (case, _)) in (1..).zip(cases) {
        bench.redis_all(case).await;
        bench.redis_all(&mark(target)).await;
    }
    let figures = Figures { targets: 9, changes: 9, rows_written: 18, ..Figures::default() };
    assert_eq!(bench.sync(&[]).await, figures);

    let expected: Vec<_> = (1..).zip(cases).map(|(target, (_, count))| format!("1:{target}:1={count}")).collect();
    assert_eq!(bench.counts().await, expected);
    assert_eq!(bench.records().await.len(), 9 * 5);
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_negative_count_of_a_complete_hash_is_set_right_on_both_sides() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:1 0 full 1 1 2 1 3 0\n HSET cnt:1:1 like -4").await;
    bench.redis_all(&mark(1)).await;
    assert_eq!(bench.sync(&[]).await.drift, 1);
    assert_eq!(bench.redis::<i64>("HGET cnt:1:1 like").await, 2);
    assert_eq!(bench.counts().await, ["1:1:1=2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_copied_and_never_lowered() {
    let bench = Bench::start("").await;
    let view = |count: &str| format!("HSET cnt:1:7 view {count}\n SADD dirty:1 7\n HSET chg:1 view:7:0 1767300000000");
    let row = "SELECT CONCAT(count, ' ', update_time) FROM interaction_count WHERE interaction_type = 4";
    let stored = "70 2026-01-01 20:40:00.000";

    bench.redis_all(&view("70")).await;
    let figures = Figures { targets: 1, changes: 1, rows_written: 1, ..Figures::default() };
    assert_eq!(bench.sync(&[]).await, figures);
    assert_eq!(bench.column(row).await, [stored]);
    for lower in ["69", "0", "-5", "many"] {
        bench.redis_all(&view(lower)).await;
        bench.sync(&[]).await;
        assert_eq!(bench.column(row).await, [stored], "{lower}");
    }
    // By another program, without a change; and the count gone.
    bench.redis_all("DEL cnt:1:7\n SADD dirty:1 7").await;
    bench.sync(&[]).await;
    assert_eq!(bench.column(row).await, [stored]);
    bench.redis_all("HSET cnt:1:7 view 71\n SADD dirty:1 7").await;
    bench.sync(&[]).await;
    assert_eq!(bench.counts().await, ["1:7:4=71"]);
    assert_eq!(bench.records().await, [] as [&str; 0], "a counter has no records");
}

/// What is in MySQL after two likes were synced, and both stores agree.
async fn two_likes_synced() -> Bench {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 full\n HSET cnt:1:7 like 0").await;
    bench.like(7, 1, true).await;
    bench.like(7, 2, true).await;
    bench.sync(&[]).await;
    assert_eq!(bench.counts().await, ["1:7:1=2"]);
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_state_is_set_aside_and_its_row_stays() {
    for lost in ["DEL like:1:7", "HDEL like:1:7 1"] {
        let bench = two_likes_synced().await;
        bench.like(7, 1, false).await;
        bench.redis::<Value>(lost).await;
        let before = bench.tables().await;

        let figures = Figures { targets: 1, changes: 1, rows_written: 1, rejected: 1, ..Figures::default() };
        assert_eq!(bench.sync(&[]).await, figures, "{lost}");
        let after = bench.tables().await;
        for table in ["interaction_record", "interaction_count"] {
            assert_eq!(after[table], before[table], "{lost}: {table}");
        }
        assert_eq!(bench.rejected().await, ["like:7:1 state_missing"], "{lost}");
        assert_eq!(bench.redis::<Option<String>>("HGET like:1:7 0").await, None, "{lost}: no longer complete");
        assert_eq!(bench.redis::<Option<String>>("HGET cnt:1:7 like").await, None, "{lost}: no longer known");
        bench.expect_no_marks().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_key_lowers_nothing() {
    // Marked by another program, so that it is scanned whole.
    for lost in ["DEL like:1:7", "DEL like:1:7 cnt:1:7", "DEL cnt:1:7"] {
        let bench = two_likes_synced().await;
        let before = bench.tables().await;
        bench.redis_all(&format!("{lost}\n SADD dirty:1 7")).await;
        bench.sync(&[]).await;
        bench.sync(&["--target", "1:7"]).await;
        bench.sync(&["--full"]).await;
        let after = bench.tables().await;
        for table in ["interaction_record", "interaction_count", "sync_rejected"] {
            assert_eq!(after[table], before[table], "{lost}: {table}");
        }
        bench.expect_no_marks().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_begun_anew_by_another_program_moves_the_count_by_its_own_states_only() {
    let bench = two_likes_synced().await;
    bench.redis_all("DEL like:1:7 cnt:1:7\n HSET like:1:7 3 1\n HINCRBY cnt:1:7 like 1\n SADD dirty:1 7").await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:1=1", "1:7:1:2=1", "1:7:1:3=1"]);
    assert_eq!(bench.counts().await, ["1:7:1=3"]);
}
