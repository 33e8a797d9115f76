//! Real losses of a real Redis.

use std::fs::{self, OpenOptions};

use redis::AsyncCommands;

use super::{liked, restored};
use crate::likes::{SOON, assert_agreement, like, records, reload, same, store};
use crate::support::{PrivateRedis, Rig, create_database, eventually};

/// What happens after the moment to which Redis goes back: synced changes of notes 1 to 3, and unsynced ones.
async fn goes_on(rig: &Rig) {
    let writer = store(rig).await;
    for user in 1..=10 {
        like(&writer, 1, user, false).await;
        like(&writer, 2, 100 + user, true).await;
    }
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(rig).await;
    like(&writer, 3, 1, false).await;
}

/// Redis is older than MySQL now. A like of now is kept, and nothing of what MySQL holds is lost.
async fn is_restored(rig: &Rig) {
    let mut expected = records(rig).await;
    like(&store(rig).await, 3, 2, false).await;
    expected.insert((3, 2), 0);
    let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
    assert_eq!(restored(&output)["kind"], "older", "{}", output.stdout);
    same("what must be and record rows", &expected, &records(rig).await);
    reload(rig, 1..=3).await;
    assert_agreement(rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_an_older_snapshot_is_restored() {
    let Some(mut redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    liked(&rig, 1..=3).await;
    redis::cmd("SAVE").query_async::<()>(&mut redis.connect().await).await.unwrap();
    let dump = redis.server().home().join("dump.rdb");
    let aside = redis.server().home().join("aside.rdb");
    fs::copy(&dump, &aside).unwrap();
    goes_on(&rig).await;
    redis.stop().await;
    fs::copy(&aside, &dump).unwrap();
    redis.start_again().await;
    is_restored(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_a_log_whose_tail_is_cut_is_restored() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    liked(&rig, 1..=3).await;
    let folder = redis.server().home().join("appendonlydir");
    let log = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let log = log.into_iter().find(|path| path.to_str().unwrap().ends_with(".incr.aof")).unwrap();
    let length = fs::metadata(&log).unwrap().len();
    goes_on(&rig).await;
    redis.kill();
    assert!(fs::metadata(&log).unwrap().len() > length);
    // In the middle of a command, as a crash cuts it.
    OpenOptions::new().write(true).open(&log).unwrap().set_len(length + 7).unwrap();
    redis.start_again().await;
    is_restored(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_that_lagged_is_restored() {
    let Some(master) = PrivateRedis::start(&[]).await else { return };
    let Some(replica) = PrivateRedis::start(&["--repl-diskless-sync-delay", "0"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&master, &db, "");
    rig.migrate().await;
    let mut connection = replica.connect().await;
    let port = master.server().port();
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).query_async::<()>(&mut connection).await.unwrap();
    liked(&rig, 1..=3).await;
    let reached: String = master.connect().await.get("ckpt:1").await.unwrap();
    let same =
        async || replica.connect().await.get::<_, Option<String>>("ckpt:1").await.unwrap() == Some(reached.clone());
    eventually(SOON, same, "the replica has followed").await;
    // From here on it does not follow any more.
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async::<()>(&mut connection).await.unwrap();
    goes_on(&rig).await;
    drop(master);
    let rig = Rig::on(&replica, &db, "");
    is_restored(&rig).await;
}
