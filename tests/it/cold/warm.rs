//! Loading the most active targets, by command and by the daemon.

use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Scene, id};
use crate::support::{PrivateMysql, PrivateRedis, Redis, Rig, create_database, eventually};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn the_command_loads_the_most_active_and_says_so() {
    let scene = Scene::start("cache.full_load_limit = 20").await;
    for (target, users) in [(1, 10), (2, 30), (3, 20), (4, 2)] {
        scene.liked(target, users).await;
    }
    scene.sql_exec("INSERT INTO interaction_count VALUES (1, 4, 4, 25, '2026-01-01'), (99, 5, 1, 1000, NOW())").await;
    let told = scene.tallyd(&["warm", "--top", "3"]).await.expect_code(0).stdout;
    assert_eq!(told, "loaded 3, already there 0\n");
    for (target, kept) in [(1, None), (2, Some("partial")), (3, Some("full")), (4, Some("full"))] {
        let found: Option<String> = scene.redis(&format!("HGET like:1:{target} 0")).await;
        assert_eq!(found.as_deref(), kept, "{target}");
    }
    assert_eq!(scene.redis::<i64>("HLEN like:1:3").await, 21);
    assert_eq!(scene.redis::<String>("HGET cnt:1:2 like").await, "30");
    assert_eq!(scene.redis::<String>("HGET cnt:1:4 view").await, "25");
    let told = scene.tallyd(&["warm", "--top", "100"]).await.expect_code(0).stdout;
    assert_eq!(told, "loaded 1, already there 3\n");
    scene.tallyd(&["warm"]).await.expect_code(2);
    scene.tallyd(&["warm", "--top", "0"]).await.expect_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_fails_when_a_server_is_away_or_a_target_cannot_be_loaded() {
    let scene = Scene::start("redis.timeout_ms = 200").await;
    scene.liked(1, 3).await;
    scene.liked(2, 2).await;
    let _: i64 = scene.redis("SADD dirty:1:inflight 1").await;
    let output = scene.tallyd(&["warm", "--top", "2"]).await.expect_code(1);
    assert!(output.stdout.starts_with("loaded 1, already there 0, 1 failed"), "{}", output.stdout);

    let nowhere = [
        ("TALLYD__REDIS__URL", "redis://127.0.0.1:1/0", "Redis"),
        ("TALLYD__MYSQL__URL", "mysql://root@127.0.0.1:1/x", "MySQL"),
    ];
    for (key, url, server) in nowhere {
        let output = scene.tallyd_with(&["warm", "--top", "2"], &[(key, url)]).await.expect_code(1);
        assert!(output.stderr.contains(server) && output.stderr.contains("127.0.0.1:1"), "{}", output.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_warms_at_start_once_both_servers_are_there() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("tallyd").await, "");
    let scene = Scene::of(rig).await;
    scene.liked(1, 3).await;
    mysql.stop().await;
    redis.stop().await;
    let served = scene.spawn(&["serve", "--no-schedule"], &[]);
    served.wait_for_log("admin listens on", SOON).await;
    redis.start_again().await;
    mysql.start_again().await;
    served.wait_for_log("the most active targets are loaded", SOON).await;
    assert_eq!(scene.redis::<String>("HGET cnt:1:1 like").await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_warms_again_after_a_restore_and_never_when_told_not_to() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = crate::support::create_database().await;
    let scene = Scene::of(Rig::on(&redis, &db, "")).await;
    scene.liked(1, 3).await;
    let (restored, stop) = (std::sync::Arc::new(Notify::new()), CancellationToken::new());
    let (live, heard, until) = (scene.live.clone(), restored.clone(), stop.clone());
    let warming = tokio::spawn(async move { live.keep_warm(&heard, &until).await });
    let loaded = async || scene.redis::<i64>("EXISTS cnt:1:1").await == 1;
    eventually(SOON, loaded, "a load at start").await;
    let _: String = scene.redis("FLUSHALL").await;
    restored.notify_one();
    eventually(SOON, loaded, "a load after a restore").await;
    assert_eq!(scene.live.counts(1, id(1)).await.unwrap().0[0], (1, 3));
    stop.cancel();
    tokio::time::timeout(SOON, warming).await.unwrap().unwrap();

    let redis = Redis::start().await;
    let never = Scene::of(Rig::on(&redis, &db, "cache.warm_top = 0")).await;
    let (restored, stop) = (Notify::new(), CancellationToken::new());
    restored.notify_one();
    // A reload may tell it to, later: it goes on, and does nothing.
    let warming = Box::pin(never.live.keep_warm(&restored, &stop));
    assert!(tokio::time::timeout(Duration::from_secs(1), warming).await.is_err());
    assert_eq!(never.redis::<i64>("DBSIZE").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_programs_keep_is_left_alone_until_it_is_asked_for() {
    let scene = Scene::start("").await;
    scene.liked(1, 3).await;
    let _: i64 = scene.redis("HSET like:1:1 1 1 2 1 3 1").await;
    let _: i64 = scene.redis("HSET cnt:1:1 like 5").await;
    scene.tallyd(&["warm", "--top", "1"]).await.expect_code(0);
    assert_eq!(scene.redis::<String>("HGET cnt:1:1 like").await, "5");
    assert_eq!(scene.redis::<String>("HGET cnt:1:1 collect").await, "0");
    assert_eq!(scene.redis::<i64>("HEXISTS like:1:1 0").await, 0);
    // A hash that is gone is loaded, whatever its count says.
    let _: i64 = scene.redis("DEL like:1:1").await;
    scene.tallyd(&["warm", "--top", "1"]).await.expect_code(0);
    assert_eq!(scene.redis::<String>("HGET like:1:1 0").await, "full");
    assert_eq!(scene.redis::<String>("HGET cnt:1:1 like").await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_stalls_for_a_moment_ends_nothing() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let scene = Scene::of(Rig::on(&redis, &db, "redis.timeout_ms = 200")).await;
    for target in 1..=20 {
        scene.liked(target, 3).await;
    }
    let _: String = scene.redis("CLIENT PAUSE 1500 WRITE").await;
    let output = scene.tallyd(&["warm", "--top", "20"]).await.expect_code(0);
    assert_eq!(output.stdout.trim(), "loaded 20, already there 0", "{}", output.stderr);
}
