//! The daemon reconciles by its schedules, shows the last pass, and forgets old ones; a lease of somebody else is respected.

use super::damage::inject;
use super::{ALL, pass, synced};
use crate::likes::{SOON, assert_agreement};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_reconciles_by_its_schedules() {
    let rig = synced(ALL).await;
    rig.configure(
        "reconcile.stop_percent = 100.0\nreconcile.full_cron = \"* * * * * *\"\nreconcile.sample_cron = \"* * * * * *\"\n\
         reconcile.sample_percent = 50.0\nreconcile.keep_days = 3",
    );
    rig.sql_exec(
        "INSERT INTO reconcile_run VALUES ('old', 'full', '', UTC_TIMESTAMP() - INTERVAL 4 DAY, 1, 'clean', '{}', NULL); \
         INSERT INTO reconcile_drift VALUES (1, 'old', 1, 1, 1, NULL, 'mark_lost', '', 'mysql', NULL, NULL, 'repaired', \
         UTC_TIMESTAMP() - INTERVAL 4 DAY)",
    )
    .await;
    for note in 1..=20 {
        inject(&rig, "record_row_off", note).await;
    }
    let served = rig.serve(&["--no-api"]).await;
    let status = async || served.admin.get("/status").await.expect(200).json()["reconcile"]["last"].clone();
    let clean = async || {
        let last = status().await;
        last["outcome"] == "clean" && last["trigger"] == "full" && last["looked_at"] == 400
    };
    eventually(SOON, clean, "a full pass finds nothing more").await;
    assert_agreement(&rig).await;
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    assert!(metrics.contains("tallyd_drift_total{kind=\"record_row_off\"} 20"), "{metrics}");
    let stamp = metrics.lines().find_map(|l| l.strip_prefix("tallyd_reconcile_last_success_timestamp_seconds "));
    assert!(stamp.unwrap().parse::<i64>().unwrap() > 1_700_000_000, "{metrics}");
    let old = rig.sql(
        "SELECT 1 FROM reconcile_run WHERE run_id = 'old' UNION ALL SELECT 1 FROM reconcile_drift WHERE run_id = 'old'",
    );
    assert!(old.await.is_empty(), "what is old is forgotten");
    // Never two at once: a pass begins after the last one has ended.
    let overlaps = "SELECT COUNT(*) FROM reconcile_run a JOIN reconcile_run b ON a.run_id < b.run_id \
         AND b.started_at < a.started_at + INTERVAL a.duration_ms * 1000 - 2000 MICROSECOND";
    assert_eq!(rig.sql(overlaps).await[0][0].as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_owner_is_left_alone() {
    let rig = synced("").await;
    rig.sql_exec(
        "UPDATE sync_partition SET lease_owner = 'somebody', lease_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR",
    )
    .await;
    let report = pass(&rig, &["--wait-seconds", "0"], 75).await;
    assert_eq!((&report["outcome"], &report["looked_at"]), (&"failed".into(), &0.into()), "{report}");
    assert!(report["error"].as_str().unwrap().contains("somebody"), "{report}");
    for args in [&["--target", "9:1"][..], &["--target", "note"], &["--sample", "0"], &["--all", "--sample", "5"]] {
        rig.tallyd(&[&["reconcile"], args].concat()).await.expect_code(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_looks_at_about_its_share() {
    let rig = synced("").await;
    let report = pass(&rig, &["--sample", "25"], 0).await;
    let looked_at = report["looked_at"].as_u64().unwrap();
    assert!((50..150).contains(&looked_at), "{report}");
    assert_eq!((&report["of"], &report["scope"]), (&400.into(), &"sample 25.0 %".into()));
    let health = &report["sync_health"];
    assert_eq!((&health["runs"], &health["changes"]), (&1.into(), &3200.into()), "{report}");
}
