//! Loading from tables of the older layout, which cannot find the rows of a target.

use super::{Scene, id};
use crate::support::{PrivateMysql, Redis, Rig};

const TABLES: &str = "
    CREATE TABLE interaction_record (
      id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id BIGINT NOT NULL, target_type TINYINT NOT NULL,
      target_id BIGINT NOT NULL, interaction_type TINYINT NOT NULL, status TINYINT NOT NULL DEFAULT 1,
      create_time DATETIME NOT NULL, update_time DATETIME NOT NULL,
      UNIQUE KEY uk_user_target (user_id, target_type, target_id, interaction_type));
    CREATE TABLE interaction_count (
      id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, target_type TINYINT NOT NULL, target_id BIGINT NOT NULL,
      interaction_type TINYINT NOT NULL, count BIGINT NOT NULL DEFAULT 0, update_time DATETIME NOT NULL,
      UNIQUE KEY uk_target (target_type, target_id, interaction_type))";

#[tokio::test(flavor = "multi_thread")]
async fn users_are_looked_up_one_by_one_and_no_statement_scans_the_table() {
    let Some(mysql) = PrivateMysql::start(&["--general-log=1", "--log-output=TABLE"]).await else { return };
    let redis = Redis::start().await;
    let rig = Rig::on(&redis, &mysql.create_database("older").await, "");
    rig.sql_exec(TABLES).await;
    let scene = Scene::of(rig).await;
    scene.liked(1, 5).await;
    assert_eq!(scene.count(1).await, 5);
    assert!(scene.is_active(1, 3).await);
    assert!(!scene.is_active(1, 6).await);
    assert_eq!(scene.redis::<String>("HGET like:1:1 0").await, "partial");
    let answer = scene.set(1, 6, true).await;
    assert_eq!((answer.changed, answer.count), (true, Some(6)));
    let answer = scene.set(1, 3, false).await;
    assert_eq!((answer.changed, answer.count), (true, Some(5)));
    // Of which there is nothing.
    assert!(!scene.is_active(9, 6).await);
    assert_eq!(scene.count(9).await, 0);
    assert_eq!(scene.redis::<i64>("EXISTS like:1:9").await, 0);
    assert!(scene.redis::<i64>("PTTL cnt:1:9").await > 0);
    assert_eq!(scene.set(9, 6, true).await.count, Some(1));
    assert_eq!(scene.redis::<i64>("PTTL cnt:1:9").await, -1);
    assert_eq!(scene.live.counts(1, id(9)).await.unwrap().0[1], (2, 0), "a missing count row is 0");
    scene.sync().await;
    assert_eq!(scene.durable(1).await, (5, 5));
    assert_eq!(scene.durable(9).await, (1, 1));

    let statements = scene
        .sql(
            "SELECT argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') \
             AND argument LIKE '%tallyd load%interaction_record%' AND argument NOT LIKE '%general_log%'",
        )
        .await;
    assert!(statements.len() >= 4, "{statements:?}");
    for statement in statements.iter().map(|row| row[0].as_deref().unwrap()) {
        assert!(statement.contains("user_id IN ("), "{statement}");
    }
}
