//! The write script, alone and with the sync that follows it.

use std::time::Duration;

use redis::Value;
use tallyd::store::{Unloaded, Written};

use super::{Bench, Figures, NOTES, like, recorded};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_the_time_of_the_event_and_keeps_the_time_of_the_first() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 full 1 1\n HSET cnt:1:7 like 1").await;

    let first = bench.like(7, 42, true).await;
    let run = Figures { targets: 1, changes: 1, rows_written: 2, ..Figures::default() };
    assert_eq!(bench.sync(&[]).await, run);
    assert_eq!(bench.times(7, 42).await, (first, first));
    assert_eq!(bench.counts().await, ["1:7:1=2"], "the count of a complete hash is copied");

    let cancelled = bench.like(7, 42, false).await;
    assert_eq!(bench.sync(&[]).await, run);
    assert_eq!(bench.records().await, ["1:7:1:42=0"], "a cancelled state keeps its row");
    assert_eq!(bench.times(7, 42).await, (first, cancelled));
    assert_eq!(bench.counts().await, ["1:7:1=1"]);

    let again = bench.like(7, 42, true).await;
    assert!(first < cancelled && cancelled < again, "{first} {cancelled} {again}");
    assert_eq!(bench.sync(&[]).await, run);
    assert_eq!(bench.records().await, ["1:7:1:42=1"]);
    assert_eq!(bench.times(7, 42).await, (first, again));
    assert_eq!(bench.counts().await, ["1:7:1=2"]);
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_not_loaded_and_leaves_nothing_behind() {
    let bench = Bench::start("").await;
    let cases = [
        "",
        "HSET cnt:1:7 like 5",
        "HSET like:1:7 42 1",
        "HSET like:1:7 9 1\n HSET cnt:1:7 like 1",
        "HSET like:1:7 0 full 42 1",
        "HSET like:1:7 0 full 42 1\n HSET cnt:1:7 collect 1",
        "HSET like:1:7 0 partial 9 1\n HSET cnt:1:7 like 1",
    ];
    for case in cases {
        bench.redis_all(&format!("FLUSHDB\n {case}")).await;
        let before = bench.dump().await;
        assert_eq!(bench.write(&[like(7, 42, false)]).await.1, [Written::NotLoaded], "{case}");
        assert_eq!(bench.dump().await, before, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_recorded() {
    let bench = Bench::start("").await;
    for (case, active, answer, states) in [
        ("HSET like:1:7 0 full\n HSET cnt:1:7 like 0", true, recorded(true, 1), ["0", "full", "42", "1"]),
        ("HSET like:1:7 0 full\n HSET cnt:1:7 like 4", false, recorded(false, 4), ["0", "full", "42", "0"]),
        ("HSET like:1:7 0 partial 42 1\n HSET cnt:1:7 like 9", false, recorded(true, 8), ["0", "partial", "42", "0"]),
        ("HSET like:1:7 0 partial 42 0", true, recorded(true, None), ["0", "partial", "42", "1"]),
        ("HSET like:1:7 8 1 42 1\n HSET cnt:1:7 like 2", false, recorded(true, 1), ["8", "1", "42", "0"]),
    ] {
        bench.redis_all(&format!("FLUSHDB\n {case}")).await;
        let (at_ms, written) = bench.write(&[like(7, 42, active)]).await;
        assert_eq!(written, [answer], "{case}");
        assert_eq!(bench.redis::<Vec<String>>("HGETALL like:1:7").await, states, "{case}");
        assert_eq!(bench.redis::<Vec<String>>("SMEMBERS dirty:1").await, ["7"], "{case}");
        assert_eq!(bench.redis::<Vec<String>>("HGETALL chg:1").await, ["like:7:42", &at_ms.to_string()], "{case}");
        let count = bench.redis::<Option<i64>>("HGET cnt:1:7 like").await;
        let Written::Recorded { count: answered, .. } = written[0] else { unreachable!() };
        assert_eq!(count, answered, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_changes_nothing_is_marked_and_costs_no_second_row() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 full 42 1\n HSET cnt:1:7 like 1").await;
    let (at_ms, written) = bench.write(&[like(7, 42, true)]).await;
    assert_eq!(written, [recorded(false, 1)]);
    assert_eq!(bench.redis::<Vec<String>>("SMEMBERS dirty:1").await, ["7"]);
    assert_eq!(bench.redis::<i64>("HGET chg:1 like:7:42").await, at_ms);

    bench.sync(&[]).await;
    let again = bench.like(7, 42, true).await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:42=1"]);
    assert_eq!(bench.times(7, 42).await, (at_ms, again));
    assert_eq!(bench.counts().await, ["1:7:1=1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_comes_too_late_is_not_done() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 full\n HSET cnt:1:7 like 0").await;
    bench.like(7, 1, true).await;
    let before = bench.dump().await;

    bench.redis::<Value>("CLIENT PAUSE 300 ALL").await;
    let late = [like(7, 2, true), like(7, 3, true)];
    let (_, late) =
        bench.store.write(NOTES, &late, Unloaded::Refuse, &bench.clock, Duration::from_millis(50)).await.unwrap();
    assert_eq!(late, [Written::Expired, Written::Expired]);
    assert_eq!(bench.dump().await, before);

    assert_eq!(bench.write(&[like(7, 2, true)]).await.1, [recorded(true, 2)], "the next one is in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_wrong_type_fails_its_own_operation_only() {
    let bench = Bench::start("").await;
    bench
        .redis_all(
            "HSET like:1:1 0 full\n HSET cnt:1:1 like 0
             SET like:1:2 oops\n HSET cnt:1:2 like 0
             HSET like:1:3 0 full\n RPUSH cnt:1:3 oops
             HSET like:1:4 0 full\n HSET cnt:1:4 like many
             HSET like:1:5 0 full\n HSET cnt:1:5 like 7",
        )
        .await;
    let ops = [1, 2, 3, 4, 5].map(|target| like(target, 42, true));
    let (_, written) = bench.write(&ops).await;
    assert_eq!((&written[0], &written[4]), (&recorded(true, 1), &recorded(true, 8)));
    for (at, word) in [(1, "WRONGTYPE"), (2, "WRONGTYPE"), (3, "not a number")] {
        let Written::Failed(message) = &written[at] else { panic!("{:?}", written[at]) };
        assert!(message.contains(word), "{message}");
    }
    let mut dirty = bench.redis::<Vec<String>>("SMEMBERS dirty:1").await;
    dirty.sort();
    assert_eq!(dirty, ["1", "5"]);
    for target in [3, 4] {
        assert_eq!(bench.redis::<Vec<String>>(&format!("HGETALL like:1:{target}")).await, ["0", "full"]);
    }

    // What cannot be marked is not done.
    bench.redis_all("DEL dirty:1\n SET dirty:1 oops").await;
    let (_, written) = bench.write(&[like(1, 43, true)]).await;
    assert!(matches!(&written[..], [Written::Failed(message)] if message.contains("WRONGTYPE")), "{written:?}");
    assert_eq!(bench.redis::<Option<i64>>("HGET like:1:1 43").await, None);
    assert_eq!(bench.redis::<i64>("HGET cnt:1:1 like").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_one_state_apply_in_order_and_times_never_go_back() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 full\n HSET cnt:1:7 like 0").await;
    let ops = [false, true, true, false, true].map(|active| like(7, 42, active));
    let answers = [(false, 0), (true, 1), (false, 1), (true, 0), (true, 1)];
    assert_eq!(bench.write(&ops).await.1, answers.map(|(changed, count)| recorded(changed, count)));

    let mut times = Vec::new();
    for user in 1..=100 {
        times.push(bench.like(7, user, true).await);
    }
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    assert_eq!(bench.redis::<i64>("HGET cnt:1:7 like").await, 100);
}
