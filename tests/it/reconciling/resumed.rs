//! A pass that was cut short is gone on with.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ALL, pass, synced};
use crate::likes::{SOON, count_rows};
use crate::support::{Proxy, Rig, Signal, eventually};

/// Long enough that a pass keeps its place on the way.
const SLOWLY: Duration = Duration::from_millis(70);

/// The place that a pass over everything kept when the signal ended it on the way.
async fn cut(rig: &Rig, signal: Signal) -> Value {
    let proxy = Proxy::start(&rig.db.url, "").await;
    proxy.delay(SLOWLY);
    let daemon = rig.spawn(&["reconcile", "--all"], &[("TALLYD__MYSQL__URL", &proxy.in_front_of(&rig.db.url))]);
    eventually(SOON, async || bookmark(rig).await.is_some(), "its place is kept").await;
    daemon.signal(signal);
    daemon.wait(SOON).await;
    // Its lease would run out by itself.
    rig.sql_exec("UPDATE sync_partition SET lease_owner = NULL, lease_until = NULL").await;
    bookmark(rig).await.unwrap()
}

async fn bookmark(rig: &Rig) -> Option<Value> {
    let kept = rig.sql("SELECT value FROM tallyd_meta WHERE name = 'reconcile.bookmark'").await;
    Some(serde_json::from_str(kept.first()?[0].as_ref()?).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_looked_at_is_not_looked_at_again() {
    let rig = synced(ALL).await;
    for signal in [Signal::KILL, Signal::TERM] {
        let kept = cut(&rig, signal).await;
        let earlier = kept["place"]["looked_at"].as_u64().unwrap();
        assert!((1..400).contains(&earlier), "{kept}");

        // One target, or a dry run, are nothing to go on with.
        assert_eq!(pass(&rig, &["--target", "note:9"], 0).await["continues"], Value::Null);
        let dry = pass(&rig, &["--all", "--dry-run"], 0).await;
        assert_eq!((&dry["continues"], &dry["looked_at"]), (&Value::Null, &400.into()));
        let rest = pass(&rig, &["--all"], 0).await;
        assert_eq!(rest["continues"], kept["run_id"], "{rest}");
        assert_eq!((&rest["outcome"], &rest["of"]), (&"clean".into(), &400.into()), "{rest}");
        assert_eq!(
            (&rest["looked_at"], &rest["skipped_why"]),
            (&(400 - earlier).into(), &json!({ "earlier": earlier }))
        );

        let whole = pass(&rig, &["--all"], 0).await;
        assert_eq!((&whole["continues"], &whole["looked_at"]), (&Value::Null, &400.into()), "{whole}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_and_not_repaired_is_found_again() {
    let rig = synced(ALL).await;
    rig.sql_exec("UPDATE interaction_count SET count = 11 WHERE target_id = 5").await;
    let kept = cut(&rig, Signal::KILL).await;
    assert_eq!(kept["place"]["looked_at"], 0, "the first that differs is where to go on: {kept}");
    let rest = pass(&rig, &["--all"], 0).await;
    assert_eq!((&rest["continues"], &rest["repaired"]), (&kept["run_id"], &1.into()), "{rest}");
    assert_eq!(count_rows(&rig).await[&(5, 0)], 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_goes_on_with_it_when_it_starts() {
    let rig = synced(ALL).await;
    let kept = cut(&rig, Signal::KILL).await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    let line = daemon.wait_for_log("the pass goes on where another was cut short", SOON).await;
    assert!(line.contains(kept["run_id"].as_str().unwrap()), "{line}");
    eventually(SOON, async || bookmark(&rig).await.is_none(), "it ends").await;
}
