//! What the API refuses, and how it says so.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Rig, Served};

const STATE: &str = "/v1/like/1/10086/users/42";

async fn served(extra: &str) -> (Rig, Served) {
    let rig = Rig::start(extra).await;
    let served = rig.serve(&["--no-schedule"]).await;
    (rig, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_that_do_not_exist() {
    let (_rig, served) = served("").await;
    let api = served.api();
    for path in ["/", "/v1", "/v1/", "/v2/like/1/1", "/v1/like/1/1/", "/v1/like/1/1/users", "/metrics", "/%00"] {
        api.get(path).await.expect_problem(404, "not-found");
    }
    for (method, path, allow) in [
        ("POST", STATE, "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("TRACE", STATE, "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("PATCH", "/v1/like/1/1", "GET, HEAD, OPTIONS, POST"),
        ("DELETE", "/v1/targets/1/1", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/batch", "OPTIONS, POST"),
        ("GET", "/v1/query", "OPTIONS, POST"),
        ("PUT", "/v1/users/1/like", "GET, HEAD, OPTIONS"),
        ("BREW", "/openapi.json", "GET, HEAD, OPTIONS"),
        // By what the interaction is.
        ("PUT", "/v1/view/1/1/users/1", "OPTIONS"),
        ("DELETE", "/v1/view/1/1/users/1", "OPTIONS"),
        ("GET", "/v1/view/1/1/users/1", "OPTIONS"),
        ("GET", "/v1/users/1/view", "OPTIONS"),
        ("POST", "/v1/like/1/1", "GET, HEAD, OPTIONS"),
    ] {
        let reply = api.send(method, path, &[], "").await.expect_problem(405, "method-not-allowed");
        let mut listed: Vec<&str> = reply.header("allow").unwrap().split(", ").collect();
        listed.sort_unstable();
        assert_eq!(listed.join(", "), allow, "{method} {path}");
    }
    let options = api.send("OPTIONS", STATE, &[], "").await.expect(204);
    assert!(options.header("allow").unwrap().contains("PUT"));
    let head = api.send("HEAD", "/openapi.json", &[], "").await.expect(200);
    assert!(head.body.is_empty() && head.header("x-request-id").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn interaction_comes_before_target_type_and_both_before_ids() {
    let (_rig, served) = served("").await;
    let api = served.api();
    for (path, status, name) in [
        ("/v1/love/9/0/users/0", 404, "unknown-interaction"),
        ("/v1/like/9/0/users/0", 404, "unknown-target-type"),
        ("/v1/like/1/0/users/42", 422, "invalid-id"),
        ("/v1/like/note/1/users/01", 422, "invalid-id"),
        ("/v1/love/9/0", 404, "unknown-interaction"),
        ("/v1//9/0", 404, "unknown-interaction"),
        ("/v1/like/9/0", 404, "unknown-target-type"),
        ("/v1/view/1/0", 422, "invalid-id"),
        ("/v1/targets/9/0", 404, "unknown-target-type"),
        ("/v1/targets/user/0", 422, "invalid-id"),
        ("/v1/users/0/love", 404, "unknown-interaction"),
        ("/v1/users/0/like?limit=0", 422, "invalid-id"),
        ("/v1/users/1/like?limit=0", 400, "malformed"),
        ("/v1/users/1/like?limit=201", 400, "malformed"),
        ("/v1/users/1/like?limit=-1", 400, "malformed"),
        ("/v1/users/1/like?limit=", 400, "malformed"),
        ("/v1/users/1/like?limit=1&limit=2", 400, "malformed"),
        ("/v1/users/1/like?after=", 400, "malformed"),
        ("/v1/users/1/like?after=nonsense", 400, "malformed"),
        ("/v1/users/1/like?page=2", 400, "malformed"),
        ("/v1/%FF/1/1", 400, "malformed"),
    ] {
        api.get(path).await.expect_problem(status, name);
    }
    for id in ["9223372036854775808", "0", "-1", "1.5", "01", "%2B1", "1e3", "abc", "%20"] {
        for path in [format!("/v1/like/1/{id}/users/42"), format!("/v1/like/1/10086/users/{id}")] {
            api.put(&path).await.expect_problem(422, "invalid-id");
        }
    }
    let detail = api.put("/v1/like/1/10086/users/0").await.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("user_id: ") && detail.contains("9223372036854775807"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_malformed_fail_as_a_whole() {
    let (_rig, served) = served("").await;
    let api = served.api();
    let good = json!({"op": "set", "interaction": "like", "target_type": 1, "target_id": "1", "user_id": 0});
    let with = |key: &str, value: Value| {
        let mut op = good.clone();
        op[key] = value;
        json!({"ops": [good, op]}).to_string()
    };
    let without = json!({"ops": [{"op": "set", "interaction": "like", "target_type": 1, "target_id": "1"}]});
    let nested = "[".repeat(100_000);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"ops\":{}}",
        "{\"ops\":[1]}",
        "{\"ops\":[],\"ops\":[]}",
        "{\"ops\":[],\"dry\":true}",
        &with("extra", json!(1)),
        &with("op", json!("flip")),
        &with("interaction", json!(1)),
        &with("target_id", json!(null)),
        &with("target_type", json!([1])),
        &without.to_string(),
        &nested,
    ] {
        api.post("/v1/batch", body).await.expect_problem(400, "malformed");
    }
    for body in [
        "{\"items\":[{}]}",
        "{\"ops\":[]}",
        "{\"items\":[{\"interaction\":\"like\",\"target_type\":1,\"target_id\":1,\"user_id\":null}]}",
    ] {
        api.post("/v1/query", body).await.expect_problem(400, "malformed");
    }
    let long = json!({"viewer": "é".repeat(65)}).to_string();
    for body in ["", "{}", "{\"viewer\":\"\"}", "{\"viewer\":7}", "{\"viewer\":\"a\",\"user\":1}", &long] {
        api.post("/v1/view/1/1", body).await.expect_problem(400, "malformed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_and_items_are_refused_one_by_one() {
    let (_rig, served) = served("").await;
    let api = served.api();
    let cases = [
        ("love", json!(1), json!("1"), json!("1"), 404, "unknown-interaction"),
        ("view", json!(1), json!("1"), json!("1"), 405, "method-not-allowed"),
        ("like", json!("podcast"), json!("1"), json!("1"), 404, "unknown-target-type"),
        ("like", json!(1.0), json!("1"), json!("1"), 404, "unknown-target-type"),
        ("like", json!("note"), json!(0), json!("1"), 422, "invalid-id"),
        ("like", json!("1"), json!("1"), json!("01"), 422, "invalid-id"),
        ("like", json!(1), json!(1.5), json!("1"), 422, "invalid-id"),
        ("like", json!(1), json!(1), json!(9_223_372_036_854_775_808_u64), 422, "invalid-id"),
    ];
    let ops: Vec<Value> = cases
        .iter()
        .map(|(interaction, target_type, target, user, ..)| {
            json!({"op": "cancel", "interaction": interaction, "target_type": target_type, "target_id": target, "user_id": user})
        })
        .collect();
    let items: Vec<Value> = ops
        .iter()
        .map(|op| {
            let mut item = op.clone();
            item.as_object_mut().unwrap().remove("op");
            item
        })
        .collect();
    for (path, body) in [("/v1/batch", json!({ "ops": ops })), ("/v1/query", json!({ "items": items }))] {
        let results = api.post(path, body.to_string()).await.expect(200).json()["results"].clone();
        assert_eq!(results.as_array().unwrap().len(), cases.len());
        for ((.., status, name), result) in cases.iter().zip(results.as_array().unwrap()) {
            let error = &result["error"];
            assert_eq!(
                (&error["status"], &error["type"]),
                (&json!(status), &json!(format!("urn:tallyd:problem:{name}")))
            );
            assert!(error["detail"].is_string() && error.as_object().unwrap().len() == 3, "{error}");
        }
    }
    assert_eq!(api.post("/v1/batch", "{\"ops\":[]}").await.expect(200).json(), json!({"results": []}));
    assert_eq!(api.post("/v1/query", "{\"items\":[]}").await.expect(200).json(), json!({"results": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_thousand_or_a_mebibyte_is_too_large() {
    let (_rig, served) = served("").await;
    let api = served.api();
    // Bad ids, so that no store is asked.
    let op = json!({"op": "set", "interaction": "like", "target_type": 1, "target_id": 0, "user_id": 0});
    let item = json!({"interaction": "like", "target_type": 1, "target_id": 0});
    for (path, key, one) in [("/v1/batch", "ops", op), ("/v1/query", "items", item)] {
        let many = |n: usize| json!({ key: vec![one.clone(); n] }).to_string();
        assert_eq!(api.post(path, many(1000)).await.expect(200).json()["results"].as_array().unwrap().len(), 1000);
        api.post(path, many(1001)).await.expect_problem(413, "too-large");
        api.post(path, " ".repeat((1 << 20) + 1)).await.expect_problem(413, "too-large");
        api.post(path, " ".repeat(1 << 20)).await.expect_problem(400, "malformed");
    }
    // Nothing of it has to be sent to be refused.
    let announced = "POST /v1/batch HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\nexpect: 100-continue\r\n\r\n";
    api.exchange(announced.as_bytes()).await.expect_problem(413, "too-large");
    // Of unknown length.
    let mut chunked = b"POST /v1/batch HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..33 {
        chunked.extend(format!("8000\r\n{}\r\n", " ".repeat(0x8000)).as_bytes());
    }
    api.exchange(&chunked).await.expect_problem(413, "too-large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_needed_before_anything_else_is_said() {
    let rig = Rig::start("").await;
    let file = rig.dir().join("tokens");
    fs::write(&file, "new-token\nold-token\n").unwrap();
    rig.configure(&format!(
        "api.token_file = {:?}\nadmin.token_file = {:?}",
        file.display().to_string(),
        file.display().to_string()
    ));
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    for path in ["/", "/openapi.json", "/v1/love/1/1", STATE] {
        api.get(path).await.expect_problem(401, "unauthorized");
        api.with_token("new-toke").get(path).await.expect_problem(401, "unauthorized");
    }
    api.send("BREW", "/v1/batch", &[], "").await.expect_problem(401, "unauthorized");
    api.send("GET", "/", &[("authorization", "Basic bmV3LXRva2Vu")], "").await.expect_problem(401, "unauthorized");
    for token in ["new-token", "old-token"] {
        api.with_token(token).get("/").await.expect_problem(404, "not-found");
        let document = api.with_token(token).get("/openapi.json").await.expect(200).json();
        assert_eq!(document["security"], json!([{"token": []}]));
    }

    served.admin.get("/healthz").await.expect(200);
    served.admin.get("/metrics").await.expect(200);
    served.admin.post("/sync", "").await.expect_problem(401, "unauthorized");
    served.admin.with_token("old-token").post("/sync", "").await.expect(202);
    let log = served.log();
    assert!(!log.contains("new-token") && !log.contains("old-token"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_a_request_id() {
    let (_rig, served) = served("").await;
    for http in [served.api(), &served.admin] {
        for path in ["/nowhere", "/openapi.json", "/healthz"] {
            let sane = "x".repeat(128);
            let reply = http.send("GET", path, &[("x-request-id", &sane)], "").await;
            assert_eq!(reply.header("x-request-id"), Some(sane.as_str()));
            let mut seen = Vec::new();
            for given in ["", "a b", &"x".repeat(129), "é"] {
                let reply = http.send("GET", path, &[("x-request-id", given)], "").await;
                let id = reply.header("x-request-id").unwrap().to_owned();
                assert!(id != given && !seen.contains(&id), "{given}: {id}");
                seen.push(id);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_of_this_api() {
    let (_rig, served) = served("[[interaction]]\nname = \"clap\"\ncode = 7").await;
    let reply = served.api().get("/openapi.json").await.expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let document = reply.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    let route = &document["paths"]["/v1/{interaction}/{target_type}/{target_id}/users/{user_id}"];
    assert_eq!(route["put"]["parameters"][0]["schema"]["enum"], json!(["clap"]));
    assert!(document["paths"].as_object().unwrap().len() == 7 && document.get("security").is_none());
}
