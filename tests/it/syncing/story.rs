//! The first story: another program writes Redis by the plain protocol, and tallyd copies it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value as Json;

use super::{Bench, Figures};
use crate::support::{Signal, eventually};

const LIMIT: Duration = Duration::from_secs(30);

const BY_HAND: &str = "
    HSET like:1:10086 42 1
    HINCRBY cnt:1:10086 like 1
    SADD dirty:1 10086
";

async fn expect_copied(bench: &Bench) {
    assert_eq!(bench.records().await, ["1:10086:1:42=1"]);
    assert_eq!(bench.counts().await, ["1:10086:1=1"]);
    assert_eq!(bench.redis::<Vec<String>>("HGETALL like:1:10086").await, ["42", "1"]);
    assert_eq!(bench.redis::<Vec<String>>("HGETALL cnt:1:10086").await, ["like", "1"]);
    bench.expect_no_marks().await;
}

fn keys(object: &Json) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_like_written_by_hand_is_in_mysql_after_one_command() {
    let bench = Bench::start("").await;
    bench.redis_all(BY_HAND).await;

    let output = bench.tallyd(&["sync", "--now", "--json"]).await.expect_code(0);
    let report = output.json();
    assert_eq!(output.stdout.lines().count(), 1, "one object on stdout");
    let promised = ["run_id", "outcome", "partitions", "targets", "changes", "rows_written", "rejected", "left"];
    let promised = promised.into_iter().chain(["drift", "duration_ms"]).collect();
    assert!(keys(&report).is_superset(&promised), "{report:#}");
    assert_eq!(report["outcome"], "done");
    assert_eq!(Figures::of(&report), Figures { targets: 1, rows_written: 2, ..Figures::default() });
    let partitions = report["partitions"].as_array().unwrap();
    let name = |p: &Json| (p["target_type"].as_u64().unwrap(), p["shard"].as_u64().unwrap());
    assert_eq!(partitions.iter().map(name).collect::<Vec<_>>(), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert!(partitions.iter().all(|p| p["outcome"] == "done" && p.get("error").is_none()), "{report:#}");
    expect_copied(&bench).await;

    let run = bench.sql("SELECT run_id, caused_by, outcome FROM sync_run").await;
    let expected = [report["run_id"].as_str().unwrap(), "command", "done"].map(|text| Some(text.to_owned()));
    assert_eq!(run, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nothing_dirty_everything_is_zero_and_the_exit_code_too() {
    let bench = Bench::start("").await;
    for _ in 0..2 {
        assert_eq!(bench.sync(&[]).await, Figures::default());
    }
    assert_eq!(bench.redis::<Vec<String>>("KEYS *").await.len(), 4, "one checkpoint a partition");
    let summary = bench.tallyd(&["sync"]).await.expect_code(0).stdout;
    assert!(summary.contains("done") && summary.contains("0 changes"), "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_copies_it_by_its_schedule() {
    let bench = Bench::start("sync.cron = \"* * * * * *\"").await;
    let daemon = bench.spawn(&["serve", "--no-api"], &[]);
    // The run at the start is over, so that only the schedule can find what comes now.
    let ran = async || !bench.sql("SELECT 1 FROM sync_run WHERE caused_by = 'start'").await.is_empty();
    eventually(LIMIT, ran, "the run at the start").await;
    bench.redis_all(BY_HAND).await;
    // A run that is stopped on its way may leave what the next one clears away.
    let ran = "SELECT 1 FROM sync_run WHERE caused_by = 'schedule' AND outcome = 'done' \
               AND JSON_EXTRACT(report, '$.targets') = 1";
    eventually(LIMIT, async || !bench.sql(ran).await.is_empty(), "the scheduled run").await;
    daemon.signal(Signal::TERM);
    daemon.output(LIMIT).await.expect_code(0);
    expect_copied(&bench).await;
}
