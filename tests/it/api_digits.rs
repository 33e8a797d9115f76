//! Ids keep all their digits, wherever they go in and come out (hazard 18).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Http, Rig};

/// A float would make it 9007199254740992.
const ODD: &str = "9007199254740993";
const LARGEST: &str = "9223372036854775807";
/// What a loss of digits would turn them into.
const NEIGHBOURS: [&str; 3] = ["9007199254740992", "9007199254740994", "9223372036854775806"];
/// Target and user.
const PAIRS: [(&str, &str); 4] = [(ODD, ODD), (ODD, LARGEST), (LARGEST, ODD), (LARGEST, LARGEST)];

/// Requests are texts here: a test's own JSON library could lose digits as well.
fn op(target: &str, user: &str) -> String {
    format!(r#"{{"op":"set","interaction":"like","target_type":1,"target_id":{target},"user_id":{user}}}"#)
}

fn item(target: &str, user: &str) -> String {
    format!(r#"{{"interaction":"like","target_type":"note","target_id":{target},"user_id":{user}}}"#)
}

fn quoted(id: &str) -> String {
    format!("\"{id}\"")
}

async fn results(api: &Http, path: &str, of: &[String]) -> Vec<Value> {
    let key = if path == "/v1/batch" { "ops" } else { "items" };
    let reply = api.post(path, format!("{{\"{key}\":[{}]}}", of.join(","))).await.expect(200);
    reply.json()["results"].as_array().unwrap().clone()
}

async fn is_active(api: &Http, target: &str, user: &str) -> bool {
    let reply = api.get(&format!("/v1/like/note/{target}/users/{user}")).await.expect(200);
    reply.json() == json!({"active": true})
}

/// All targets in a user's list, a page of one after the other.
async fn listed(api: &Http, user: &str) -> BTreeSet<String> {
    let (mut found, mut after) = (BTreeSet::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/users/{user}/like?limit=1{after}")).await.expect(200).json();
        for target in page["targets"].as_array().unwrap() {
            assert!(found.insert(target["target_id"].as_str().unwrap().to_owned()), "twice: {target}");
        }
        let Some(next) = page["next"].as_str() else { return found };
        after = format!("&after={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_keep_every_digit_everywhere() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();

    // In, in three ways: a path, a string, an integer. The fourth comes in a path again.
    for ((target, user), way) in PAIRS.into_iter().zip(["path", "string", "integer", "path"]) {
        let written = match way {
            "path" => api.put(&format!("/v1/like/note/{target}/users/{user}")).await.expect(200).json(),
            "string" => results(api, "/v1/batch", &[op(&quoted(target), &quoted(user))]).await[0].clone(),
            _ => results(api, "/v1/batch", &[op(target, user)]).await[0].clone(),
        };
        assert_eq!((&written["changed"], &written["active"]), (&json!(true), &json!(true)), "{way}: {written}");
    }
    // It is the same state in the other ways.
    for (target, user) in PAIRS {
        for op in [op(&quoted(target), user), op(target, &quoted(user))] {
            assert_eq!(
                results(api, "/v1/batch", &[op]).await,
                [json!({"changed": false, "active": true, "count": "2"})]
            );
        }
    }

    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    for (target, user) in PAIRS {
        assert!(is_active(api, target, user).await);
        assert_eq!(api.get(&format!("/v1/like/note/{target}")).await.expect(200).json(), json!({"count": "2"}));
        let counts = api.get(&format!("/v1/targets/note/{target}")).await.expect(200).json();
        assert_eq!(counts["counts"]["like"], json!("2"));
        let known = json!({"count": "2", "active": true});
        let items = [item(target, user), item(&quoted(target), &quoted(user))];
        assert_eq!(results(api, "/v1/query", &items).await, [known.clone(), known]);
    }
    for neighbour in NEIGHBOURS {
        assert!(!is_active(api, neighbour, ODD).await && !is_active(api, LARGEST, neighbour).await, "{neighbour}");
        let nobody = json!({"count": "0", "active": false});
        assert_eq!(results(api, "/v1/query", &[item(neighbour, LARGEST)]).await, [nobody]);
        assert_eq!(listed(api, neighbour).await, BTreeSet::new());
    }
    let both = BTreeSet::from([ODD, LARGEST].map(str::to_owned));
    assert_eq!((listed(api, ODD).await, listed(api, LARGEST).await), (both.clone(), both));

    let rows = rig.sql("SELECT target_id, user_id, status FROM interaction_record ORDER BY 1, 2").await;
    let expected = PAIRS.map(|(target, user)| [target, user, "1"].map(|text| Some(text.to_owned())).to_vec());
    assert_eq!(rows, expected);
    let rows = rig.sql("SELECT target_id, count FROM interaction_count WHERE interaction_type = 1 ORDER BY 1").await;
    assert_eq!(rows, [ODD, LARGEST].map(|target| [target, "2"].map(|text| Some(text.to_owned())).to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_is_refused_everywhere() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    for bad in ["9223372036854775808", "18446744073709551617", "0", "-1", "-9223372036854775808"] {
        for (target, user) in [(bad, "1"), ("1", bad)] {
            let path = format!("/v1/like/note/{target}/users/{user}");
            for method in ["PUT", "DELETE", "GET"] {
                api.send(method, &path, &[], "").await.expect_problem(422, "invalid-id");
            }
            for (path, of) in [
                ("/v1/batch", [op(target, user), op(&quoted(target), &quoted(user))]),
                ("/v1/query", [item(target, user), item(&quoted(target), &quoted(user))]),
            ] {
                for result in results(api, path, &of).await {
                    assert_eq!(result["error"]["type"], json!("urn:tallyd:problem:invalid-id"), "{bad}: {result}");
                }
            }
        }
        for path in ["/v1/like/1/BAD", "/v1/targets/1/BAD", "/v1/users/BAD/like"] {
            api.get(&path.replace("BAD", bad)).await.expect_problem(422, "invalid-id");
        }
        api.post(&format!("/v1/view/1/{bad}"), r#"{"viewer":"a"}"#).await.expect_problem(422, "invalid-id");
    }
}
