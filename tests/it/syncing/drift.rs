//! Counts that disagree with their states are set right and reported.

use super::{Bench, Figures};

/// A complete hash of `users` active likes, all of them in MySQL.
async fn liked(bench: &Bench, target: i64, users: i64) {
    bench
        .lua(&format!(
            "redis.call('HSET', 'like:1:{target}', '0', 'full')
             for user = 1, {users} do redis.call('HSET', 'like:1:{target}', user, '1') end
             redis.call('HSET', 'cnt:1:{target}', 'like', {users})
             redis.call('SADD', 'dirty:1', '{target}')"
        ))
        .await;
    assert_eq!(bench.sync(&[]).await.drift, 0);
    assert_eq!(bench.counts().await, [format!("1:{target}:1={users}")]);
}

async fn expect_right(bench: &Bench, count: i64) {
    assert_eq!(bench.redis::<i64>("HGET cnt:1:7 like").await, count);
    assert_eq!(bench.counts().await, [format!("1:7:1={count}")]);
    bench.expect_no_marks().await;
    assert_eq!(bench.sync(&["--target", "1:7"]).await.drift, 0, "it is reported once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_is_found_when_its_target_changes() {
    for wrong in ["3", "1000", "-2", "many"] {
        let bench = Bench::start("").await;
        liked(&bench, 7, 10).await;
        bench.redis_all(&format!("HSET cnt:1:7 like {wrong}\n HSET like:1:7 11 1\n SADD dirty:1 7")).await;
        bench.redis_all("HSET chg:1 like:7:11 1767300000000").await;
        // The change with its count, then the count once more.
        let figures = Figures { targets: 1, changes: 1, rows_written: 3, drift: 1, ..Figures::default() };
        assert_eq!(bench.sync(&[]).await, figures, "{wrong}");
        expect_right(&bench, 11).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_is_found_by_a_scan() {
    // One page; several pages; and so many that no verification by HVALS looks at them.
    for (users, verify_limit) in [(10, 10_000), (7000, 10_000), (7000, 100)] {
        let bench = Bench::start(&format!("sync.verify_limit = {verify_limit}")).await;
        liked(&bench, 7, users).await;
        bench.redis_all("HINCRBY cnt:1:7 like 5\n SADD dirty:1 7").await;
        let figures = Figures { targets: 1, rows_written: 1, drift: 1, ..Figures::default() };
        assert_eq!(bench.sync(&[]).await, figures, "{users} users");
        expect_right(&bench, users).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_that_does_not_vouch_corrects_nothing_in_redis() {
    let bench = Bench::start("").await;
    bench.redis_all("HSET like:1:7 0 partial 1 1 2 1\n HSET cnt:1:7 like 50").await;
    bench.redis_all("SADD dirty:1 7\n HSET chg:1 like:7:1 1767300000000").await;
    assert_eq!(bench.sync(&[]).await.drift, 0);
    bench.redis_all("SADD dirty:1 7").await;
    assert_eq!(bench.sync(&[]).await.drift, 0);
    assert_eq!(bench.redis::<i64>("HGET cnt:1:7 like").await, 50, "of whom most are not loaded");
    assert_eq!(bench.counts().await, ["1:7:1=50"]);
}
