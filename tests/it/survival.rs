//! The daemon outlives its servers: runs fail, say why, and later ones succeed by themselves (hazard 19).

use std::time::Duration;

use crate::likes::{SOON, assert_agreement, like_all, load, marks, store};
use crate::support::{Daemon, PrivateMysql, PrivateRedis, Rig, Signal, eventually};

const CONFIG: &str = "sync.cron = \"* * * * * *\"\nmysql.timeout_ms = 2000";
const AOF: [&str; 2] = ["--appendonly", "yes"];

async fn until_synced(rig: &Rig) {
    eventually(SOON, async || marks(rig).await.is_empty(), "what waited is synced").await;
    assert_agreement(rig).await;
}

/// Waits until a run of the daemon failed for this server, after what it had logged before.
async fn until_failed(daemon: &Daemon, from: usize, server: &str, port: u16) {
    let address = format!("127.0.0.1:{port}");
    let failed = async || {
        let log = daemon.log();
        log[from..].lines().any(|l| l.contains("not synced") && l.contains(server) && l.contains(&address))
    };
    eventually(SOON, failed, format!("a run says that {server} at {address} is away")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_outlives_each_of_its_servers() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&AOF).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, CONFIG);
    rig.migrate().await;
    load(&mut redis.connect().await, 1..=4).await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    like_all(&store(&rig).await, 1..=4, 1..11).await;
    until_synced(&rig).await;

    let from = daemon.log().len();
    mysql.kill();
    like_all(&store(&rig).await, 1..=4, 5..21).await;
    until_failed(&daemon, from, "MySQL", mysql.server().port()).await;
    mysql.start_again().await;
    until_synced(&rig).await;

    let from = daemon.log().len();
    redis.stop().await;
    until_failed(&daemon, from, "Redis", redis.server().port()).await;
    redis.start_again().await;
    like_all(&store(&rig).await, 1..=4, 15..31).await;
    until_synced(&rig).await;

    assert!(daemon.is_running());
    daemon.signal(Signal::TERM);
    daemon.output(SOON).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_started_before_its_servers_waits_for_them() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&AOF).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, CONFIG);
    rig.migrate().await;
    load(&mut redis.connect().await, 1..=4).await;
    like_all(&store(&rig).await, 1..=4, 1..11).await;
    redis.stop().await;
    mysql.stop().await;

    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    daemon.wait_for_log("tallyd starts", SOON).await;
    until_failed(&daemon, 0, "MySQL", mysql.server().port()).await;
    let output = rig.tallyd(&["status"]).await.expect_code(1);
    for server in ["redis (standalone): down: ", "mysql: down: "] {
        let line = output.stdout.lines().find(|line| line.starts_with(server));
        assert!(line.is_some_and(|line| line.contains("Connection refused")), "{}", output.stdout);
    }
    let from = daemon.log().len();
    mysql.start_again().await;
    until_failed(&daemon, from, "Redis", redis.server().port()).await;
    redis.start_again().await;
    until_synced(&rig).await;
    rig.tallyd(&["status"]).await.expect_code(0);

    daemon.signal(Signal::TERM);
    let begun = std::time::Instant::now();
    daemon.output(SOON).await.expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(5));
}
