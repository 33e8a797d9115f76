//! Tables that were there before tallyd: an id of their own, and a unique key led by the user.

use super::{Bench, Figures};
use crate::support::{PrivateMysql, Redis, Rig};

const RECORDS: &str = "
    CREATE TABLE interaction_record (
      id               BIGINT   NOT NULL AUTO_INCREMENT PRIMARY KEY,
      user_id          BIGINT   NOT NULL,
      target_type      TINYINT  NOT NULL,
      target_id        BIGINT   NOT NULL,
      interaction_type TINYINT  NOT NULL,
      status           TINYINT  NOT NULL DEFAULT 1,
      create_time      DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
      update_time      DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
      UNIQUE KEY uk_user_target (user_id, target_type, target_id, interaction_type)
    ) ENGINE = InnoDB;
    CREATE TABLE interaction_count (
      id               BIGINT   NOT NULL AUTO_INCREMENT PRIMARY KEY,
      target_type      TINYINT  NOT NULL,
      target_id        BIGINT   NOT NULL,
      interaction_type TINYINT  NOT NULL,
      count            BIGINT   NOT NULL DEFAULT 0,
      update_time      DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
      UNIQUE KEY uk_target (target_type, target_id, interaction_type)
    ) ENGINE = InnoDB;
";

/// The same with the narrow types that such tables often have.
fn narrow() -> String {
    RECORDS
        .replace("user_id          BIGINT ", "user_id          INT ")
        .replace("target_id        BIGINT ", "target_id        INT ")
        .replace("count            BIGINT ", "count            INT UNSIGNED ")
        .replace("TIMESTAMP(3)", "TIMESTAMP")
        .replace("DATETIME(3)", "DATETIME")
}

async fn bench(tables: &str) -> Bench {
    let rig = Rig::start("").await;
    rig.sql_exec(tables).await;
    Bench::of(rig).await
}

async fn change(bench: &Bench, user: i64, state: u8, at_ms: i64) {
    let commands = format!("HSET like:1:7 {user} {state}\n SADD dirty:1 7\n HSET chg:1 like:7:{user} {at_ms}");
    bench.redis_all(&commands).await;
}

/// 2026-01-02T03:04:05Z
const THEN_MS: i64 = 1_767_323_045_000;

#[tokio::test(flavor = "multi_thread")]
async fn older_tables_work_unchanged_and_counts_move_by_flips() {
    for tables in [RECORDS, &narrow()] {
        let bench = bench(tables).await;
        let definition = "SHOW CREATE TABLE interaction_record";
        let before = bench.sql(definition).await;
        bench.migrate().await;
        assert_eq!(bench.sql(definition).await, before);
        // A hash that does not vouch, and a count row of a time when more users were known.
        bench
            .sql_exec(
                "INSERT INTO interaction_count (target_type, target_id, interaction_type, count) \
                        VALUES (1, 7, 1, 100)",
            )
            .await;

        let steps = [
            (&[(42, 1), (43, 1), (44, 0)][..], 102),
            (&[(42, 1)], 102),
            (&[(42, 0), (44, 1)], 102),
            (&[(43, 0)], 101),
            (&[(42, 1), (43, 1), (44, 1)], 103),
        ];
        for (step, (changes, count)) in (0..).zip(steps) {
            for &(user, state) in changes {
                change(&bench, user, state, THEN_MS + step * 1000).await;
            }
            let changed = changes.len() as u64;
            let figures = Figures { targets: 1, changes: changed, rows_written: changed + 1, ..Figures::default() };
            assert_eq!(bench.sync(&[]).await, figures);
            assert_eq!(bench.counts().await, [format!("1:7:1={count}")], "step {step}");
            // The same again, as after a crash between commit and ack.
            for &(user, state) in changes {
                change(&bench, user, state, THEN_MS + step * 1000).await;
            }
            bench.sync(&[]).await;
            assert_eq!(bench.counts().await, [format!("1:7:1={count}")], "step {step} twice");
        }
        assert_eq!(bench.records().await, ["1:7:1:42=1", "1:7:1:43=1", "1:7:1:44=1"]);
        assert_eq!(bench.times(7, 42).await, (THEN_MS, THEN_MS + 4000));
        // A delayed change moves neither row nor count.
        change(&bench, 42, 0, THEN_MS + 3000).await;
        bench.sync(&[]).await;
        assert_eq!(bench.times(7, 42).await, (THEN_MS, THEN_MS + 4000));
        assert_eq!(bench.counts().await, ["1:7:1=103"]);
        // The count of a complete hash is copied.
        bench.redis_all("HSET like:1:7 0 full 42 1 43 1 44 1\n HSET cnt:1:7 like 3").await;
        change(&bench, 44, 1, THEN_MS + 5000).await;
        bench.sync(&[]).await;
        assert_eq!(bench.counts().await, ["1:7:1=3"]);
        bench.expect_no_marks().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_never_falls_below_zero_and_none_is_made_of_a_loss() {
    for tables in [RECORDS, &narrow()] {
        let bench = bench(tables).await;
        change(&bench, 42, 1, THEN_MS).await;
        bench.sync(&[]).await;
        for lost in ["UPDATE interaction_count SET count = 0", "DELETE FROM interaction_count"] {
            change(&bench, 42, 1, THEN_MS).await;
            bench.sync(&[]).await;
            bench.sql_exec(lost).await;
            change(&bench, 42, 0, THEN_MS + 1000).await;
            assert_eq!(bench.sync(&[]).await.rejected, 0, "{lost}");
            assert_eq!(bench.counts().await, ["1:7:1=0"], "{lost}");
            bench.sql_exec("UPDATE interaction_record SET status = 1, update_time = '2026-01-01'").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_moves_the_count_by_the_flips_of_all_its_pages() {
    for (users, complete) in [(7000, false), (7000, true), (20, false), (20, true)] {
        let bench = bench(RECORDS).await;
        let complete = if complete { "redis.call('HSET', 'like:1:7', '0', 'full')" } else { "" };
        bench
            .lua(&format!(
                "for user = 1, {users} do redis.call('HSET', 'like:1:7', user, user % 2) end
                 redis.call('HSET', 'cnt:1:7', 'like', {users} / 2)
                 redis.call('SADD', 'dirty:1', '7')
                 {complete}"
            ))
            .await;
        bench.sync(&[]).await;
        assert_eq!(bench.counts().await, [format!("1:7:1={}", users / 2)], "{users} {complete}");
        bench.redis_all("SADD dirty:1 7").await;
        bench.sync(&[]).await;
        assert_eq!(bench.counts().await, [format!("1:7:1={}", users / 2)], "{users} {complete} twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_of_a_complete_hash_is_set_right() {
    for users in [10, 7000] {
        let bench = bench(RECORDS).await;
        bench
            .lua(&format!(
                "for user = 1, {users} do redis.call('HSET', 'like:1:7', user, '1') end
                 redis.call('HSET', 'like:1:7', '0', 'full')
                 redis.call('HSET', 'cnt:1:7', 'like', 5)
                 redis.call('SADD', 'dirty:1', '7')"
            ))
            .await;
        assert_eq!(bench.sync(&[]).await.drift, 1);
        assert_eq!(bench.redis::<i64>("HGET cnt:1:7 like").await, users);
        assert_eq!(bench.counts().await, [format!("1:7:1={users}")]);
        bench.sql_exec("UPDATE interaction_count SET count = 3").await;
        bench.redis_all("HSET cnt:1:7 like 4\n SADD dirty:1 7").await;
        assert_eq!(bench.sync(&[]).await.drift, 1);
        assert_eq!(bench.counts().await, [format!("1:7:1={users}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_narrow_column_cannot_hold_is_set_aside() {
    let bench = bench(&narrow()).await;
    change(&bench, 42, 1, THEN_MS).await;
    change(&bench, 9_223_372_036_854_775_807, 1, THEN_MS).await;
    change(&bench, 2_147_483_647, 1, THEN_MS).await;
    assert_eq!(bench.sync(&[]).await.rejected, 1);
    assert_eq!(bench.rejected().await, ["like:7:9223372036854775807 refused"]);
    assert_eq!(bench.records().await, ["1:7:1:42=1", "1:7:1:2147483647=1"]);
    assert_eq!(bench.counts().await, ["1:7:1=2"]);
    bench.expect_no_marks().await;
}

/// Also with a server that rounds times to the precision of a column, as MySQL does, and MariaDB when told.
#[tokio::test(flavor = "multi_thread")]
async fn no_lookup_scans_the_table_and_check_names_the_index_that_helps() {
    let options = ["--general-log=1", "--log-output=TABLE", "--sql-mode=TIME_ROUND_FRACTIONAL,STRICT_TRANS_TABLES"];
    let Some(mysql) = PrivateMysql::start(&options).await else { return };
    let redis = Redis::start().await;
    let rig = Rig::on(&redis, &mysql.create_database("older").await, "");
    rig.sql_exec(&narrow()).await;
    let bench = Bench::of(rig).await;

    change(&bench, 42, 1, THEN_MS + 700).await;
    bench.sync(&[]).await;
    assert_eq!(bench.counts().await, ["1:7:1=1"]);
    change(&bench, 42, 0, THEN_MS + 900).await;
    bench.sync(&[]).await;
    assert_eq!(bench.records().await, ["1:7:1:42=0"]);
    assert_eq!(bench.counts().await, ["1:7:1=0"], "within the second that the first change was rounded up to");

    bench.redis_all("HSET like:1:8 1 1 2 1\n HSET cnt:1:8 like 9\n SADD dirty:1 8\n HSET like:1:9 1 1").await;
    bench.sync(&["--full"]).await;
    bench.sync(&["--target", "1:8", "--dry-run"]).await;
    bench.sync(&["--target", "1:8"]).await;
    let statements = bench
        .column(
            "SELECT argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') \
             AND argument LIKE '%tallyd%interaction_record%' AND argument NOT LIKE '%information_schema%'",
        )
        .await;
    assert!(statements.len() > 5, "{statements:?}");
    for statement in &statements {
        let lookup = statement.split("WHERE").nth(1);
        let found = statement.contains("INSERT INTO") || lookup.is_some_and(|rest| rest.contains("user_id IN ("));
        assert!(found, "{statement}");
    }

    let index = "CREATE INDEX by_target ON interaction_record (target_type, target_id, interaction_type, status)";
    let advice = bench.tallyd(&["check"]).await.expect_code(0).stdout;
    assert!(advice.contains(index), "{advice}");
    bench.sql_exec(index).await;
    let advice = bench.tallyd(&["check"]).await.expect_code(0).stdout;
    assert!(!advice.contains("CREATE INDEX"), "{advice}");
    bench.sql_exec("UPDATE interaction_count SET count = 77 WHERE target_id = 8").await;
    bench.sync(&["--target", "1:8"]).await;
    assert_eq!(bench.counts().await, ["1:7:1=0", "1:8:1=2", "1:9:1=1"], "with the index, rows are counted");
}
