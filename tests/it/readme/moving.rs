//! "Move to another Redis".

use super::{Stage, steps};
use crate::support::PrivateRedis;

/// A stage on which old-redis and new-redis are two servers.
async fn two_servers() -> Option<(Stage, PrivateRedis)> {
    let mut stage = Stage::set("").await?;
    let new = PrivateRedis::start(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]).await?;
    for (name, port) in [("old-redis", stage.redis.server().port()), ("new-redis", new.server().port())] {
        stage.call(&format!("-h {name}"), &format!("-p {port}"));
        stage.call(&format!("{name} 6379"), &format!("127.0.0.1 {port}"));
        stage.call(&format!("{name}:6379"), &format!("127.0.0.1:{port}"));
    }
    Some((stage, new))
}

/// Likes of notes 1 to 3, of which the last are not synced.
async fn before(stage: &mut Stage) {
    stage.start().await;
    like(stage, 1..=3, 10).await;
    stage.rig.tallyd(&["sync"]).await.expect_code(0);
    like(stage, 1..=3, 20).await;
}

async fn nothing(_: &mut Stage, comment: &str) {
    panic!("nobody knows what this means: {comment}");
}

async fn like(stage: &Stage, notes: std::ops::RangeInclusive<u64>, user: u64) {
    for note in notes {
        let path = format!("/v1/like/note/{note}/users/{}", user + note);
        stage.daemon.as_ref().unwrap().api().put(&path).await.expect(200);
    }
}

/// Everything is there, and both sides agree.
async fn after(stage: &Stage, new: &PrivateRedis) {
    let api = stage.daemon.as_ref().unwrap().api();
    for note in 1..=3 {
        assert_eq!(api.get(&format!("/v1/like/note/{note}")).await.expect(200).json()["count"], "2");
    }
    let held: i64 = redis::cmd("DBSIZE").query_async(&mut new.connect().await).await.unwrap();
    assert!(held > 3, "the daemon works on the new server: {held} keys");
    stage.rig.tallyd(&["sync"]).await.expect_code(0);
    let rows = stage.rig.sql("SELECT COUNT(*) FROM interaction_record WHERE status = 1").await;
    assert_eq!(rows, [[Some("6".to_owned())]]);
    stage.rig.tallyd(&["reconcile"]).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_replica_nothing_is_lost_nor_loaded_again() {
    let Some((mut stage, new)) = two_servers().await else { return };
    before(&mut stage).await;
    stage.play(&steps("With a replica"), nothing).await;
    let losses = stage.daemon.as_ref().unwrap().admin.get("/metrics").await.expect(200).body;
    assert!(losses.contains("tallyd_redis_loss_total 0\n"), "{losses}");
    after(&stage, &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn onto_an_empty_server_everything_is_loaded_from_mysql() {
    let Some((mut stage, new)) = two_servers().await else { return };
    before(&mut stage).await;
    stage.play(&steps("Onto an empty Redis"), nothing).await;
    after(&stage, &new).await;
}
