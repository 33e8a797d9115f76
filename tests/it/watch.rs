//! `tallyd status --watch` where no terminal is.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Rig, Signal, eventually};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn looks_follow_one_another_until_interrupted() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    let (text, json) = (rig.spawn(&["status", "--watch"], &[]), rig.spawn(&["status", "--watch", "--json"], &[]));
    let twice = async || text.stdout().matches("tallyd ").count() >= 2 && json.stdout().lines().count() >= 2;
    eventually(LIMIT, twice, "both looked twice").await;
    for watching in [&text, &json] {
        watching.signal(Signal::INT);
    }
    let [text, json] = [text.output(LIMIT).await.expect_code(0), json.output(LIMIT).await.expect_code(0)];
    assert!(text.stdout.contains("\n\ntallyd ") && !text.stdout.contains('\x1b'), "{}", text.stdout);
    for line in json.stdout.lines() {
        let status: Value = serde_json::from_str(line).unwrap();
        assert_eq!(status["verdict"]["well"], true, "{status}");
    }
}
