//! A default log is for people: one line a run, one line a change of the breaker, none a request.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use super::SOON;
use crate::support::{PrivateRedis, Rig, create_database, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn one_line_a_run_one_a_change_of_the_breaker_none_a_request() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "sync.cron = \"0 0 1 1 *\"\ndegraded.probe_seconds = 1");
    let served = rig.serve(&[]).await;
    served.wait_for_log("ready: Redis takes writes", SOON).await;
    let quiet = served.log();
    for user in 1..=50 {
        served.api().put(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
        served.api().get(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
    }
    served.api().get("/nowhere").await.expect(404);
    served.api().put("/v1/like/note/0/users/1").await.expect(422);
    assert_eq!(served.log(), quiet, "requests are not logged");

    let run = served.admin.post("/sync?wait_seconds=60", "").await.expect(200).json();
    assert_eq!(run["outcome"], "done");
    let lines = |served: &str, part: &str| served.lines().filter(|line| line.contains(part)).count();
    let log = served.log();
    let news: Vec<&str> = log[quiet.len()..].lines().collect();
    assert_eq!(news.len(), 1, "one line a run: {news:?}");
    for figure in ["outcome=\"done\"", "trigger=\"api\"", "changes=50", "rows_written=51", "duration_ms="] {
        assert!(news[0].contains(figure), "{figure} is not in {}", news[0]);
    }
    // Nothing to do, nothing to say.
    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    assert_eq!(served.log(), log);

    redis.kill();
    for user in 51..=100 {
        served.api().put(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
    }
    served.wait_for_log("breaker open", SOON).await;
    redis.start_again().await;
    served.wait_for_log("breaker closed", SOON).await;
    let settled = async || served.api().get("/v1/like/note/10086").await.header("tallyd-source").is_none();
    eventually(Duration::from_secs(30), settled, "Redis answers again").await;
    let log = served.log();
    for (part, number) in [("breaker open", 1), ("Redis takes writes again", 1), ("breaker closed", 1), (" is away", 1)]
    {
        assert_eq!(lines(&log, part), number, "{part}:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_told_how_grave_a_line_is() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    for (stream, prefix) in [(true, "<7>"), (false, "20")] {
        let path = rig.dir().join("stderr");
        let file = fs::File::create(&path).unwrap();
        let (device, inode) = file.metadata().map(|meta| (meta.dev(), meta.ino())).unwrap();
        let named = if stream { format!("{device}:{inode}") } else { format!("{device}:{}", inode + 1) };
        let mut command = rig.command(&["status"]);
        command.env("JOURNAL_STREAM", named).env("RUST_LOG", "tallyd=debug").stderr(file).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(prefix) && text.contains("DEBUG"), "{text}");
    }
}
