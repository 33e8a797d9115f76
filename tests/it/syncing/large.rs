//! Backlogs larger than a packet, a statement, and the memory that a run may take.

use std::time::Duration;

use super::{Bench, Figures};
use crate::support::{PrivateMysql, PrivateRedis, Redis, Rig, create_database};

const LIMIT: Duration = Duration::from_mins(2);

/// `users` changed likes on each of `targets` complete notes; all ids have 19 digits; every tenth is cancelled.
async fn changes(bench: &Bench, targets: u32, users: u32) {
    for first in (1..=targets).step_by(100) {
        let last = targets.min(first + 99);
        bench
            .lua(&format!(
                "for t = {first}, {last} do
                   local target = string.format('922337203685%07d', t)
                   local states, changes = {{ '0', 'full' }}, {{}}
                   for u = 1, {users} do
                     local user = string.format('922337203684%07d', t * {users} + u)
                     states[#states + 1] = user
                     states[#states + 1] = u % 10 == 0 and '0' or '1'
                     changes[#changes + 1] = 'like:' .. target .. ':' .. user
                     changes[#changes + 1] = '1767300000123'
                   end
                   for i = 1, #states, 1000 do
                     redis.call('HSET', 'like:1:' .. target, unpack(states, i, math.min(i + 999, #states)))
                   end
                   for i = 1, #changes, 1000 do
                     redis.call('HSET', 'chg:1', unpack(changes, i, math.min(i + 999, #changes)))
                   end
                   redis.call('HSET', 'cnt:1:' .. target, 'like', {users} - math.floor({users} / 10))
                   redis.call('SADD', 'dirty:1', target)
                 end"
            ))
            .await;
    }
}

async fn expect_stored(bench: &Bench, targets: u64, users: u64) {
    let figures = bench
        .sql(
            "SELECT COUNT(*), SUM(status), COUNT(DISTINCT target_id), COUNT(DISTINCT user_id), MIN(user_id),
             MIN(create_time), MAX(update_time) FROM interaction_record WHERE target_type = 1",
        )
        .await;
    let all = targets * users;
    let (first, time) = (9_223_372_036_840_000_000 + users + 1, "2026-01-01 20:40:00.123");
    let expected = [all, all - all / 10, targets, all, first].map(|n| Some(n.to_string()));
    assert_eq!(figures, [[&expected[..], &[Some(time.into()), Some(time.into())]].concat()]);
    let counts =
        bench.sql("SELECT COUNT(*), MIN(count), MAX(count) FROM interaction_count WHERE target_type = 1").await;
    assert_eq!(counts, [[targets, users - users / 10, users - users / 10].map(|n| Some(n.to_string()))]);
    bench.expect_no_marks().await;
}

/// Videos that were dirtied by another program, with so many active states for each of three interactions. Small
/// hashes are read whole, so that a scan of 32 targets comes at once.
async fn to_be_scanned(bench: &Bench, targets: u32, users: u32) {
    bench
        .lua(&format!(
            "for t = 1, {targets} do
               local target = string.format('922337203685%07d', t)
               for _, interaction in ipairs({{ 'like', 'collect', 'follow' }}) do
                 local states = {{}}
                 for u = 1, {users} do
                   states[#states + 1] = string.format('922337203684%07d', u)
                   states[#states + 1] = '1'
                 end
                 redis.call('HSET', interaction .. ':2:' .. target, unpack(states))
               end
               redis.call('SADD', 'dirty:2', target)
             end"
        ))
        .await;
}

async fn expect_scanned(bench: &Bench, targets: u32, users: u32) {
    let records = bench.column("SELECT COUNT(*) FROM interaction_record WHERE target_type = 2 AND status = 1").await;
    assert_eq!(records, [(targets * 3 * users).to_string()]);
    let counts =
        bench.sql("SELECT COUNT(*), MIN(count), MAX(count) FROM interaction_count WHERE target_type = 2").await;
    assert_eq!(counts, [[targets * 3, users, users].map(|n| Some(n.to_string()))]);
}

/// Hazard case 10, and invariant 8.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_backlog_fits_small_packets_and_little_memory() {
    let Some(mysql) = PrivateMysql::start(&["--max_allowed_packet=1M", "--innodb-flush-log-at-trx-commit=0"]).await
    else {
        return;
    };
    let redis = Redis::start().await;
    let bench = Bench::of(Rig::on(&redis, &mysql.create_database("large").await, "")).await;
    changes(&bench, 2000, 100).await;
    // 1,000 rows of some four kilobytes each are more than a packet.
    bench
        .lua(
            "local long = string.rep('\\240\\159\\146\\153', 2000)
             for user = 1, 1000 do
               redis.call('HSET', 'like:3:7', user, long)
               redis.call('HSET', 'chg:3', 'like:7:' .. user, 1)
             end
             redis.call('SADD', 'dirty:3', 7)",
        )
        .await;

    let run = bench.spawn(&["sync", "--now", "--json"], &[]);
    run.wait(LIMIT).await;
    let peak = run.peak_rss_kib();
    let report = run.output(LIMIT).await.expect_code(0).json();
    let figures = Figures::of(&report);
    assert_eq!((figures.targets, figures.changes, figures.left, figures.drift), (2001, 201_000, 0, 0));
    assert_eq!(figures.rejected, 1000);
    expect_stored(&bench, 2000, 100).await;
    let kept = "SELECT COUNT(*) FROM sync_rejected WHERE CHAR_LENGTH(detail) = 1000";
    assert_eq!(bench.column(kept).await, ["1000"]);
    assert!(peak < 100 * 1024, "{peak} KiB");
    assert!(peak > 4 * 1024, "{peak} KiB: it was not measured");
}

/// Hazard case 11.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_a_statement_may_be_is_cut() {
    let Some(redis) = PrivateRedis::start(&["--hash-max-listpack-entries", "512"]).await else { return };
    let db = create_database().await;
    let bench = Bench::of(Rig::on(&redis, &db, "sync.batch_rows = 50000")).await;
    changes(&bench, 2, 12_000).await;
    // One statement for all of it would have 201,600 placeholders.
    to_be_scanned(&bench, 32, 300).await;
    let figures = bench.sync(&[]).await;
    assert_eq!((figures.targets, figures.changes), (34, 24_000));
    expect_stored(&bench, 2, 12_000).await;
    expect_scanned(&bench, 32, 300).await;
}
