//! The newer event time wins.

use tallyd::model::{Checkpoint, Chunk, CountRow, CountValue, RecordRow, Source};
use tallyd::sink::{Committed, Taken, Writer};

use super::Bench;
use crate::likes::{LIKE, NOTES, context, id};

/// 2026-01-02T03:04:05Z
const THEN_MS: i64 = 1_767_323_045_000;

async fn change(bench: &Bench, state: &str, at_ms: i64) {
    let commands = format!("HSET like:1:7 42 {state}\n SADD dirty:1 7\n HSET chg:1 like:7:42 {at_ms}");
    bench.redis_all(&commands).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_change_does_not_undo_a_later_row_and_an_equal_one_counts_as_newer() {
    let bench = Bench::start("").await;
    change(&bench, "1", THEN_MS).await;
    bench.sync(&[]).await;
    bench.sql_exec("UPDATE interaction_record SET status = 0, update_time = '2026-01-02 03:04:06'").await;

    change(&bench, "1", THEN_MS + 999).await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:42=0"]);
    assert_eq!(bench.times(7, 42).await, (THEN_MS, THEN_MS + 1000));
    assert_eq!(bench.counts().await, ["1:7:1=0"], "the rows are counted, not the states");

    change(&bench, "1", THEN_MS + 1000).await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:42=1"]);
    assert_eq!(bench.times(7, 42).await, (THEN_MS, THEN_MS + 1000));
    assert_eq!(bench.counts().await, ["1:7:1=1"]);

    change(&bench, "0", THEN_MS + 1001).await;
    bench.sync(&[]).await;
    assert_eq!(bench.times(7, 42).await, (THEN_MS, THEN_MS + 1001));
    assert_eq!(bench.counts().await, ["1:7:1=0"]);
    bench.expect_no_marks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scanned_state_is_as_new_as_the_scan() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 1 1 2 1 3 0 4 0\n SADD dirty:1 7").await;
    let time: (i64, i64) = bench.redis("TIME").await;
    let now = time.0 * 1000 + time.1 / 1000;
    bench
        .sql_exec(
            "INSERT INTO interaction_record VALUES
             (1, 7, 1, 1, 0, '2026-01-01', UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE),
             (1, 7, 1, 2, 0, '2026-01-01', UTC_TIMESTAMP(3) + INTERVAL 1 HOUR),
             (1, 7, 1, 3, 1, '2026-01-01', UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE),
             (1, 7, 1, 4, 1, '2026-01-01', UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)",
        )
        .await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:1=1", "1:7:1:2=0", "1:7:1:3=0", "1:7:1:4=1"]);
    assert_eq!(bench.counts().await, ["1:7:1=2"]);
    let (create, update) = bench.times(7, 1).await;
    assert_eq!(create, 1_767_225_600_000, "the first time stays");
    assert!((now..now + 60_000).contains(&update), "{update} is not the time of the scan ({now})");
}

/// A run replays the journal before it scans; what is written to it between the two stays all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_scanned_row_with_a_write_still_in_the_journal_stays() {
    let bench = Bench::start("").await;
    bench
        .sql_exec(
            "INSERT INTO interaction_record VALUES
             (1, 7, 1, 1, 0, '2026-01-01', '2026-01-01'), (1, 7, 1, 2, 0, '2026-01-01', '2026-01-01');
             INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms)
             VALUES (1, 0, 7, 1, 2, 0, 1767225600000), (1, 0, 7, 2, 1, 0, 1), (1, 0, 8, 1, 3, 0, 1)",
        )
        .await;
    let context = context(&bench);
    let mut session = context.sink.session();
    let Taken::Yes(lease) = session.take_lease(NOTES, "test").await.unwrap() else { panic!("it is free") };
    let mut writer = Writer::new(&context.sink, lease, "0199", context.vocabulary.clone());
    let at_ms = chrono::Utc::now().timestamp_millis();
    let row = |user| RecordRow { target: id(7), interaction: LIKE, user: id(user), active: true, at_ms };
    let committed = writer.commit(Chunk {
        checkpoint: Checkpoint::first(lease.token).next(),
        source: Source::Scan,
        records: (1..=3).map(row).collect(),
        counts: vec![CountRow { target: id(7), interaction: LIKE, value: CountValue::Recompute, at_ms, settled: true }],
        rejected: vec![],
    });
    assert_eq!(committed.await.unwrap(), Committed { rows: 3, rejected: 0, kept: 0 });
    assert_eq!(bench.records().await, ["1:7:1:1=1", "1:7:1:2=0", "1:7:1:3=1"]);
    assert_eq!(bench.times(7, 2).await, (1_767_225_600_000, 1_767_225_600_000));
    assert_eq!(bench.counts().await, ["1:7:1=2"]);
    assert_eq!(bench.sql("SELECT 1 FROM degraded_write").await.len(), 3, "it is for the replay to empty the journal");
}

/// What `MariaDB` takes for a `TIMESTAMP` ends in 2038.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_after_2038_is_kept() {
    // 2286-11-20T17:46:39.999Z
    const LATE_MS: i64 = 9_999_999_999_999;
    let bench = Bench::start("").await;
    change(&bench, "1", LATE_MS).await;
    bench.sync(&[]).await;
    assert_eq!(bench.times(7, 42).await, (LATE_MS, LATE_MS));
    assert_eq!(bench.counts().await, ["1:7:1=1"]);
    assert!(bench.rejected().await.is_empty());
}
