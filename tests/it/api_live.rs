//! The API from end to end.

use serde_json::{Value, json};

use crate::support::{Http, PrivateMysql, PrivateRedis, Rig, Served};

const LARGEST: &str = "9223372036854775807";
/// A float would make it 9007199254740992.
const ODD: &str = "9007199254740993";

async fn served() -> (Rig, Served) {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    (rig, served)
}

async fn count(api: &Http, path: &str) -> Value {
    api.get(path).await.expect(200).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_set_asked_for_and_cancelled() {
    let (_rig, served) = served().await;
    let api = served.api();
    let state = "/v1/like/1/10086/users/42";
    assert_eq!(api.get(state).await.expect(200).json(), json!({"active": false}));
    for (changed, count) in [(true, "1"), (false, "1")] {
        let written = api.put(state).await.expect(200).json();
        assert_eq!(written, json!({"changed": changed, "active": true, "count": count}));
    }
    // By name as by code.
    assert_eq!(api.get("/v1/like/note/10086/users/42").await.expect(200).json(), json!({"active": true}));
    assert_eq!(count(api, "/v1/like/note/10086").await, json!({"count": "1"}));
    for changed in [true, false] {
        let written = api.delete(state).await.expect(200).json();
        assert_eq!(written, json!({"changed": changed, "active": false, "count": "0"}));
    }
    assert_eq!(api.delete("/v1/like/1/10086/users/43").await.expect(200).json()["changed"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_keep_every_digit() {
    let (rig, served) = served().await;
    let api = served.api();
    api.put(&format!("/v1/like/1/{LARGEST}/users/{ODD}")).await.expect(200);
    // As integers in a body.
    let ops = format!(
        "{{\"ops\":[{{\"op\":\"set\",\"interaction\":\"like\",\"target_type\":1,\"target_id\":{ODD},\"user_id\":{LARGEST}}}]}}"
    );
    assert_eq!(api.post("/v1/batch", ops).await.expect(200).json()["results"][0]["changed"], json!(true));
    let active = |target: &str, user: &str| format!("/v1/like/1/{target}/users/{user}");
    assert_eq!(api.get(&active(LARGEST, ODD)).await.json(), json!({"active": true}));
    assert_eq!(api.get(&active(LARGEST, "9007199254740992")).await.json(), json!({"active": false}));
    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    let rows = rig.sql("SELECT target_id, user_id FROM interaction_record ORDER BY target_id").await;
    assert_eq!(rows, [[ODD, LARGEST], [LARGEST, ODD]].map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
    let page = api.get(&format!("/v1/users/{LARGEST}/like")).await.expect(200).json();
    assert_eq!(page["targets"][0]["target_id"], json!(ODD));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_count_of_a_target_is_there_in_order() {
    let (_rig, served) = served().await;
    let api = served.api();
    api.put("/v1/collect/2/7/users/1").await.expect(200);
    api.put("/v1/collect/2/7/users/2").await.expect(200);
    let reply = api.get("/v1/targets/video/7").await.expect(200);
    assert_eq!(reply.body, r#"{"counts":{"like":"0","collect":"2","follow":"0","view":"0"}}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_applies_in_order_and_reports_each_operation() {
    let (_rig, served) = served().await;
    let api = served.api();
    let op = |op: &str, user: Value| json!({"op": op, "interaction": "like", "target_type": "note", "target_id": 5, "user_id": user});
    let ops = [
        op("set", json!(1)),
        op("cancel", json!("1")),
        op("set", json!(0)),
        op("set", json!("1")),
        op("set", json!(2)),
    ];
    let results = api.post("/v1/batch", json!({ "ops": ops }).to_string()).await.expect(200).json()["results"].clone();
    assert_eq!(results[0], json!({"changed": true, "active": true, "count": "1"}));
    assert_eq!(results[1], json!({"changed": true, "active": false, "count": "0"}));
    assert_eq!(results[2]["error"]["status"], json!(422));
    assert_eq!(results[3], json!({"changed": true, "active": true, "count": "1"}));
    assert_eq!(results[4], json!({"changed": true, "active": true, "count": "2"}));

    let item =
        |interaction: &str, target: u64| json!({"interaction": interaction, "target_type": 1, "target_id": target});
    let mut of_user = item("like", 5);
    of_user["user_id"] = json!("1");
    let items = [item("like", 5), of_user, item("love", 5), item("view", 999)];
    let results =
        api.post("/v1/query", json!({ "items": items }).to_string()).await.expect(200).json()["results"].clone();
    assert_eq!((&results[0], &results[1]), (&json!({"count": "2"}), &json!({"count": "2", "active": true})));
    assert_eq!(results[2]["error"]["type"], json!("urn:tallyd:problem:unknown-interaction"));
    assert_eq!(results[3], json!({"count": "0"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_counts_once_in_a_window() {
    let (_rig, served) = served().await;
    let api = served.api();
    let view =
        async |viewer: &str| api.post("/v1/view/2/7", json!({ "viewer": viewer }).to_string()).await.expect(200).json();
    assert_eq!(view("a").await, json!({"counted": true, "count": "1"}));
    assert_eq!(view("a").await, json!({"counted": false, "count": "1"}));
    assert_eq!(view(&"é".repeat(64)).await, json!({"counted": true, "count": "2"}));
    assert_eq!(count(api, "/v1/view/2/7").await, json!({"count": "2"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_acted_on_comes_in_pages_newest_first() {
    let (_rig, served) = served().await;
    let api = served.api();
    for target in 1..=5 {
        api.put(&format!("/v1/like/1/{target}/users/42")).await.expect(200);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    api.delete("/v1/like/1/3/users/42").await.expect(200);
    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    let mut path = "/v1/users/42/like?limit=3".to_owned();
    let mut found = Vec::new();
    for _ in 0..2 {
        let page = api.get(&path).await.expect(200).json();
        assert!(page["as_of"].as_str().unwrap().ends_with('Z'), "{page}");
        for target in page["targets"].as_array().unwrap() {
            assert_eq!(target["target_type"], json!(1));
            assert!(target["time"].as_str().unwrap().ends_with('Z'));
            found.push(target["target_id"].as_str().unwrap().to_owned());
        }
        path = format!("/v1/users/42/like?limit=3&after={}", page["next"].as_str().unwrap_or("none"));
    }
    assert!(path.ends_with("=none"), "{path}");
    assert_eq!(found, ["5", "4", "2", "1"]);
    let none = api.get("/v1/users/77/like").await.expect(200).json();
    assert_eq!((&none["targets"], &none["next"]), (&json!([]), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_counted_by_what_came_of_them() {
    let (_rig, served) = served().await;
    let api = served.api();
    api.put("/v1/like/1/1/users/1").await.expect(200);
    api.put("/v1/like/1/1/users/1").await.expect(200);
    api.post("/v1/view/1/1", "{\"viewer\":\"a\"}").await.expect(200);
    let text = served.admin.get("/metrics").await.expect(200).body;
    for line in [
        "tallyd_writes_total{interaction=\"like\",result=\"changed\"} 1",
        "tallyd_writes_total{interaction=\"like\",result=\"unchanged\"} 1",
        "tallyd_writes_total{interaction=\"view\",result=\"counted\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_while_one_server_takes_writes_and_the_schema_is_current() {
    let (Some(mut redis), Some(mut mysql)) = (PrivateRedis::start(&[]).await, PrivateMysql::start(&[]).await) else {
        return;
    };
    let db = mysql.create_database("tallyd").await;
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    served.admin.get("/readyz").await.expect(200);
    rig.sql_exec("DELETE FROM _sqlx_migrations ORDER BY version DESC LIMIT 1").await;
    let old = served.admin.get("/readyz").await.expect_problem(503, "unavailable");
    assert!(old.body.contains("tallyd migrate"), "{}", old.body);
    mysql.stop().await;
    served.admin.get("/readyz").await.expect(200);
    redis.kill();
    served.admin.get("/readyz").await.expect_problem(503, "unavailable");
    served.api().put("/v1/like/1/1/users/1").await.expect_problem(503, "unavailable");
    served.admin.get("/healthz").await.expect(200);
}
