//! What may come in the middle of a restore.

use redis::AsyncCommands;
use tallyd::store::{StoreError, Verdict};

use super::{liked, lose, restored};
use crate::likes::{
    NOTES, SOON, assert_agreement, let_lease_run_out, like, marks, records, reload, same, store, until_paused,
};
use crate::support::{Daemon, Output, Rig, Signal, failpoints};

/// A restore that stands still after its first batch, and what must be when all is over.
async fn paused(action: &str) -> (Rig, Daemon, crate::likes::Table) {
    let rig = Rig::start("").await;
    rig.migrate().await;
    liked(&rig, 1..=3).await;
    let mut expected = records(&rig).await;
    for user in 1..=5 {
        like(&store(&rig).await, 1, user, false).await;
        expected.insert((1, user), 0);
    }
    lose(&rig).await;
    let run = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", &format!("in_restore:{action}"))]);
    if action == "pause" {
        until_paused(&run).await;
    }
    (rig, run, expected)
}

async fn is_restored(rig: &Rig, output: Output, expected: &crate::likes::Table) {
    let output = output.expect_code(0);
    assert_eq!(restored(&output)["kind"], "interrupted", "{}", output.stdout);
    is_right(rig, expected).await;
}

async fn is_right(rig: &Rig, expected: &crate::likes::Table) {
    same("what must be and record rows", expected, &records(rig).await);
    assert!(!rig.redis.connect().await.exists::<_, bool>("restoring:1").await.unwrap());
    reload(rig, 1..=3).await;
    assert_agreement(rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_killed_is_begun_anew() {
    if !failpoints() {
        return;
    }
    let (rig, run, expected) = paused("kill").await;
    assert_eq!(run.output(SOON).await.code, None);
    assert!(!marks(&rig).await.is_empty());
    let_lease_run_out(&rig).await;
    let dry = rig.tallyd(&["sync", "--dry-run", "--json"]).await.expect_code(1);
    assert!(dry.stdout.contains("was begun and not ended"), "{}", dry.stdout);
    let output = rig.tallyd(&["sync", "--json"]).await;
    is_restored(&rig, output, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_comes_between_two_batches() {
    if !failpoints() {
        return;
    }
    let (rig, run, expected) = paused("pause").await;
    let before = records(&rig).await;
    run.signal(Signal::TERM);
    run.signal(Signal::CONT);
    let output = run.output(SOON).await.expect_code(1);
    let notes = &output.json()["partitions"][0];
    assert_eq!(notes["outcome"], "partial", "{}", output.stdout);
    assert!(notes["error"].as_str().unwrap().ends_with("the restore did not end: stopped on request"), "{notes}");
    same("records before and after", &before, &records(&rig).await);
    let output = rig.tallyd(&["sync", "--json"]).await;
    is_restored(&rig, output, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_his_lease_in_a_restore_changes_nothing_more() {
    if !failpoints() {
        return;
    }
    let (rig, run, expected) = paused("pause").await;
    let_lease_run_out(&rig).await;
    let output = rig.tallyd(&["sync", "--json"]).await;
    is_restored(&rig, output, &expected).await;
    // A write that he has not seen, in a hash that he would empty.
    like(&store(&rig).await, 2, 9, false).await;
    let before: Vec<(String, String)> = all(&rig).await;
    run.signal(Signal::CONT);
    let output = run.output(SOON).await.expect_code(1);
    assert_eq!(output.json()["partitions"][0]["outcome"], "failed", "{}", output.stdout);
    assert_eq!(all(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_restore_only_the_owner_goes_on() {
    if !failpoints() {
        return;
    }
    let (rig, old, expected) = paused("pause").await;
    let_lease_run_out(&rig).await;
    let owner = rig.spawn(&["sync", "--json"], &[("TALLYD_FAILPOINT", "in_restore:pause")]);
    until_paused(&owner).await;
    let mut redis = rig.redis.connect().await;
    let reached: String = redis.get("restoring:1").await.unwrap();
    old.signal(Signal::CONT);
    old.output(SOON).await.expect_code(1);
    assert_eq!(redis.get::<_, String>("restoring:1").await.unwrap(), reached);
    owner.signal(Signal::CONT);
    let output = owner.output(SOON).await;
    is_restored(&rig, output, &expected).await;
}

/// Redis goes back within the restore: what was dropped is there again, and the restore must not go on behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_within_a_restore_begins_it_anew() {
    if !failpoints() {
        return;
    }
    for tampered in ["restoring:1", "ckpt:1"] {
        let (rig, run, expected) = paused("pause").await;
        let mut redis = rig.redis.connect().await;
        let reached: String = redis.get("restoring:1").await.unwrap();
        let (token, step) = reached.split_once('.').unwrap();
        assert_eq!(step, "1");
        let back = if tampered == "ckpt:1" { "1.0".to_owned() } else { format!("{token}.0") };
        redis.set::<_, _, ()>(tampered, back).await.unwrap();
        // The first batch had dropped it.
        redis.hset_multiple::<_, _, _, ()>("like:1:2", &[("7", "0"), ("0", "full")]).await.unwrap();
        redis.hset::<_, _, _, ()>("chg:1", "like:2:7", 5).await.unwrap();
        redis.sadd::<_, _, ()>("dirty:1", 2).await.unwrap();
        run.signal(Signal::CONT);
        let output = run.output(SOON).await;
        is_restored(&rig, output, &expected).await;
    }
}

/// Every state of notes 1 to 3.
async fn all(rig: &Rig) -> Vec<(String, String)> {
    let mut redis = rig.redis.connect().await;
    let mut all = Vec::new();
    for target in 1..=3 {
        let states: std::collections::BTreeMap<String, String> =
            redis.hgetall(format!("like:1:{target}")).await.unwrap();
        all.extend(states);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_loss_in_a_restore_begins_it_anew_in_the_same_run() {
    if !failpoints() {
        return;
    }
    let (rig, run, mut expected) = paused("pause").await;
    redis::cmd("FLUSHDB").query_async::<()>(&mut rig.redis.connect().await).await.unwrap();
    run.signal(Signal::CONT);
    let output = run.output(SOON).await.expect_code(0);
    assert_eq!(restored(&output)["kind"], "missing", "{}", output.stdout);
    // What was not synced is lost with Redis.
    expected.extend((1..=5).map(|user| ((1, user), 1)));
    is_right(&rig, &expected).await;
}

/// Redis goes back to where a holder was who has lost his lease and does not know it: he would find the value that he
/// set last, and take the marks out of the restore's sight.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_old_cannot_claim_in_a_restore() {
    if !failpoints() {
        return;
    }
    let rig = Rig::start("").await;
    rig.migrate().await;
    liked(&rig, 1..=3).await;
    let mut expected = records(&rig).await;
    let lease = "SELECT lease_token FROM sync_partition WHERE target_type = 1";
    let token: u64 = rig.sql(lease).await[0][0].as_deref().unwrap().parse().unwrap();
    rig.sql_exec("UPDATE sync_partition SET lease_token = lease_token + 1 WHERE target_type = 1").await;
    let old = store(&rig).await;
    let mysql = tallyd::model::Checkpoint { token, step: 0 };
    let Verdict::Held(mut holder) = old.check(NOTES, mysql, token + 1).await.unwrap() else {
        panic!("nothing is lost")
    };
    // Somebody else takes over and commits; then Redis goes back.
    like(&old, 1, 30, true).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    expected.insert((1, 30), 1);
    like(&old, 1, 1, false).await;
    expected.insert((1, 1), 0);
    rig.redis.connect().await.set::<_, _, ()>("ckpt:1", holder.checkpoint().to_string()).await.unwrap();

    let run = rig.spawn(&["sync"], &[("TALLYD_FAILPOINT", "in_restore:pause")]);
    until_paused(&run).await;
    let claim = holder.claim().await;
    assert!(matches!(claim, Err(StoreError::Fenced { .. })), "{claim:?}");
    run.signal(Signal::CONT);
    run.output(SOON).await.expect_code(0);
    is_right(&rig, &expected).await;
}
