//! Hashes that are too large to be read at once, and a recount while the same target is written to (hazard 25).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::AsyncCommands;

use super::{ALL, drifts, pass};
use crate::likes::{SOON, assert_agreement, like, store};
use crate::support::{Rig, eventually, sequence};

/// Fields of a large hash: a million by `TALLYD_TEST_LARGE_HASH=1000000`. Four of five are active.
fn users() -> i64 {
    std::env::var("TALLYD_TEST_LARGE_HASH").map_or(50_000, |text| text.parse().unwrap())
}

/// Note 7 with many users on both sides.
async fn many(extra: &str) -> Rig {
    let (users, active) = (users(), users() / 5 * 4);
    let rig = Rig::start(extra).await;
    rig.migrate().await;
    rig.sql_exec(&format!(
        "INSERT INTO interaction_record SELECT 1, 7, 1, seq, seq % 5 <> 0, '2026-01-01', '2026-01-01' \
         FROM {} AS users; INSERT INTO interaction_count VALUES (1, 7, 1, {active}, '2026-01-01')",
        sequence(users)
    ))
    .await;
    let mut redis = rig.redis.connect().await;
    for first in (1..=users).step_by(5000) {
        let fields: Vec<(i64, i64)> = (first..first + 5000).map(|user| (user, i64::from(user % 5 != 0))).collect();
        redis.hset_multiple::<_, _, _, ()>("like:1:7", &fields).await.unwrap();
    }
    redis.hset::<_, _, _, ()>("like:1:7", 0, "full").await.unwrap();
    redis.hset::<_, _, _, ()>("cnt:1:7", "like", active).await.unwrap();
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_hash_is_compared_page_by_page() {
    let rig = many(ALL).await;
    for args in [&[][..], &["--dry-run"]] {
        let report = pass(&rig, args, 0).await;
        assert_eq!((&report["outcome"], &report["looked_at"]), (&"clean".into(), &1.into()), "{report}");
    }
    let mut redis = rig.redis.connect().await;
    redis.hincr::<_, _, _, ()>("cnt:1:7", "like", 3).await.unwrap();
    redis.hdel::<_, _, ()>("like:1:7", 11).await.unwrap();
    rig.sql_exec(
        "UPDATE interaction_record SET status = 1 WHERE user_id = 10; DELETE FROM interaction_record WHERE user_id = 9; \
         UPDATE interaction_count SET count = 5",
    )
    .await;
    let dry = pass(&rig, &["--dry-run"], 3).await;
    let report = pass(&rig, &[], 0).await;
    assert_eq!(dry["by_kind"], report["by_kind"], "{dry} {report}");
    let mut found: Vec<_> = drifts(&rig, &report).await.into_iter().map(|d| (d.0, d.2, d.3, d.4)).collect();
    found.sort();
    let active = users() / 5 * 4;
    let text = |text: &str| (text != "-").then(|| text.to_owned());
    let row = |kind: &str, user, before, after| (kind.to_owned(), user, text(before), text(after));
    assert_eq!(
        found,
        [
            row("count_row_off", 0, "5", &active.to_string()),
            row("record_row_missing", 9, "-", "1"),
            row("record_row_off", 10, "1", "0"),
            row("redis_count_off", 0, &(active + 3).to_string(), &active.to_string()),
            row("state_missing", 11, "-", "1"),
        ]
    );
    // The count, too, which waited for the lost field.
    assert_eq!((&report["repaired"], &report["residual"]), (&5.into(), &0.into()), "{report}");
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_is_right_while_the_target_is_written_to() {
    let rig = many(ALL).await;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = Vec::new();
    for n in 1..=4_i64 {
        let (store, stop, written) = (store(&rig).await, stop.clone(), written.clone());
        writers.push(tokio::spawn(async move {
            let mut user = n * 7919;
            while !stop.load(Ordering::Relaxed) {
                // Known users and new ones; every second time the same again.
                user = (user * 48_271 + 11) % (users() + 5000);
                like(&store, 7, user + 1, user % 3 == 0).await;
                like(&store, 7, user + 1, user % 2 == 0).await;
                written.fetch_add(2, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }));
    }
    eventually(SOON, async || written.load(Ordering::Relaxed) > 200, "the writers write").await;
    let mut redis = rig.redis.connect().await;
    let begun = std::time::Instant::now();
    let before = written.load(Ordering::Relaxed);
    for off in [7_i64, -500, 0, 31] {
        redis.hincr::<_, _, _, ()>("cnt:1:7", "like", off).await.unwrap();
        let report = pass(&rig, &["--target", "note:7"], 0).await;
        let drift = drifts(&rig, &report).await;
        if off == 0 {
            assert_eq!(drift, [], "{report}");
            continue;
        }
        assert_eq!(
            (drift.len(), drift[0].0.as_str(), drift[0].5.as_str()),
            (1, "redis_count_off", "repaired"),
            "{drift:?}"
        );
        let number = |text: &Option<String>| text.as_deref().unwrap().parse::<i64>().unwrap();
        assert_eq!(number(&drift[0].3) - number(&drift[0].4), off, "{drift:?}");
    }
    let rate = u128::from(written.load(Ordering::Relaxed) - before) * 1000 / begun.elapsed().as_millis();
    println!("{rate} writes a second meanwhile");
    assert!(rate > 300, "{rate} writes a second are too few to tell");
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let states: Vec<String> = redis.hvals("like:1:7").await.unwrap();
    let active = states.iter().filter(|state| *state == "1").count();
    assert_eq!(redis.hget::<_, _, usize>("cnt:1:7", "like").await.unwrap(), active);
    let left: Vec<String> = redis.keys("lock:*").await.unwrap();
    assert_eq!(left, [""; 0], "nothing is saved any more");
    assert!(!redis.hexists::<_, _, bool>("cnt:1:7", ".old:like").await.unwrap());
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}
