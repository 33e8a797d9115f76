//! Writes of many requests share calls to Redis, and each is answered for itself.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use serde_json::json;

use crate::support::{Http, PrivateRedis, Rig, Signal, create_database, eventually};

const USERS: usize = 64;

/// How many scripts Redis was asked to run.
async fn scripts(redis: &mut MultiplexedConnection) -> usize {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

/// All at once; who was the last to be counted was told so.
async fn all_at_once(api: &Http, first: usize) {
    let likes = (first..first + USERS).map(|user| async move {
        let reply = api.put(&format!("/v1/like/1/5/users/{user}")).await.expect(200).json();
        assert_eq!((&reply["changed"], &reply["active"]), (&json!(true), &json!(true)));
        reply["count"].as_str().unwrap().parse::<usize>().unwrap()
    });
    let mut counts = futures::future::join_all(likes).await;
    counts.sort_unstable();
    assert_eq!(counts, (first..first + USERS).collect::<Vec<_>>(), "each was told its own count");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_come_while_redis_is_busy_share_a_call() {
    let rig = Rig::start("redis.timeout_ms = 10000").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let (api, mut redis) = (served.api(), rig.redis.connect().await);
    let mut next = 1;
    // How many have come when Redis goes on is up to the machine.
    let few = async || {
        let before = scripts(&mut redis).await;
        let () = redis::cmd("CLIENT").arg(&["PAUSE", "300", "WRITE"]).query_async(&mut redis).await.unwrap();
        all_at_once(api, next).await;
        next += USERS;
        scripts(&mut redis).await - before <= USERS / 8
    };
    eventually(Duration::from_secs(30), few, "64 writes in at most 8 calls").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_for_one_does_not_fail_for_those_beside_it() {
    let rig = Rig::start("redis.timeout_ms = 10000").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let (api, mut redis) = (served.api(), rig.redis.connect().await);
    api.put("/v1/like/1/5/users/1").await.expect(200);
    // A list where a hash should be.
    let () = redis::cmd("RPUSH").arg(&["like:1:6", "x"]).query_async(&mut redis).await.unwrap();
    let () = redis::cmd("CLIENT").arg(&["PAUSE", "300", "WRITE"]).query_async(&mut redis).await.unwrap();
    let writes = (2..32).map(|user| async move {
        let (target, type_) = if user % 3 == 0 { (6, 1) } else { (5, 1 + user % 2) };
        (user, api.put(&format!("/v1/like/{type_}/{target}/users/{user}")).await)
    });
    for (user, reply) in futures::future::join_all(writes).await {
        reply.expect(if user % 3 == 0 { 503 } else { 200 });
    }
    for (type_, count) in [(1, "11"), (2, "10")] {
        let told = api.get(&format!("/v1/like/{type_}/5")).await.expect(200).json();
        assert_eq!(told, json!({"count": count}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_another_way_is_not_done_when_redis_wakes_up() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "degraded.probe_seconds = 1");
    let served = rig.serve(&[]).await;
    let api = served.api();
    api.put("/v1/like/1/5/users/1").await.expect(200);
    // What is sent now lies in its socket until it goes on.
    redis.server().signal(Signal::STOP);
    for reply in [api.put("/v1/like/1/5/users/2").await, api.delete("/v1/like/1/5/users/2").await] {
        assert_eq!(reply.expect(200).header("tallyd-source"), Some("mysql"));
    }
    redis.server().signal(Signal::CONT);
    let replayed = async || {
        let status = served.admin.get("/status").await.expect(200).json();
        status["breaker"] == "closed" && status["degraded"]["pending"] == 0
    };
    eventually(Duration::from_secs(30), replayed, "the cancel is replayed").await;
    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    assert_eq!(api.get("/v1/like/1/5/users/2").await.expect(200).json(), json!({"active": false}));
    let rows = rig.sql("SELECT user_id, status FROM interaction_record ORDER BY user_id").await;
    assert_eq!(rows, [["1", "1"], ["2", "0"]].map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
}
