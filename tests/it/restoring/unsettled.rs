//! Counts that were copied with changes which Redis then lost.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{Connection, Executor};

use super::{liked, restored};
use crate::likes::{SOON, assert_agreement, count_rows, like, records, reload, store, until_paused};
use crate::support::{Rig, Signal, eventually, failpoints};

/// A run that has claimed a change of target 1, before it reads the count; users 50 to 54 like it meanwhile.
async fn copied_ahead(extra: &str) -> Rig {
    let rig = Rig::start(extra).await;
    rig.migrate().await;
    liked(&rig, 1..=2).await;
    let store = store(&rig).await;
    like(&store, 1, 40, true).await;
    let run = rig.spawn(&["sync"], &[("TALLYD_FAILPOINT", "after_claim:pause")]);
    until_paused(&run).await;
    for user in 50..55 {
        like(&store, 1, user, true).await;
    }
    run.signal(Signal::CONT);
    run.output(SOON).await.expect_code(0);
    let ahead = BTreeMap::from([((1, 0), 26), ((2, 0), 20)]);
    assert_eq!(count_rows(&rig).await, ahead, "the count holds what is not synced yet");
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_was_ahead_is_counted_again() {
    if !failpoints() {
        return;
    }
    for extra in ["", "cache.full_load_limit = 5"] {
        let rig = copied_ahead(extra).await;
        let () = redis::cmd("FLUSHALL").query_async(&mut rig.redis.connect().await).await.unwrap();
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(0);
        assert_eq!(restored(&output)["kind"], "missing", "{}", output.stdout);
        assert_eq!(count_rows(&rig).await, BTreeMap::from([((1, 0), 21), ((2, 0), 20)]));
        assert!(rig.sql("SELECT * FROM unsettled_count").await.is_empty());
        if extra.is_empty() {
            reload(&rig, 1..=2).await;
            assert_agreement(&rig).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_is_settled_once_nothing_is_to_come() {
    if !failpoints() {
        return;
    }
    let rig = copied_ahead("").await;
    assert_eq!(rig.sql("SELECT target_id FROM unsettled_count").await, [[Some("1".to_owned())]]);
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert!(rig.sql("SELECT * FROM unsettled_count").await.is_empty());
    assert_agreement(&rig).await;
}

/// Each chunk but the last one of a target leaves changes to come.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_many_chunks_is_settled_by_its_last() {
    if !failpoints() {
        return;
    }
    let rig = Rig::start("sync.batch_rows = 10").await;
    rig.migrate().await;
    let run = rig.spawn(&["sync"], &[("TALLYD_FAILPOINT", "before_ack:kill")]);
    assert_eq!(run.output(SOON).await.code, Some(0), "there is nothing to ack yet");
    crate::likes::load(&mut rig.redis.connect().await, 1..=1).await;
    crate::likes::like_all(&store(&rig).await, 1..=1, 1..86).await;
    let run = rig.spawn(&["sync"], &[("TALLYD_FAILPOINT", "before_ack:kill")]);
    assert_eq!(run.output(SOON).await.code, None);
    assert_eq!(rig.sql("SELECT target_id FROM unsettled_count").await, [[Some("1".to_owned())]]);
    crate::likes::let_lease_run_out(&rig).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert!(rig.sql("SELECT * FROM unsettled_count").await.is_empty());
    assert_agreement(&rig).await;
}

/// While one of its chunks is not committed, the count of a target is not settled, whatever the other connection does.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_chunk_of_a_target_waits_for_those_before_it() {
    let rig = Rig::start("sync.batch_rows = 10").await;
    rig.migrate().await;
    crate::likes::load(&mut rig.redis.connect().await, 1..=1).await;
    crate::likes::like_all(&store(&rig).await, 1..=1, 1..81).await;
    let mut holder = rig.db.connect().await;
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute("INSERT INTO interaction_record VALUES (1, 1, 1, 65, 1, NOW(3), NOW(3))").await.unwrap();
    let run = rig.spawn(&["sync"], &[]);
    eventually(SOON, async || records(&rig).await.len() == 60, "all but chunks 7 and 8 are stored").await;
    // The eighth would be there at once.
    let eighth = async { while records(&rig).await.len() == 60 {} };
    assert!(tokio::time::timeout(Duration::from_secs(2), eighth).await.is_err(), "chunk 8 waits for chunk 7");
    assert_eq!(rig.sql("SELECT target_id FROM unsettled_count").await, [[Some("1".to_owned())]]);
    holder.close_hard().await.unwrap();
    run.output(SOON).await.expect_code(0);
    assert!(rig.sql("SELECT * FROM unsettled_count").await.is_empty());
    assert_agreement(&rig).await;
}
