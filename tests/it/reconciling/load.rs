//! Work in flight is not drift.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{NOTES, kinds, pass, synced};
use crate::likes::{SOON, assert_agreement, like, marks, store};
use crate::support::eventually;

/// Likes and takes back on all notes until it is told to stop.
fn writer(
    rig_store: tallyd::store::Store,
    seed: i64,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut n = seed;
        while !stop.load(Ordering::Relaxed) {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let note = (n >> 33).rem_euclid(*NOTES.end()) + 1;
            like(&rig_store, note, (n >> 20).rem_euclid(40) + 1, n & 1024 == 0).await;
            written.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_data_under_load_has_no_drift() {
    let rig = synced("sync.cron = \"* * * * * *\"").await;
    let daemon = rig.spawn(&["serve", "--no-api"], &[]);
    daemon.wait_for_log("tallyd starts", SOON).await;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = Vec::new();
    for seed in 1..=4 {
        writers.push(writer(store(&rig).await, seed, stop.clone(), written.clone()));
    }
    eventually(SOON, async || written.load(Ordering::Relaxed) > 500, "the writers write").await;
    let mut looked_at = 0;
    for args in [&["--all"][..], &["--all", "--dry-run"]].into_iter().cycle().take(8) {
        let report = pass(&rig, args, 0).await;
        assert_eq!((kinds(&report).len(), &report["differing"]), (0, &0.into()), "{report}");
        looked_at += report["looked_at"].as_u64().unwrap();
    }
    assert!(looked_at > 200, "{looked_at} of 3200 were not in flight: too few to tell");
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    eventually(SOON, async || marks(&rig).await.is_empty(), "what waited is synced").await;
    assert_agreement(&rig).await;
    let report = pass(&rig, &["--all"], 0).await;
    assert_eq!(report["outcome"], "clean", "{report}");
}
