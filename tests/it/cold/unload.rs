//! Targets that nobody used for a while leave Redis, if MySQL has all that Redis has.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Scene, id};
use crate::support::{PrivateMysql, PrivateRedis, Redis, Rig, Signal, create_database, eventually, sequence};

const SOON: Duration = Duration::from_secs(20);
const IDLE: &str = "cache.idle_seconds = 1\ncache.warm_top = 0\nlog.level = \"debug\"";

async fn gone(scene: &Scene, target: i64) {
    let key = format!("EXISTS cnt:1:{target} like:1:{target} collect:1:{target}");
    let gone = async || scene.redis::<i64>(&key).await == 0;
    eventually(SOON, gone, format!("{target} is unloaded")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_targets_go_and_come_back_and_those_that_must_not_go_stay() {
    let scene = Scene::start(IDLE).await;
    for target in 1..=9 {
        scene.liked(target, target + 1).await;
    }
    for target in 1..=8 {
        scene.count(target).await;
    }
    for command in [
        "SADD dirty:1 2",
        "SADD dirty:1:inflight 3",
        "SADD dirty:1:inflight:done 4",
        "SET lock:1:5 somebody",
        "HINCRBY cnt:1:7 view 1",
        "HDEL cnt:1:8 .seen",
    ] {
        let _: redis::Value = scene.redis(command).await;
    }
    scene
        .sql_exec(
            "INSERT INTO sync_rejected (target_type, mark, reason, detail, run_id, first_seen, last_seen) \
             VALUES (1, 'like:6:1', 'refused', '', '', NOW(), NOW()), (1, 'like:60:1', 'refused', '', '', NOW(), NOW()), \
             (2, 'like:1:1', 'refused', '', '', NOW(), NOW())",
        )
        .await;
    let served = scene.serve(&["--no-schedule"]).await;
    gone(&scene, 1).await;
    // One that is idle later: passes have looked at all the others since.
    scene.count(9).await;
    gone(&scene, 9).await;
    for target in 2..=8 {
        assert_eq!(scene.redis::<i64>(&format!("EXISTS cnt:1:{target} like:1:{target}")).await, 2, "{target}");
    }
    assert_eq!(scene.count(1).await, 2, "a read loads it again");
    assert!(scene.is_active(9, 10).await);
    served.wait_for_log("targets that were idle are unloaded", SOON).await;
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    let line = metrics.lines().find(|line| line.starts_with("tallyd_unloaded_targets_total ")).unwrap();
    assert!(line.rsplit(' ').next().unwrap().parse::<u64>().unwrap() >= 2, "{line}");
    // What held them is over.
    let _: i64 = scene.redis("DEL dirty:1 dirty:1:inflight dirty:1:inflight:done lock:1:5").await;
    scene.sql_exec("DELETE FROM sync_rejected; INSERT INTO interaction_count VALUES (1, 7, 4, 1, NOW())").await;
    for target in 2..=7 {
        gone(&scene, target).await;
    }
    assert_eq!(scene.redis::<i64>("EXISTS cnt:1:8").await, 1, "other programs do not say when they used it");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_during_a_restore_or_while_mysql_is_away() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let redis = Redis::start().await;
    let scene = Scene::of(Rig::on(&redis, &mysql.create_database("tallyd").await, IDLE)).await;
    scene.liked(1, 2).await;
    scene.liked(2, 2).await;
    scene.count(1).await;
    let _: String = scene.redis("SET restoring:1 5.0").await;
    let _: i64 = scene.redis("HSET cnt:2:9 .seen 1").await;
    let served = scene.serve(&["--no-schedule"]).await;
    let other = async || scene.redis::<i64>("EXISTS cnt:2:9").await == 0;
    eventually(SOON, other, "the pass has come to another partition").await;
    let _: i64 = scene.redis("HSET cnt:2:9 .seen 1").await;
    eventually(SOON, other, "another pass").await;
    assert_eq!(scene.redis::<i64>("EXISTS cnt:1:1").await, 1);
    mysql.stop().await;
    let _: i64 = scene.redis("DEL restoring:1").await;
    served.wait_for_log("idle targets stay for now", SOON).await;
    assert_eq!(scene.redis::<i64>("EXISTS cnt:1:1").await, 1);
    mysql.start_again().await;
    gone(&scene, 1).await;
}

/// What happens between the look for idle targets and their unloading.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_stays_when_anything_moves_after_it_was_found_idle() {
    let scene = Scene::start("").await;
    let store = scene.context.store().await.unwrap();
    let partition = store.keys().partition(1, id(1));
    for (number, between) in [
        "SADD dirty:1 1",
        "SADD dirty:1:inflight 1",
        "SADD dirty:1:inflight:done 1",
        "SET lock:1:1 somebody",
        "SET ckpt:1 7.5",
        "SET restoring:1 7.0",
        "HSET cnt:1:1 .seen 99999999999999",
        "HDEL cnt:1:1 .seen",
        "HINCRBY cnt:1:1 view 1",
        "PING",
    ]
    .into_iter()
    .enumerate()
    {
        let _: redis::Value = scene.redis("FLUSHALL").await;
        let _: redis::Value = scene.redis("SET ckpt:1 7.4").await;
        for target in [1, 2] {
            assert_eq!(scene.count(target).await, 0);
            scene.set(target, 1, true).await;
        }
        let _: i64 = scene.redis("DEL dirty:1 chg:1").await;
        let _: i64 = scene.redis("HSET cnt:1:1 .seen 5").await;
        let idle = store.idle(partition, &[id(1), id(2)], Duration::from_mins(1)).await.unwrap();
        assert_eq!(idle.targets, [id(1)]);
        let _: redis::Value = scene.redis(between).await;
        let gone = store.unload(&idle, &BTreeMap::new()).await.unwrap();
        assert_eq!(gone, u64::from(number == 9), "{between}");
        assert_eq!(scene.redis::<i64>("EXISTS like:1:1").await == 0, number == 9, "{between}");
        assert_eq!(scene.redis::<i64>("EXISTS cnt:1:2 like:1:2").await, 2);
    }
}

/// `TALLYD_TEST_IDLE_TARGETS=1000000` for a trial of its own.
#[tokio::test(flavor = "multi_thread")]
async fn memory_falls_when_targets_are_idle_and_nothing_is_lost() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let targets: i64 = std::env::var("TALLYD_TEST_IDLE_TARGETS").map_or(2000, |text| text.parse().unwrap());
    let all = sequence(targets);
    let limit = Duration::from_secs(20 + u64::try_from(targets).unwrap() / 500);
    let scene = Scene::of(Rig::on(&redis, &db, IDLE)).await;
    scene
        .sql_exec(&format!(
            "INSERT INTO interaction_record SELECT 1, t.seq, 1, u.seq, 1, '2026-01-01', '2026-01-01' \
               FROM {all} t, {} u; \
             INSERT INTO interaction_count SELECT 1, t.seq, 1, 5, '2026-01-01' FROM {all} t",
            sequence(5)
        ))
        .await;
    let used = async || {
        let info: String = scene.redis("INFO memory").await;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        used.trim().parse::<u64>().unwrap()
    };
    // What scripts and connections take, they take from now on.
    let empty = async || scene.redis::<i64>("DBSIZE").await == 0;
    scene.tallyd(&["warm", "--top", "1"]).await.expect_code(0);
    let served = scene.serve(&["--no-schedule"]).await;
    eventually(SOON, empty, "one is unloaded").await;
    served.signal(Signal::TERM);
    served.wait(SOON).await;
    let before = used().await;
    let warm = async || scene.spawn(&["warm", "--top", &targets.to_string()], &[]).output(limit).await.expect_code(0);
    warm().await;
    let (loaded, full) = (scene.redis::<i64>("DBSIZE").await, used().await);
    assert_eq!(loaded, 4 * targets);
    let begun = std::time::Instant::now();
    let served = scene.serve(&["--no-schedule"]).await;
    eventually(limit, empty, "all are unloaded").await;
    let took = begun.elapsed();
    served.signal(Signal::TERM);
    served.wait(SOON).await;
    let freed = async || used().await < before + (full - before) / 10;
    eventually(SOON, freed, "the memory is free").await;
    println!("{targets} targets: {before} bytes before, {full} loaded, {} after {took:?}", used().await);
    for target in [1, targets / 2, targets] {
        assert_eq!(scene.count(target).await, 5);
        assert!(scene.is_active(target, 5).await && !scene.is_active(target, 6).await);
    }
    warm().await;
    let mut redis = scene.rig.redis.connect().await;
    let all: Vec<i64> = (1..=targets).collect();
    for some in all.chunks(1000) {
        let mut pipe = redis::pipe();
        for target in some {
            pipe.hget(format!("cnt:1:{target}"), "like").hgetall(format!("like:1:{target}"));
        }
        let answers: Vec<(i64, BTreeMap<String, String>)> = pipe.query_async(&mut redis).await.unwrap();
        let state = |user: &str, state: &str| (user.to_owned(), state.to_owned());
        let states: BTreeMap<_, _> = ["1", "2", "3", "4", "5"].map(|user| state(user, "1")).into();
        for (count, mut found) in answers {
            assert_eq!(found.remove("0").as_deref(), Some("full"));
            assert_eq!((count, &found), (5, &states));
        }
    }
}
