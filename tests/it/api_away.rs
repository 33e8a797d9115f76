//! What the API does while a server is away, hangs, or refuses writes.

use std::time::{Duration, Instant};

use crate::support::{PrivateMysql, PrivateRedis, Rig, Signal, create_database, eventually};

/// What is promised of an answer.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_hangs_holds_up_neither_what_is_loaded_nor_readiness() {
    let Some(mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = mysql.create_database("tallyd").await;
    let rig = Rig::on(&redis, &db, "mysql.timeout_ms = 3000");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api().clone();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    mysql.server().signal(Signal::STOP);
    let cold = (0..600).map(|target| {
        let api = api.clone();
        tokio::spawn(async move { api.get(&format!("/v1/like/note/{}", 1000 + target)).await })
    });
    let cold: Vec<_> = cold.collect();
    let begun = Instant::now();
    let mut user = 1;
    while begun.elapsed() < SOON {
        user += 1;
        let asked = Instant::now();
        let answer = api.put(&format!("/v1/like/note/1/users/{user}")).await.expect(200).json();
        assert_eq!(answer["count"], user.to_string());
        // Without room of their own they would take as long as those that wait for MySQL; six hundred clients that
        // connect at once take their time, too.
        assert!(asked.elapsed() < 2 * SOON, "{:?}", asked.elapsed());
    }
    for answer in cold {
        let answer = answer.await.unwrap().expect(503);
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    // Nobody queues up behind a MySQL that did not answer a moment ago.
    let asked = Instant::now();
    api.get("/v1/like/note/99999").await.expect(503);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    let asked = Instant::now();
    served.admin.get("/readyz").await.expect(200);
    served.admin.get("/status").await.expect(200);
    assert!(asked.elapsed() < 5 * SOON, "{:?}", asked.elapsed());
    mysql.server().signal(Signal::CONT);
    let loaded = async || api.get("/v1/like/note/99999").await.status == 200;
    eventually(Duration::from_secs(10), loaded, "a load after MySQL goes on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_while_mysql_takes_the_place_of_a_redis_that_refuses_writes() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let set = async |name: &str, value: &str| {
        let mut command = redis::cmd("CONFIG");
        let () = command.arg("SET").arg(name).arg(value).query_async(&mut redis.connect().await).await.unwrap();
    };
    let ready = async || served.admin.get("/readyz").await.expect(200).json()["status"].as_str().unwrap().to_owned();
    assert_eq!(ready().await, "ready");
    set("maxmemory", "1").await;
    assert_eq!(ready().await, "degraded");
    set("maxmemory", "0").await;
    assert_eq!(ready().await, "ready");
    let master = ["127.0.0.1", "1"];
    let () = redis::cmd("REPLICAOF").arg(&master).query_async(&mut redis.connect().await).await.unwrap();
    assert_eq!(ready().await, "degraded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_connection_is_made_anew_before_anybody_notices() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    let mut connection = redis.connect().await;
    for _ in 0..3 {
        let me: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await.unwrap();
        let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
        let killed: i64 = redis::cmd("CLIENT").arg(&kill).query_async(&mut connection).await.unwrap();
        assert!(killed > 0, "{me}");
        let back = async || {
            let answer = api.get("/v1/like/note/1").await;
            answer.status == 200 && answer.header("tallyd-source").is_none()
        };
        eventually(SOON, back, "an answer").await;
    }
    assert!(!served.daemon.log().contains("Redis is away"), "{}", served.daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_batches_do_not_knock_out_single_writes() {
    // It is about room, not about how fast a test machine is.
    let rig = Rig::start("redis.timeout_ms = 2000").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api().clone();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    let batches: Vec<_> = (1..=60)
        .map(|batch| {
            let api = api.clone();
            tokio::spawn(async move {
                let op = |user| {
                    format!(r#"{{"op":"set","interaction":"like","target_type":1,"target_id":1,"user_id":{user}}}"#)
                };
                let ops: Vec<String> = (0..1000).map(|n| op(batch * 10_000 + n)).collect();
                api.post("/v1/batch", format!(r#"{{"ops":[{}]}}"#, ops.join(","))).await
            })
        })
        .collect();
    let mut user = 1;
    while batches.iter().any(|batch| !batch.is_finished()) {
        user += 1;
        let answer = api.put(&format!("/v1/collect/note/1/users/{user}")).await.expect(200).json();
        assert_eq!(answer["changed"], true);
    }
    let mut done = 0;
    for batch in batches {
        done += u64::from(batch.await.unwrap().status == 200);
    }
    assert!(done > 0);
    let counts = api.get("/v1/targets/note/1").await.expect(200).json();
    assert_eq!(counts["counts"]["like"], (1 + done * 1000).to_string(), "what is refused has not happened");
    assert!(!served.daemon.log().contains("Redis is away"), "{}", served.daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_is_survived() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    served.daemon.signal(Signal::HUP);
    served.daemon.wait_for_log("SIGHUP: nothing has changed", Duration::from_secs(10)).await;
    served.admin.get("/healthz").await.expect(200);
}
