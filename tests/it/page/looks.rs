//! How the page looks in a browser: it fits, it can be read, and it asks nobody else for anything.

use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

use crate::support::{Browser, PrivateMysql, PrivateRedis, Rig, Served};

const CONTRAST: &str = include_str!("contrast.js");

/// The folder that pictures of every look go to.
const PICTURES: &str = "TALLYD_TEST_PICTURES";

/// Runs of several sizes, a pass that repaired something, and a backlog.
async fn work(rig: &Rig, served: &Served) {
    for users in [1..4, 4..40, 40..42, 42..60, 60..61, 61..90] {
        let op = |user| json!({ "op": "set", "interaction": "like", "target_type": 1, "target_id": user % 7 + 1, "user_id": user });
        let ops: Vec<Value> = users.map(op).collect();
        served.api().post("/v1/batch", json!({ "ops": ops }).to_string()).await.expect(200);
        served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    }
    rig.sql_exec("UPDATE interaction_count SET count = count + 5 WHERE target_id = 3").await;
    rig.tallyd(&["reconcile", "--all"]).await.expect_code(0);
    for (kind, target) in [("note", 1), ("note", 9), ("video", 5)] {
        served.api().put(&format!("/v1/like/{kind}/{target}/users/7777")).await.expect(200);
    }
}

/// A run that failed, with figures and an error of some length.
async fn fail(rig: &Rig) {
    let report = json!({
        "run_id": "0193", "started_at": "2038-01-01T00:00:00.000Z", "outcome": "partial", "trigger": "schedule",
        "changes": 123_456_789, "rows_written": 123_456_789, "rejected": 12, "left": 12_345, "duration_ms": 1_234,
        "partitions": [{ "target_type": 1, "shard": 0, "outcome": "failed", "error": "x".repeat(300) }],
    });
    rig.sql_exec(&format!(
        "INSERT INTO sync_run (run_id, caused_by, owner, started_at, duration_ms, outcome, retries, report) \
         VALUES ('0193', 'schedule', 'x', '2038-01-01', 1, 'partial', 0, '{report}')"
    ))
    .await;
}

/// For whoever changes the styles: nothing, unless they ask for it.
pub(super) async fn keep_picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = env::var_os(PICTURES) {
        let picture = browser.picture().await;
        fs::write(Path::new(&folder).join(format!("{name}.png")), picture).unwrap();
    }
}

/// The page fits and can be read in every look, and asks nobody else for anything.
pub(super) async fn assert_legible(browser: &mut Browser, served: &Served, name: &str) {
    let origin = format!("http://{}/", served.admin.address);
    for (width, height) in [(390, 844), (1200, 800)] {
        for scheme in ["light", "dark"] {
            let look = format!("{name}-{width}-{scheme}");
            browser.look(width, height, scheme).await;
            browser.open(&origin).await;
            keep_picture(browser, &look).await;
            let wide = browser.evaluate("document.documentElement.scrollWidth").await;
            assert_eq!(wide, Some(json!(width)), "{look}: it scrolls sideways");
            let least = browser.evaluate(CONTRAST).await.unwrap();
            assert!(least[0].as_f64().unwrap() >= 4.5, "{look}: {least}");
            let behind = browser.evaluate("getComputedStyle(document.body).backgroundColor").await.unwrap();
            assert_eq!(behind == "rgb(22, 24, 28)", scheme == "dark", "{look}: {behind}");
        }
    }
    assert!(browser.complaints().is_empty(), "{name}: {:?}", browser.complaints());
    let elsewhere: Vec<String> = browser.requests().into_iter().filter(|url| !url.starts_with(&origin)).collect();
    assert!(elsewhere.is_empty(), "{name}: {elsewhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fits_and_can_be_read_on_phone_and_desktop_by_day_and_night() {
    let Some(mut browser) = Browser::start().await else { return };
    let long = "a_name_as_long_as_names_are_let_";
    let target = |(name, code)| format!("[[target]]\nname = {name:?}\ncode = {code}\n");
    let targets = [("note", 1), ("video", 2), (long, 65535)].map(target).concat();
    let rig = Rig::start(&format!("reconcile.stop_percent = 100.0\n{targets}")).await;
    let served = rig.serve(&["--no-schedule"]).await;
    assert_legible(&mut browser, &served, "new").await;
    work(&rig, &served).await;
    served.api().put(&format!("/v1/like/{long}/9223372036854775807/users/42")).await.expect(200);
    assert_legible(&mut browser, &served, "well").await;
    fail(&rig).await;
    assert_legible(&mut browser, &served, "failed").await;
    browser.wait_for("The last run is partial").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_which_server_is_down() {
    let Some(mut browser) = Browser::start().await else { return };
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("page").await, "reconcile.stop_percent = 100.0");
    let served = rig.serve(&["--no-schedule"]).await;
    work(&rig, &served).await;
    redis.kill();
    assert_legible(&mut browser, &served, "redis-down").await;
    browser.wait_for("Redis is down; writes go to MySQL").await;
    mysql.kill();
    assert_legible(&mut browser, &served, "both-down").await;
    for words in ["Redis is down", "MySQL is down; writes are refused", "cannot be reached"] {
        browser.wait_for(words).await;
    }
    redis.start_again().await;
    assert_legible(&mut browser, &served, "mysql-down").await;
    browser.wait_for("MySQL is down; nothing is synced").await;
}
