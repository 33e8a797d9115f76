//! A target with many members is loaded by the users who are asked for, a small one whole.

use tallyd::live::Source;

use super::{Scene, id};
use crate::support::Rig;

const LIMIT: &str = "cache.full_load_limit = 10";

async fn fields(scene: &Scene, target: i64) -> Vec<String> {
    let mut fields: Vec<String> = scene.redis(&format!("HKEYS like:1:{target}")).await;
    fields.sort_unstable();
    fields
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_target_is_loaded_whole_and_a_large_one_by_users() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(1, 10).await;
    scene.liked(2, 11).await;
    assert_eq!((scene.count(1).await, scene.count(2).await), (10, 11));
    assert_eq!(fields(&scene, 1).await.len(), 11);
    assert_eq!(fields(&scene, 2).await, ["0"]);
    assert_eq!(scene.redis::<String>("HGET like:1:1 0").await, "full");
    assert_eq!(scene.redis::<String>("HGET like:1:2 0").await, "partial");
    assert_eq!(scene.redis::<String>("HGET collect:1:2 0").await, "full", "of which there is nothing");
    assert!(scene.is_active(2, 7).await);
    assert!(!scene.is_active(2, 700).await);
    assert_eq!(fields(&scene, 2).await, ["0", "7", "700"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_and_counts_of_a_partial_hash_reach_mysql() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    let told = async |user, active| {
        let answer = scene.set(2, user, active).await;
        (answer.changed, answer.count)
    };
    assert_eq!(told(7, true).await, (false, Some(50)), "liked long ago");
    assert_eq!(told(8, false).await, (true, Some(49)));
    assert_eq!(told(700, true).await, (true, Some(50)));
    assert_eq!(told(701, true).await, (true, Some(51)));
    assert_eq!(told(702, false).await, (false, Some(51)), "never liked");
    scene.sync().await;
    assert_eq!(scene.durable(2).await, (51, 51));
    assert_eq!(scene.count(2).await, 51);
    assert_eq!(scene.redis::<String>("HGET like:1:2 0").await, "partial");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_row_is_taken_only_while_nothing_is_pending() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    scene.set(2, 700, true).await;
    let _: i64 = scene.redis("HDEL cnt:1:2 like").await;
    assert_eq!(scene.try_count(2).await, Err("MySQL says 50".to_owned()));
    let told = scene.ask(2, Some(700)).await.unwrap();
    assert_eq!(
        (told.count, told.active, told.source),
        (50, Some(true), Source::Mysql),
        "what Redis knows is not asked there"
    );
    let blind = scene.set(2, 701, true).await;
    assert_eq!((blind.changed, blind.count), (true, None), "recorded all the same");
    assert!(scene.try_count(2).await.is_err());
    scene.sync().await;
    assert_eq!(scene.durable(2).await, (52, 52));
    assert_eq!(scene.count(2).await, 52);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_row_is_not_taken_while_the_journal_has_the_target() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    scene
        .sql_exec(
            "INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms) \
             VALUES (1, 0, 2, 1, 700, 1, 1700000000000)",
        )
        .await;
    assert_eq!(scene.try_count(2).await, Err("MySQL says 50".to_owned()));
    scene.sql_exec("DELETE FROM degraded_write").await;
    assert_eq!(scene.count(2).await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_nothing_vouches_for_is_replaced_or_dropped() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    let _: i64 = scene.redis("HSET cnt:1:2 like 999").await;
    assert_eq!(scene.count(2).await, 999, "of another program, perhaps: it is believed while nothing is loaded");
    assert!(scene.is_active(2, 7).await);
    assert_eq!(scene.count(2).await, 50);
    // The same while the target is dirty.
    let _: i64 = scene.redis("DEL like:1:2").await;
    let _: i64 = scene.redis("HSET cnt:1:2 like 999").await;
    let _: i64 = scene.redis("SADD dirty:1 2").await;
    let answer = scene.set(2, 7, true).await;
    assert_eq!((answer.changed, answer.count), (false, None));
    scene.sync().await;
    assert_eq!(scene.durable(2).await, (50, 50));
    assert_eq!(scene.count(2).await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_hash_is_counted_whatever_its_size_and_needs_no_rows() {
    for users in [50, 12_000] {
        let scene = Scene::start(LIMIT).await;
        scene.set(3, 1, true).await;
        let fill = format!("for user = 1, {users} do redis.call('HSET', 'like:1:3', user, user % 2) end");
        redis::cmd("EVAL").arg(fill).arg(0).query_async::<()>(&mut scene.rig.redis.connect().await).await.unwrap();
        let _: i64 = scene.redis("HDEL cnt:1:3 like").await;
        // Rows that are not looked at.
        scene.liked(3, 20).await;
        assert_eq!(scene.count(3).await, users / 2);
        assert_eq!(scene.redis::<String>("HGET like:1:3 0").await, "full");
        assert!(!scene.is_active(3, 20_000).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_count_row_are_found() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(5, 8).await;
    scene.sql_exec("DELETE FROM interaction_count").await;
    assert_eq!(scene.count(5).await, 8);
    assert!(scene.is_active(5, 3).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_of_one_interaction_does_not_wait_for_another() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    scene.set(2, 700, true).await;
    let _: i64 = scene.redis("HDEL cnt:1:2 like collect").await;
    let question = tallyd::live::Question { interaction: 2, target_type: 1, target: id(2), user: None };
    let told = scene.live.ask(&[question]).await.pop().unwrap().unwrap();
    assert_eq!((told.count, told.source), (0, Source::Redis));
    let (counts, source) = scene.live.counts(1, id(2)).await.unwrap();
    assert_eq!((counts[0], source), ((1, 50), Source::Mysql), "the likes are not known");
}

/// A degraded write is in the row of its user, and not in the count that Redis has taken before.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_replayed_yet_takes_the_count_with_it() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    assert!(scene.is_active(2, 7).await);
    assert_eq!(scene.count(2).await, 50);
    scene
        .sql_exec(
            "INSERT INTO interaction_record VALUES (1,2,1,900,1,'2026-01-02','2026-01-02');
             UPDATE interaction_count SET count = 51;
             INSERT INTO degraded_write (target_type, shard, target_id, interaction_type, user_id, status, event_ms)
               VALUES (1, 0, 2, 1, 900, 1, 1767312000000)",
        )
        .await;
    assert!(scene.is_active(2, 900).await);
    assert_eq!(scene.redis::<Option<String>>("HGET cnt:1:2 like").await, None);
    scene.sync().await;
    assert_eq!(scene.durable(2).await, (51, 51));
    assert_eq!(scene.count(2).await, 51);
}

/// Two daemons, or a daemon and a command, with different limits.
#[tokio::test(flavor = "multi_thread")]
async fn a_partial_hash_becomes_full_when_it_is_small() {
    let scene = Scene::start(LIMIT).await;
    scene.liked(2, 50).await;
    assert!(scene.is_active(2, 7).await);
    let rig: &Rig = &scene;
    rig.configure("cache.full_load_limit = 100");
    rig.tallyd(&["warm", "--top", "1"]).await.expect_code(0);
    assert_eq!(scene.redis::<String>("HGET like:1:2 0").await, "partial", "all is known");
    let _: i64 = scene.redis("HDEL cnt:1:2 like").await;
    rig.tallyd(&["warm", "--top", "1"]).await.expect_code(0);
    assert_eq!(scene.redis::<String>("HGET like:1:2 0").await, "full");
    assert_eq!(scene.count(2).await, 50);
}
