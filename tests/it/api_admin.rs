//! Health, metrics, status, and runs on demand.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use serde_json::{Value, json};

use crate::support::{PrivateRedis, Rig, Served, create_database};

async fn served(rig: &Rig) -> Served {
    rig.serve(&["--no-schedule"]).await
}

/// A like as another program would record it.
async fn like(rig: &Rig, target: u64, user: u64) {
    let mut redis = rig.redis.connect().await;
    let state = format!("like:1:{target}");
    redis.hset::<_, _, _, ()>(&state, user, 1).await.unwrap();
    redis.hincr::<_, _, _, ()>(format!("cnt:1:{target}"), "like", 1).await.unwrap();
    redis.sadd::<_, _, ()>("dirty:1", target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_lives_and_says_what_it_is_doing() {
    let rig = Rig::start("").await;
    let served = served(&rig).await;
    let admin = &served.admin;
    admin.get("/healthz").await.expect(200);
    let status = admin.get("/status").await.expect(200).json();
    assert!(status["uptime_s"].is_u64(), "{status}");
    assert_eq!((&status["redis"]["up"], &status["mysql"]["up"]), (&json!(true), &json!(true)));
    assert_eq!(status["partitions"].as_array().unwrap().len(), 4);
    admin.get("/nowhere").await.expect_problem(404, "not-found");
    admin.get("/sync").await.expect_problem(405, "method-not-allowed");
    admin.post("/healthz", "").await.expect_problem(405, "method-not-allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_asked_for_and_may_be_waited_for() {
    let rig = Rig::start("").await;
    let served = served(&rig).await;
    let admin = &served.admin;
    like(&rig, 10086, 42).await;
    let report = admin.post("/sync?wait_seconds=60", "").await.expect(200).json();
    assert_eq!(
        (&report["outcome"], &report["trigger"], &report["targets"]),
        (&json!("done"), &json!("api"), &json!(1))
    );
    let rows = rig.sql("SELECT user_id, status FROM interaction_record").await;
    assert_eq!(rows, [[Some("42".to_owned()), Some("1".to_owned())]]);

    let started = admin.post("/sync", "").await.expect(202).json();
    let run_id = started["run_id"].as_str().unwrap().to_owned();
    assert_eq!(started.as_object().unwrap().len(), 1);
    let ran = async || rig.sql("SELECT run_id, caused_by FROM sync_run").await;
    let recorded = vec![Some(run_id), Some("api".to_owned())];
    crate::support::eventually(Duration::from_secs(30), async || ran().await.contains(&recorded), "it ran").await;

    for query in ["wait_seconds=301", "wait_seconds=-1", "wait_seconds=x", "wait=1"] {
        admin.post(&format!("/sync?{query}"), "").await.expect_problem(400, "malformed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_come_while_one_waits_share_a_run() {
    let rig = Rig::start("").await;
    let served = served(&rig).await;
    let asked = (0..20).map(|_| served.admin.post("/sync?wait_seconds=60", ""));
    let replies = futures::future::join_all(asked).await;
    let mut ids = BTreeSet::new();
    for reply in replies {
        ids.insert(reply.expect(200).json()["run_id"].as_str().unwrap().to_owned());
    }
    let runs = rig.sql("SELECT run_id FROM sync_run").await;
    assert_eq!(runs.len(), ids.len(), "every run that was promised took place, and no other");
    assert!(ids.len() < 20, "{}", ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn series_stay_few_whatever_is_asked_for() {
    let rig = Rig::start("").await;
    let served = served(&rig).await;
    let before = served.admin.get("/metrics").await.expect(200);
    assert_eq!(before.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let (api, admin) = (served.api(), &served.admin);
    let asked = (0..200).map(|n| async move {
        for m in 0..50 {
            let id = n * 50 + m;
            api.get(&format!("/v1/nothing/{id}")).await.expect(404);
            // Refused by its last id, so that no store is asked; ids, types and names are new each time.
            api.put(&format!("/v1/like/1/{}/users/0{id}", id + 1)).await.expect(422);
            if id % 10 == 0 {
                admin.get(&format!("/{id}")).await.expect(404);
            }
        }
    });
    let op = |target: u32| json!({"op": "set", "interaction": "like", "target_type": 1, "target_id": target, "user_id": target});
    let ops: Vec<Value> = (1..=1000).map(op).collect();
    api.post("/v1/batch", json!({ "ops": ops }).to_string()).await.expect(200);
    futures::StreamExt::collect::<Vec<()>>(futures::StreamExt::buffer_unordered(futures::stream::iter(asked), 16))
        .await;
    let after = served.admin.get("/metrics").await.expect(200);
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(&before.body), series(&after.body));
    assert!(series(&after.body) < 500, "{}", series(&after.body));
    let counted = "tallyd_http_requests_total{method=\"other\",route=\"other\",status=\"4xx\"} 10000";
    assert!(after.body.contains(counted), "{}", after.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_and_what_ran_is_shown() {
    let rig = Rig::start("").await;
    let served = served(&rig).await;
    let line = |text: &str, name: &str| -> Option<String> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))
    };
    like(&rig, 1, 42).await;
    like(&rig, 2, 42).await;
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert_eq!(line(&text, "tallyd_dirty_targets{target_type=\"note\"}").as_deref(), Some("2"), "{text}");
    assert_eq!(line(&text, "tallyd_oldest_change_seconds").as_deref(), Some("0.0"), "{text}");
    assert_eq!(line(&text, "tallyd_sync_runs_total{outcome=\"done\"}").as_deref(), Some("0"));

    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert_eq!(line(&text, "tallyd_dirty_targets{target_type=\"note\"}").as_deref(), Some("0"), "{text}");
    assert_eq!(line(&text, "tallyd_sync_runs_total{outcome=\"done\"}").as_deref(), Some("1"));
    assert_eq!(line(&text, "tallyd_sync_run_seconds_count").as_deref(), Some("1"));
    let rows: u64 = line(&text, "tallyd_sync_rows_total").unwrap().parse().unwrap();
    assert!(rows >= 2, "{rows}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_status_answer_while_redis_is_down() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    let served = served(&rig).await;
    let up = |text: &str| text.contains("tallyd_redis_up 1\n");
    assert!(up(&served.admin.get("/metrics").await.expect(200).body));
    redis.kill();
    let begun = Instant::now();
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(!up(&text) && !text.contains("tallyd_dirty_targets{"), "{text}");
    assert!(text.contains("tallyd_sync_runs_total"));
    let status: Value = served.admin.get("/status").await.expect(200).json();
    assert_eq!((&status["redis"]["up"], &status["breaker"]), (&json!(false), &json!("open")));
    redis.start_again().await;
    assert!(up(&served.admin.get("/metrics").await.expect(200).body));
}
