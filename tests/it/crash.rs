//! kill -9 at every crash point: the next run leaves exactly what an undisturbed one leaves (hazards 16 and 26).

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::likes::{SOON, marks};
use crate::support::{Rig, failpoints};

/// Chunks are small, so that the first of many is the one that is hit.
const CONFIG: &str = "sync.batch_rows = 150";
/// Event time of the first change; the others follow. The twins share them.
const T0: i64 = 1_700_000_000_000;
/// Targets from here on are dirty without a change, and are scanned.
const SCANNED: i64 = 5_000;

/// What is dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Backlog {
    /// 3,000 changes of two interactions on 100 targets, 20 scanned targets, changes without a state.
    Mixed,
    /// 20 scanned targets alone, so that the crash falls into a scan.
    Scanned,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_anywhere_is_finished_by_the_next_as_if_nothing_had_happened() {
    if !failpoints() {
        return;
    }
    let scenes = [
        ("after_claim", Backlog::Mixed),
        ("after_read", Backlog::Mixed),
        ("after_commit", Backlog::Mixed),
        ("before_ack", Backlog::Mixed),
        ("after_claim", Backlog::Scanned),
        ("after_commit", Backlog::Scanned),
        ("before_ack", Backlog::Scanned),
    ];
    // Side by side, for each waits until the killed process' lease has run out.
    let undisturbed = join_all([Backlog::Mixed, Backlog::Scanned].map(undisturbed));
    let disturbed = join_all(scenes.map(|(point, backlog)| killed(point, backlog)));
    let (undisturbed, disturbed) = tokio::join!(undisturbed, disturbed);
    for ((point, backlog), rows) in scenes.iter().zip(disturbed) {
        let expected = &undisturbed[usize::from(*backlog == Backlog::Scanned)];
        assert!(expected.len() > 400, "there is something to compare");
        let differ = rows.iter().zip(expected).find(|(one, other)| one != other);
        assert!(rows.len() == expected.len() && differ.is_none(), "{point} {backlog:?}: {differ:?}");
    }
}

type Rows = Vec<Vec<Option<String>>>;

async fn undisturbed(backlog: Backlog) -> Rows {
    let rig = start(backlog).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    let old = rig
        .sql(
            "SELECT target_id, status, YEAR(create_time), YEAR(update_time) FROM interaction_record \
             WHERE target_type = 1 AND target_id <= 2 AND interaction_type = 1 AND user_id = 101 ORDER BY target_id",
        )
        .await;
    let old: Vec<Vec<_>> = old.iter().map(|row| row.iter().flatten().map(String::as_str).collect()).collect();
    if backlog == Backlog::Mixed {
        // The first time stays; the newer event time wins.
        assert_eq!(old, [["1", "0", "2020", "2023"], ["2", "0", "2020", "2033"]]);
    }
    rows(&rig, false).await
}

async fn killed(point: &str, backlog: Backlog) -> Rows {
    let rig = start(backlog).await;
    let failpoint = format!("{point}:kill");
    let output = rig.tallyd_with(&["sync"], &[("TALLYD_FAILPOINT", &failpoint)]).await;
    assert_eq!(output.code, None, "{point}: it was killed, and did not end: {}{}", output.stdout, output.stderr);
    assert!(!marks(&rig).await.is_empty(), "{point}: what is not acked is still marked");
    let committed = rows(&rig, true).await;
    assert_eq!(committed.is_empty(), matches!(point, "after_claim" | "after_read"), "{point} {backlog:?}");

    // Nobody gives back the lease of a process that was killed: it runs out.
    let begun = Instant::now();
    let output = rig.tallyd(&["sync", "--json", "--wait-seconds", "30"]).await.expect_code(0);
    assert!(begun.elapsed() < SOON, "{point}: the lease runs out within 15 s: {:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_secs(5), "{point}: a lease is honoured until it runs out");
    assert_eq!((&output.json()["outcome"], &output.json()["left"]), (&"done".into(), &0.into()), "{point}");
    assert_eq!(marks(&rig).await, [""; 0], "{point}");

    // What was committed before the crash was not touched by doing it again, not even its times.
    let now = rows(&rig, true).await;
    let disturbed: Vec<_> = committed.iter().filter(|row| !now.contains(row)).collect();
    assert!(disturbed.is_empty(), "{point} {backlog:?}: {disturbed:?}");
    rows(&rig, false).await
}

/// Every row of both tables and what was set aside. Rows of a scan carry the Redis time of their reading, which the
/// twins do not share: their times are left out on request.
async fn rows(rig: &Rig, scan_times: bool) -> Rows {
    let from = if scan_times { i64::MAX } else { SCANNED };
    let time = |column: &str| format!("IF(target_id < {from}, {column}, IF({column} > '2025-01-01', 'now', {column}))");
    let (create, update) = (time("create_time"), time("update_time"));
    let mut rows = rig
        .sql(&format!(
            "SELECT target_type, target_id, interaction_type, user_id, status, {create}, {update} \
             FROM interaction_record ORDER BY 1, 2, 3, 4"
        ))
        .await;
    let counts = "SELECT target_type, target_id, interaction_type, count";
    rows.extend(rig.sql(&format!("{counts}, {update} FROM interaction_count ORDER BY 1, 2, 3")).await);
    rows.extend(rig.sql("SELECT target_type, mark, reason, detail FROM sync_rejected ORDER BY 1, 2, 3").await);
    // Rows that were there before anything was synced.
    let old = |row: &Vec<Option<String>>| row.iter().flatten().any(|value| value.starts_with("2020-"));
    rows.retain(|row| !scan_times || !old(row));
    rows
}

async fn start(backlog: Backlog) -> Rig {
    let rig = Rig::start(CONFIG).await;
    rig.migrate().await;
    let mut pipe = redis::pipe();
    if backlog == Backlog::Mixed {
        changes(&mut pipe);
        // Their rows are there: the first is older than its change, the second newer, as after a direct write.
        rig.sql_exec(
            "INSERT INTO interaction_record VALUES \
             (1, 1, 1, 101, 0, '2020-01-01', '2020-01-01'), (1, 2, 1, 101, 0, '2020-01-01', '2033-01-01')",
        )
        .await;
    }
    for target in SCANNED..SCANNED + 20 {
        pipe.sadd("dirty:1", target);
        hash(&mut pipe, "like", target, &(1..=30).map(|user| (user, user % 4 != 0)).collect::<Vec<_>>());
    }
    pipe.exec_async(&mut rig.redis.connect().await).await.unwrap();
    rig
}

fn changes(pipe: &mut redis::Pipeline) {
    let mut at = T0;
    for target in 1..=100 {
        pipe.sadd("dirty:1", target);
        for (interaction, users) in [("like", 101..=120), ("collect", 111..=120)] {
            let states: Vec<_> = users.map(|user| (user, (user + target) % 3 != 0)).collect();
            hash(pipe, interaction, target, &states);
            for (user, _) in states {
                at += 7;
                pipe.hset("chg:1", format!("{interaction}:{target}:{user}"), at);
            }
        }
    }
    // Another partition, and changes whose state is gone: set aside once, however often they are met.
    for target in 1..=5 {
        pipe.sadd("dirty:2", target).hset("chg:2", format!("like:{target}:7"), T0 + target);
        pipe.hset(format!("like:2:{target}"), 7, 1);
    }
    for target in 201..=203 {
        pipe.sadd("dirty:1", target).hset("chg:1", format!("like:{target}:7"), T0 + target);
    }
}

/// A complete hash and its count.
fn hash(pipe: &mut redis::Pipeline, interaction: &str, target: i64, states: &[(i64, bool)]) {
    let key = format!("{interaction}:1:{target}");
    pipe.hset(&key, 0, "full");
    for (user, active) in states {
        pipe.hset(&key, user, u8::from(*active));
    }
    let count = states.iter().filter(|(_, active)| *active).count();
    pipe.hset(format!("cnt:1:{target}"), interaction, count);
}
