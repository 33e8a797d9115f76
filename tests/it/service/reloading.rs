//! SIGHUP: what may change does, what needs a restart is named, and what cannot be used changes nothing.

use std::fs;

use super::{Manager, SOON};
use crate::report::{clean, keep, noted, settings};
use crate::support::{Daemon, PrivateMysql, PrivateRedis, Rig, Served, Signal, Smtp, SmtpRules, Tls, eventually};

const NEVER: &str = "sync.cron = \"0 0 1 1 *\"\n";

/// Reloads, and returns what the log says from then on, once it says `words`.
async fn reload(daemon: &Daemon, words: &str) -> String {
    let before = daemon.log().len();
    daemon.signal(Signal::HUP);
    let said = async || daemon.log().get(before..).is_some_and(|log| log.contains(words));
    eventually(SOON, said, format!("{words:?} after a reload")).await;
    daemon.log()[before..].to_owned()
}

/// How often a run is recorded that the schedule started.
async fn scheduled(rig: &Rig) -> u64 {
    let rows = rig.sql("SELECT COUNT(*) FROM sync_run WHERE caused_by = 'schedule'").await;
    rows[0][0].as_ref().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_the_level_and_limits_change_while_it_runs() {
    let rig = Rig::start(NEVER).await;
    let served = rig.serve(&[]).await;
    served.wait_for_log("ready", SOON).await;
    served.api().get("/v1/like/note/1").await.expect(200);
    assert!(!served.log().contains("DEBUG"), "{}", served.log());

    rig.configure("sync.cron = \"* * * * * *\"\nlog.level = \"info,tallyd=debug\"\nsync.batch_rows = 7");
    let log = reload(&served, "SIGHUP: changed").await;
    let line = log.lines().find(|line| line.contains("SIGHUP: changed")).unwrap();
    for change in [
        "log.level \"info\" → \"info,tallyd=debug\"",
        "sync.cron \"0 0 1 1 *\" → \"* * * * * *\"",
        "sync.batch_rows 1000 → 7",
    ] {
        assert!(line.contains(change), "{change} is not in {line}");
    }
    assert!(!log.contains("a restart is needed"), "{log}");
    eventually(SOON, async || scheduled(&rig).await >= 2, "runs come by the new schedule").await;
    served.wait_for_log("DEBUG", SOON).await;

    rig.configure(&format!("{NEVER}sync.early_flush_changes = 3"));
    reload(&served, "SIGHUP: changed log.level").await;
    // A run that the old schedule started may still be under way.
    served.admin.post("/sync?wait_seconds=60", "").await.expect(200);
    let (runs, quiet) = (scheduled(&rig).await, served.log().len());
    for user in 1..=3 {
        served.api().put(&format!("/v1/like/note/1/users/{user}")).await.expect(200);
    }
    let backlog = "SELECT COUNT(*) FROM sync_run WHERE caused_by = 'backlog'";
    eventually(SOON, async || rig.sql(backlog).await[0][0].as_deref() == Some("1"), "the new limit starts a run").await;
    assert_eq!(scheduled(&rig).await, runs, "the old schedule has ended");
    assert!(!served.log()[quiet..].contains("DEBUG"), "{}", &served.log()[quiet..]);
    reload(&served, "SIGHUP: nothing has changed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_rotated_without_a_restart() {
    let rig = Rig::start("").await;
    let file = rig.dir().join("tokens");
    fs::write(&file, "token-one\n").unwrap();
    let name = file.display().to_string();
    rig.configure(&format!("{NEVER}api.token_file = {name:?}\nadmin.token_file = {name:?}"));
    let served = rig.serve(&[]).await;
    let answers = async |token: &str| {
        let admin = served.admin.with_token(token).post("/sync", "").await.status;
        (served.api().with_token(token).get("/v1/like/note/1").await.status, admin)
    };
    assert_eq!((answers("token-one").await, answers("token-two").await), ((200, 202), (401, 401)));
    fs::write(&file, "token-one\ntoken-two\n").unwrap();
    let log = reload(&served, "SIGHUP: changed").await;
    assert!(log.contains("api.token_file 1 token → 2 tokens, not the same"), "{log}");
    assert_eq!((answers("token-one").await, answers("token-two").await), ((200, 202), (200, 202)));
    fs::write(&file, "token-two\n").unwrap();
    reload(&served, "SIGHUP: changed").await;
    assert_eq!((answers("token-one").await, answers("token-two").await), ((401, 401), (200, 202)));
    // To ask for none at all is no rotation.
    rig.configure(NEVER);
    reload(&served, "SIGHUP: a restart is needed for api.token_file, admin.token_file").await;
    assert_eq!((answers("token-one").await, answers("token-two").await), ((401, 401), (200, 202)));
    assert!(!served.log().contains("token-one") && !served.log().contains("token-two"), "{}", served.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_what_needs_a_restart_is_named() {
    let rig = Rig::start(NEVER).await;
    let served = rig.serve(&[]).await;
    served.wait_for_log("ready", SOON).await;
    rig.configure("sync.cron = \"* * * * * *\"\nsync.batch_rows = 0\nlog.level = \"debug\"");
    let log = reload(&served, "SIGHUP: nothing is changed").await;
    assert!(log.contains("ERROR") && log.contains("sync.batch_rows: 0 is out of range"), "{log}");
    fs::remove_file(rig.config()).unwrap();
    reload(&served, "SIGHUP: nothing is changed").await;
    fs::write(rig.config(), "redis.url = \"redis://:Hunter2@nowhere:1\"\nlog.format = \"json\"\n").unwrap();
    let log = reload(&served, "SIGHUP: a restart is needed for").await;
    let line = log.lines().find(|line| line.contains("a restart is needed")).unwrap();
    for key in ["redis.url", "mysql.url", "log.format", "api.listen"] {
        assert!(line.contains(key), "{key} is not in {line}");
    }
    assert!(!log.contains("Hunter2"), "{log}");
    served.api().put("/v1/like/note/1/users/1").await.expect(200);
    let status = served.admin.get("/readyz").await.expect(200).json();
    assert_eq!(status["status"], "ready", "it still uses the servers that it used");
    assert_eq!(scheduled(&rig).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_mailed_as_the_settings_say_now() {
    let rig = Rig::start(NEVER).await;
    let served = rig.serve(&[]).await;
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &clean(1)).await;
    let smtp = Smtp::start(SmtpRules::default()).await;
    rig.configure(&format!("{NEVER}{}", settings(&rig, smtp.port(), Tls::None, None)));
    reload(&served, "SIGHUP: changed report.from").await;
    eventually(SOON, async || noted(&rig).await == ["a"], "it is mailed").await;
    assert_eq!(smtp.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_hears_of_a_reload_but_not_before_it_is_ready() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, NEVER);
    rig.migrate().await;
    redis.kill();
    mysql.kill();
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[]);
    manager.hears("STATUS=waiting", "").await;
    let served = Served::by(daemon, true).await;
    reload(&served, "SIGHUP: nothing has changed").await;
    let told = manager.times("WATCHDOG=1");
    eventually(SOON, async || manager.times("WATCHDOG=1") > told, "it has had the time to tell more").await;
    let is_of_the_reload = |line: &String| line.starts_with("RELOADING") || line.starts_with("READY");
    assert!(!manager.heard().iter().any(is_of_the_reload), "{:?}", manager.heard());

    redis.start_again().await;
    manager.hears("READY=1", "").await;
    manager.forget();
    reload(&served, "SIGHUP: nothing has changed").await;
    manager.hears("READY=1", "").await;
    let heard: Vec<String> = manager.heard().into_iter().filter(|line| !line.starts_with("STATUS=")).collect();
    let [reloading, since, ready] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!((reloading.as_str(), ready.as_str()), ("RELOADING=1", "READY=1"));
    assert!(since.strip_prefix("MONOTONIC_USEC=").is_some_and(|usec| usec.parse::<u64>().is_ok()), "{since}");
}
