//! An older Redis does not beat a newer MySQL after an outage (hazard 15).

use redis::AsyncCommands;

use crate::likes::{SOON, assert_agreement, count_rows, like, records, reload, states, store};
use crate::replay::{degraded, liked};
use crate::support::{PrivateRedis, Rig, create_database, eventually};

/// Like, unsynced; Redis down; cancel through MySQL; Redis back from its log, or a replica that lagged in its place.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_redis_does_not_beat_a_newer_mysql() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes", "--appendfsync", "always"]).await else {
        return;
    };
    let Some(replica) = PrivateRedis::start(&["--repl-diskless-sync-delay", "0"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    liked(&rig).await;
    let port = redis.server().port();
    let mut connection = replica.connect().await;
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).query_async::<()>(&mut connection).await.unwrap();
    like(&store(&rig).await, 1, 77, true).await;
    let followed = async || replica.connect().await.hexists::<_, _, bool>("like:1:1", 77).await.unwrap();
    eventually(SOON, followed, "the replica has followed").await;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async::<()>(&mut connection).await.unwrap();

    redis.kill();
    degraded(&rig, &[(1, 77, false)]).await;
    redis.start_again().await;
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!((&output.json()["replayed"], &output.json()["partitions"][0]["restored"]), (&1.into(), &().into()));
    zero_on_both_sides(&rig).await;

    // MySQL is further by now: the replica is found to be older, and keeps nothing that is.
    redis.kill();
    degraded(&rig, &[(1, 77, true)]).await;
    degraded(&rig, &[(1, 77, false)]).await;
    let rig = Rig::on(&replica, &db, "");
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(output.json()["replayed"], 2, "{}", output.stdout);
    assert_eq!(output.json()["partitions"][0]["restored"]["kind"], "older", "{}", output.stdout);
    reload(&rig, 1..=3).await;
    zero_on_both_sides(&rig).await;
}

async fn zero_on_both_sides(rig: &Rig) {
    assert_eq!((records(rig).await[&(1, 77)], states(rig).await[&(1, 77)]), (0, 0));
    assert_eq!(count_rows(rig).await[&(1, 0)], 20);
    assert_agreement(rig).await;
}
