//! Reconciliation: every kind of drift is found, named, repaired and read back; what is in flight is no drift.

mod damage;
mod digest;
mod dry;
mod fenced;
mod health;
mod kinds;
mod large;
mod load;
mod odd;
mod resumed;
mod serving;
mod skipped;
mod wiped;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::likes::{assert_agreement, context, like_all, load as load_empty, store};
use crate::support::Rig;

/// Notes that tests damage, and users who like each of them.
pub const NOTES: std::ops::RangeInclusive<i64> = 1..=400;
pub const USERS: std::ops::Range<i64> = 1..9;

/// Whatever is damaged is repaired.
pub const ALL: &str = "reconcile.stop_percent = 100.0";

/// Notes with likes, synced: both sides agree.
pub async fn synced(extra: &str) -> Rig {
    synced_notes(NOTES, extra).await
}

/// The same of other notes.
pub async fn synced_notes(notes: std::ops::RangeInclusive<i64>, extra: &str) -> Rig {
    let rig = Rig::start(extra).await;
    rig.migrate().await;
    load_empty(&mut rig.redis.connect().await, notes.clone()).await;
    like_all(&store(&rig).await, notes, USERS).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
    rig
}

/// Runs `tallyd reconcile --json args`.
pub async fn pass(rig: &Rig, args: &[&str], code: i32) -> Value {
    let output = rig.tallyd(&[&["reconcile", "--json"], args].concat()).await.expect_code(code);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

/// The kinds in a report.
pub fn kinds(report: &Value) -> BTreeMap<String, u64> {
    let kinds = report["by_kind"].as_object().unwrap().iter();
    kinds.map(|(kind, number)| (kind.clone(), number.as_u64().unwrap())).collect()
}

/// The rows of `reconcile_drift` of a pass: kind, target, user, before, after, outcome.
pub async fn drifts(rig: &Rig, report: &Value) -> Vec<(String, i64, i64, Option<String>, Option<String>, String)> {
    let mut session = context(rig).sink.session();
    let rows = session.drifts_of(report["run_id"].as_str().unwrap(), 100_000).await.unwrap();
    session.close().await;
    rows.into_iter()
        .map(|row| (row.kind, row.target_id, row.user_id.unwrap_or_default(), row.before, row.after, row.outcome))
        .collect()
}
