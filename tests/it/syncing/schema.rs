//! The schema: made once, asked for, never made by chance.

use redis::Value;

use super::Bench;
use crate::support::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn without_the_schema_every_command_says_how_to_make_it() {
    let rig = Rig::start("").await;
    let mut connection = rig.redis.connect().await;
    redis::cmd("SADD").arg("dirty:1").arg(7).query_async::<()>(&mut connection).await.unwrap();

    for args in [&["sync", "--now", "--json"][..], &["sync", "--dry-run", "--json"]] {
        let report = rig.tallyd(args).await.expect_code(1).json();
        assert_eq!(report["outcome"], "failed", "{report:#}");
        for partition in report["partitions"].as_array().unwrap() {
            let error = partition["error"].as_str().unwrap();
            assert!(error.contains("tallyd migrate"), "{error}");
        }
    }
    let served = rig.tallyd(&["serve", "--no-api"]).await.expect_code(1);
    assert!(served.stderr.contains("the schema is not current") && served.stderr.contains("tallyd migrate"));
    let checked = rig.tallyd(&["check"]).await.expect_code(1);
    assert!(checked.stdout.contains("FAIL  mysql schema") && checked.stdout.contains("tallyd migrate"));
    assert_eq!(rig.sql("SHOW TABLES").await, [] as [Vec<_>; 0], "nothing migrates by itself");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    assert_eq!(keys, ["dirty:1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_refused_too() {
    let bench = Bench::start("").await;
    bench.sql_exec("DELETE FROM _sqlx_migrations ORDER BY version DESC LIMIT 1").await;
    let served = bench.tallyd(&["serve", "--no-api"]).await.expect_code(1);
    assert!(served.stderr.contains("the schema is not current: 1 of"), "{}", served.stderr);
    assert!(served.stderr.contains("tallyd migrate"), "{}", served.stderr);
    let report = bench.try_sync(&[]).await.expect_code(1).json();
    assert_eq!(report["outcome"], "failed");
    // Its tables are there: the migration takes them as they are.
    bench.migrate().await;
    bench.sync(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn to_migrate_twice_is_fine_and_a_newer_schema_too() {
    let rig = Rig::start("").await;
    let first = rig.tallyd(&["migrate"]).await.expect_code(0).stdout;
    assert_eq!(
        first.lines().collect::<Vec<_>>(),
        ["applied: records and counts", "applied: syncing", "applied: unsettled counts", "applied: reconciling"]
    );
    let schema = "SELECT table_name, column_name, column_type FROM information_schema.columns \
                  WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position";
    let made = rig.sql(schema).await;
    rig.sql_exec("INSERT INTO interaction_count VALUES (1, 7, 1, 5, '2026-01-01')").await;
    let second = rig.tallyd(&["migrate"]).await.expect_code(0).stdout;
    assert_eq!(second, "the schema is current\n");
    assert_eq!(rig.sql(schema).await, made);

    rig.sql_exec("INSERT INTO _sqlx_migrations VALUES (9999, 'of a later version', NOW(), 1, '', 1)").await;
    assert_eq!(rig.tallyd(&["migrate"]).await.expect_code(0).stdout, "the schema is current\n");
    let bench = Bench::of(rig).await;
    bench.sync(&[]).await;
    assert_eq!(bench.counts().await, ["1:7:1=5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_shards_is_refused() {
    let bench = Bench::start("").await;
    bench.sync(&[]).await;
    assert_eq!(bench.column("SELECT value FROM tallyd_meta WHERE name = 'redis.shards'").await, ["1"]);
    bench.sql_exec("UPDATE tallyd_meta SET value = '16' WHERE name = 'redis.shards'").await;
    bench.redis::<Value>("HSET like:1:7 1 1").await;
    bench.redis::<Value>("SADD dirty:1 7").await;
    let (keys, records) = (bench.dump().await, bench.records().await);
    for args in [&[][..], &["--dry-run"], &["--full"]] {
        let report = bench.try_sync(args).await.expect_code(1).json();
        assert_eq!(report["outcome"], "failed", "{report:#}");
        let error = report["partitions"][0]["error"].as_str().unwrap();
        assert!(error.contains("redis.shards is 1") && error.contains("with 16"), "{error}");
    }
    assert_eq!((bench.dump().await, bench.records().await), (keys, records));
}
