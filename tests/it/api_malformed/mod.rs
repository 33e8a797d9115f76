//! Ten thousand requests that must be refused: none is answered 5xx, ends the process or changes anything.
//!
//! They are made at random, and the same at every run. `TALLYD_TEST_SEED` gives others, `TALLYD_TEST_CASES` more.

mod bodies;
mod heads;
mod requests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::fs;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use redis::AsyncCommands;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use self::requests::{Request, TOKEN};
use crate::support::{Connection, Http, Reply, Rig};

const CASES: u32 = 10_000;
const CONNECTIONS: u32 = 4;

/// How often each status was answered.
type Tally = BTreeMap<u16, u32>;

/// What an error may be: its status and the last word of its type.
const PROBLEMS: [(u16, &str); 8] = [
    (400, "malformed"),
    (401, "unauthorized"),
    (404, "unknown-interaction"),
    (404, "unknown-target-type"),
    (404, "not-found"),
    (405, "method-not-allowed"),
    (413, "too-large"),
    (422, "invalid-id"),
];

fn from_env(name: &str, default: u32) -> u32 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_malformed_requests_change_nothing() {
    let rig = Rig::start("").await;
    let file = rig.dir().join("tokens");
    fs::write(&file, TOKEN).unwrap();
    rig.configure(&format!("api.token_file = {:?}", file.display().to_string()));
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api().with_token(TOKEN);
    for path in ["/v1/like/1/10086/users/42", "/v1/collect/video/7/users/42"] {
        api.put(path).await.expect(200);
        served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    }
    // This waits for a run that does not come.
    api.put("/v1/like/1/10086/users/43").await.expect(200);
    api.post("/v1/view/1/10086", r#"{"viewer":"anna"}"#).await.expect(200);

    let before = everything(&rig).await;
    let (seed, cases) = (from_env("TALLYD_TEST_SEED", 1), from_env("TALLYD_TEST_CASES", CASES));
    let runs = (0..CONNECTIONS).map(|number| {
        let (api, handle) = (served.api().clone(), Handle::current());
        tokio::task::spawn_blocking(move || ask(&api, &handle, seed, number, cases / CONNECTIONS))
    });
    let mut tally = Tally::new();
    for run in futures::future::join_all(runs).await {
        let counted = run.unwrap().unwrap_or_else(|failed| panic!("TALLYD_TEST_SEED={seed}: {failed}"));
        for (status, times) in counted {
            *tally.entry(status).or_default() += times;
        }
    }
    let after = everything(&rig).await;
    for (what, before) in &before {
        assert_eq!(after.get(what), Some(before), "{what} has changed");
    }
    assert_eq!(before.len(), after.len(), "{:?}", after.keys());

    let log = served.log();
    assert!(served.is_running() && !log.contains("panicked") && !log.contains("ERROR"), "{log}");
    assert_eq!(api.get("/v1/like/1/10086").await.expect(200).json(), json!({"count": "2"}));
    println!("answers by status: {tally:?}");
    for status in [200, 204, 400, 401, 404, 405, 413, 422] {
        assert!(tally.get(&status).is_some_and(|times| *times >= cases / 1000), "{status} is too rare: {tally:?}");
    }
}

/// All keys of Redis and all tables of MySQL.
async fn everything(rig: &Rig) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut redis = rig.redis.connect().await;
    let mut all = BTreeMap::new();
    // The key with which the daemon tries whether Redis takes writes comes and goes.
    for key in redis.keys::<_, Vec<String>>("*").await.unwrap().into_iter().filter(|key| key != "lock:probe") {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
        all.insert(format!("the key {key}"), vec![dump]);
    }
    let keys = all.len();
    for table in rig.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()").await {
        let table = table[0].clone().unwrap();
        let rows = rig.sql(&format!("SELECT * FROM {table}")).await;
        let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| format!("{row:?}").into_bytes()).collect();
        rows.sort();
        all.insert(format!("the table {table}"), rows);
    }
    assert!(keys > 5 && all.len() > keys + 5, "{:?}", all.keys());
    all
}

/// Sends requests on one connection; the smallest one that is answered wrongly, if any.
fn ask(api: &Http, handle: &Handle, seed: u32, number: u32, cases: u32) -> Result<Tally, String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let state = RefCell::new((Connection::to(api), Tally::new()));
    let outcome = runner.run(&requests::malformed(), |request| {
        let (connection, tally) = &mut *state.borrow_mut();
        let reply = handle.block_on(connection.exchange(&request.bytes(), request.method == "HEAD"));
        let reply = reply.map_err(TestCaseError::fail)?;
        *tally.entry(reply.status).or_default() += 1;
        judge(&request, &reply).map_err(|wrong| TestCaseError::fail(format!("{wrong}, in {reply:?}")))
    });
    match outcome {
        Ok(()) => Ok(state.into_inner().1),
        Err(TestError::Fail(reason, request)) => Err(format!("{reason}\nof {request:?}")),
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

/// What is wrong with an answer.
fn judge(request: &Request, reply: &Reply) -> Result<(), String> {
    if reply.header("x-request-id").is_none_or(str::is_empty) {
        return Err("no X-Request-Id".to_owned());
    }
    if !request.statuses.contains(&reply.status) {
        return Err(format!("{} is not among {:?}", reply.status, request.statuses));
    }
    match reply.status {
        204 if reply.body.is_empty() && request.method == "OPTIONS" => return Ok(()),
        _ if request.method == "HEAD" => return Ok(()),
        _ => {}
    }
    let body: Value = serde_json::from_str(&reply.body).map_err(|error| error.to_string())?;
    if reply.status == 200 {
        let results = body["results"].as_array().ok_or("neither an error nor results")?;
        return results.iter().try_for_each(|result| problem(&result["error"], None));
    }
    if reply.header("content-type") != Some("application/problem+json") {
        return Err("not a problem".to_owned());
    }
    if body["title"].as_str().is_none_or(str::is_empty) {
        return Err("no title".to_owned());
    }
    problem(&body, Some(reply.status))
}

fn problem(body: &Value, status: Option<u16>) -> Result<(), String> {
    let known = PROBLEMS
        .iter()
        .find(|(of, name)| body["type"] == json!(format!("urn:tallyd:problem:{name}")) && body["status"] == json!(of));
    match known {
        None => Err(format!("{body} is not a documented error")),
        Some((of, _)) if status.is_some_and(|status| status != *of) => Err("another status in the body".to_owned()),
        Some(_) if body["detail"].as_str().is_none_or(str::is_empty) => Err("no detail".to_owned()),
        Some(_) => Ok(()),
    }
}
