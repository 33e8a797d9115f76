//! Every kind of drift, over thousands of targets at once.

use std::collections::BTreeMap;

use super::damage::{INJECTED, inject};
use super::{ALL, drifts, kinds, pass, synced, synced_notes};
use crate::likes::{assert_agreement, dump, reload};

/// Notes damaged in each way.
const EACH: i64 = 210;
/// All notes but orphans; those beyond what is damaged stay as they are.
const KNOWN: i64 = 2200;
const ORPHANS: i64 = 10_000;

/// The notes damaged in the n-th way.
fn notes(n: i64) -> std::ops::Range<i64> {
    let first = if INJECTED[usize::try_from(n).unwrap()].0 == "orphan_row" { ORPHANS } else { n * EACH + 1 };
    first..first + EACH
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_found_named_repaired_and_read_back() {
    let rig = synced_notes(1..=KNOWN, ALL).await;
    assert!(i64::try_from(INJECTED.len()).unwrap() * EACH <= KNOWN);
    let clean = pass(&rig, &["--all"], 0).await;
    assert_eq!(
        (&clean["outcome"], &clean["looked_at"], &clean["differing"]),
        (&"clean".into(), &KNOWN.into(), &0.into())
    );
    let untouched = dump(&rig).await;

    let mut expected = Vec::new();
    for (n, (kind, user, before, after)) in (0..).zip(INJECTED) {
        for note in notes(n) {
            inject(&rig, kind, note).await;
            let text = |value: Option<&str>| value.map(str::to_owned);
            expected.push((kind.to_owned(), note, user, text(before), text(after), "repaired".to_owned()));
        }
    }
    let report = pass(&rig, &["--now", "--all"], 0).await;
    let each: BTreeMap<String, u64> =
        INJECTED.iter().map(|(kind, ..)| ((*kind).to_owned(), EACH.unsigned_abs())).collect();
    assert_eq!(kinds(&report), each, "{report}");
    assert_eq!(
        (&report["outcome"], &report["residual"], &report["failed"]),
        (&"repaired".into(), &0.into(), &0.into())
    );
    assert_eq!(report["repaired"], 10 * EACH, "{report}");
    let mut found = drifts(&rig, &report).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);

    let again = pass(&rig, &["--all"], 0).await;
    assert_eq!((&again["outcome"], &again["looked_at"]), (&"clean".into(), &(KNOWN + EACH).into()), "{again}");
    // What was evicted, or never here, is loaded again.
    reload(&rig, (1..=KNOWN).chain(notes(9))).await;
    assert_agreement(&rig).await;
    // Nothing else was touched: rows of notes that were not damaged are as they were.
    let of_note = |rows: &[Vec<Option<String>>]| -> Vec<Vec<Option<String>>> {
        let whole = |row: &&Vec<Option<String>>| row[1].as_ref().unwrap().parse::<i64>().unwrap() > 9 * EACH;
        rows.iter().filter(whole).filter(|row| row[1].as_ref().unwrap().len() < 5).cloned().collect()
    };
    assert_eq!(of_note(&dump(&rig).await), of_note(&untouched));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_configured_is_told_and_left_alone() {
    let rig = synced("").await;
    rig.sql_exec(
        "INSERT INTO interaction_record VALUES (1, 7, 77, 5, 1, '2026-01-01', '2026-01-01'), \
         (88, 7, 1, 5, 1, '2026-01-01', '2026-01-01'); \
         INSERT INTO interaction_count VALUES (1, 7, 77, 40, '2026-01-01')",
    )
    .await;
    let before = dump(&rig).await;
    let report = pass(&rig, &[], 0).await;
    assert_eq!(kinds(&report), BTreeMap::from([("unconfigured".to_owned(), 2)]), "{report}");
    assert_eq!((&report["outcome"], &report["residual"]), (&"clean".into(), &0.into()));
    assert_eq!(dump(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_too_much_differs() {
    let rig = synced("reconcile.stop_percent = 5.0").await;
    for note in 1..=20 {
        inject(&rig, "count_row_off", note).await;
    }
    let report = pass(&rig, &["--all"], 0).await;
    assert_eq!((&report["outcome"], &report["repaired"]), (&"repaired".into(), &20.into()), "{report}");

    for note in 1..=21 {
        inject(&rig, "record_row_off", note).await;
    }
    let before = dump(&rig).await;
    let report = pass(&rig, &["--all"], 3).await;
    assert_eq!(
        (&report["outcome"], &report["refused"], &report["exit_code"]),
        (&"stopped".into(), &21.into(), &3.into())
    );
    assert!(report["error"].as_str().unwrap().contains("reconcile.stop_percent"), "{report}");
    assert_eq!(dump(&rig).await, before, "nothing was written");
    let outcomes: Vec<_> = drifts(&rig, &report).await.into_iter().map(|drift| drift.5).collect();
    assert_eq!(outcomes, ["refused"; 21]);

    // One target by name is what somebody wants repaired.
    let report = pass(&rig, &["--target", "note:3"], 0).await;
    assert_eq!((&report["repaired"], &report["scope"]), (&1.into(), &"target note:3".into()), "{report}");
}
