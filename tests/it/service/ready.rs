//! Ready is when writes are accepted, and the status says why it is not.

use super::{Manager, SOON};
use crate::support::{PrivateMysql, PrivateRedis, Rig, Served, Signal};

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_when_writes_are_accepted_and_not_before() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let db = mysql.create_database("likes").await;
    let rig = Rig::on(&redis, &db, "mysql.timeout_ms = 500");
    rig.migrate().await;
    for (args, first) in [(&[][..], "redis"), (&["--no-api"][..], "mysql")] {
        redis.kill();
        mysql.kill();
        let manager = Manager::new();
        let daemon = manager.start(&rig, args, &[]);
        let waiting = manager.hears("STATUS=waiting until writes can be accepted: ", "Redis").await;
        assert!(waiting.contains("MySQL"), "{waiting}");
        daemon.wait_for_log("not ready, for writes cannot be accepted yet", SOON).await;
        let served = Served::by(daemon, args.is_empty()).await;
        served.admin.get("/readyz").await.expect(503);
        assert_eq!(manager.times("READY=1"), 0, "{:?}", manager.heard());

        if first == "redis" {
            redis.start_again().await;
            manager.hears("READY=1", "").await;
            manager.hears("STATUS=ready: Redis takes writes", "").await;
            mysql.start_again().await;
        } else {
            mysql.start_again().await;
            manager.hears("READY=1", "").await;
            manager.hears("STATUS=ready: MySQL, in the place of Redis, takes writes", "").await;
            redis.start_again().await;
        }
        served.admin.get("/readyz").await.expect(200);
        manager.hears("STATUS=Redis takes writes; breaker closed; backlog 0 changes, 0 targets; last run ", "").await;
        assert_eq!(manager.times("READY=1"), 1);
        served.daemon.signal(Signal::TERM);
        manager.hears("STOPPING=1", "").await;
        served.daemon.output(SOON).await.expect_code(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_can_be_stopped() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, "");
    redis.kill();
    mysql.kill();
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[]);
    manager.hears("STATUS=waiting", "").await;
    daemon.signal(Signal::TERM);
    let output = daemon.output(SOON).await.expect_code(0);
    assert!(output.stderr.contains("tallyd has stopped"), "{}", output.stderr);
    assert_eq!(manager.times("READY=1"), 0);
}

/// A schema that is found to be old only when MySQL comes: the migration mends it, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_schema_is_waited_for_when_it_shows_late() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, "mysql.timeout_ms = 500");
    mysql.kill();
    let mut held = redis.connect().await;
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).exec_async(&mut held).await.unwrap();
    let manager = Manager::new();
    let daemon = manager.start(&rig, &["--no-api"], &[]);
    manager.hears("STATUS=waiting", "MySQL").await;
    mysql.start_again().await;
    manager.hears("STATUS=waiting", "tallyd migrate").await;
    rig.migrate().await;
    manager.hears("READY=1", "").await;
    assert!(daemon.is_running());
}
