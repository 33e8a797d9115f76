//! A dry run changes nothing, and its figures are those of the run that follows.

use super::{Bench, Figures};

const SHARED_LIKES: &str = "
    [[interaction]]
    name = \"like\"
    code = 1
    kind = \"state\"
    scan = \"full\"
    [[interaction]]
    name = \"view\"
    code = 4
    kind = \"counter\"
";

/// Every kind of mark: changes on several targets and types, a counter, targets to be scanned, what is set aside.
async fn every_kind_of_mark(bench: &Bench) {
    bench
        .redis_all(
            "HSET like:1:7 0 full\n HSET cnt:1:7 like 0
             HSET cnt:1:8 view 5\n SADD dirty:1 8\n HSET chg:1 view:8:0 1767300000000
             HSET like:1:9 1 1 2 0 3 1 0 full\n HSET cnt:1:9 like 2\n SADD dirty:1 9
             HSET like:2:7 1 1\n SADD dirty:2 7 oops
             SADD dirty:3 5\n HSET chg:3 like:5:1 1767300000000 nonsense 1",
        )
        .await;
    bench.like(7, 1, true).await;
    bench.like(7, 2, false).await;
    bench.redis_all("HSET like:1:7 3 1\n HINCRBY cnt:1:7 like 1").await;
}

async fn expect_dry_then_real(extra: &str, prepare: impl AsyncFn(&Bench), args: &[&str]) {
    let bench = Bench::start(extra).await;
    prepare(&bench).await;
    let (keys, tables) = (bench.dump().await, bench.tables().await);

    let dry = bench.sync(&[args, &["--dry-run"]].concat()).await;
    assert_eq!(bench.dump().await, keys, "{args:?}");
    assert_eq!(bench.tables().await, tables, "{args:?}");
    let again = bench.sync(&[args, &["--dry-run"]].concat()).await;
    assert_eq!(dry, again);

    let real = bench.sync(args).await;
    assert_eq!(dry, real, "{args:?} {extra}");
    assert_ne!(real, Figures::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_marked_changes() {
    expect_dry_then_real("", every_kind_of_mark, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_every_dirty_target_is_scanned() {
    expect_dry_then_real(SHARED_LIKES, every_kind_of_mark, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_target() {
    expect_dry_then_real("", every_kind_of_mark, &["--target", "1:7"]).await;
    expect_dry_then_real("", every_kind_of_mark, &["--target", "1:9"]).await;
    let unmarked = async |bench: &Bench| bench.redis_all("HSET like:1:5 1 1 2 0\n HSET cnt:1:5 like 1").await;
    expect_dry_then_real("", unmarked, &["--target", "1:5"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_everything() {
    expect_dry_then_real("", every_kind_of_mark, &["--full"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_a_crashed_run_left() {
    let prepare = async |bench: &Bench| {
        every_kind_of_mark(bench).await;
        let killed = bench.tallyd_with(&["sync"], &[("TALLYD_FAILPOINT", "after_claim:kill")]).await;
        assert_eq!(killed.code, None);
        bench.redis_all("SADD dirty:1 9 10\n HSET like:1:10 1 1").await;
        bench.like(7, 3, false).await;
        // The lease of the killed run is given back.
        bench.sql_exec("UPDATE sync_partition SET lease_until = NULL, lease_owner = NULL").await;
    };
    expect_dry_then_real("", prepare, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_than_one_page() {
    let prepare = async |bench: &Bench| {
        bench
            .lua(
                "for target = 1, 300 do
                   for user = 1, 20 do
                     redis.call('HSET', 'like:1:' .. target, user, user % 2)
                     redis.call('HSET', 'chg:1', 'like:' .. target .. ':' .. user, 1767300000000)
                   end
                   redis.call('HSET', 'like:1:' .. target, '0', 'full')
                   redis.call('HSET', 'cnt:1:' .. target, 'like', 10)
                   redis.call('SADD', 'dirty:1', target)
                 end",
            )
            .await;
    };
    expect_dry_then_real("", prepare, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_counts_that_are_wrong() {
    let prepare = async |bench: &Bench| {
        bench
            .redis_all(
                "HSET like:1:7 0 full 1 1 2 1\n HSET cnt:1:7 like 9\n SADD dirty:1 7
                 HSET like:1:8 0 full 1 1 2 1\n HSET cnt:1:8 like 9\n SADD dirty:1 8
                 HSET chg:1 like:8:1 1767300000000",
            )
            .await;
    };
    expect_dry_then_real("", prepare, &[]).await;
}
