//! A dry run finds the same and changes nothing.

use std::collections::BTreeMap;

use redis::AsyncCommands;

use super::damage::{INJECTED, inject};
use super::{ALL, kinds, pass, synced};
use crate::support::Rig;

/// All of Redis, as DUMP gives it, and every table.
async fn everything(rig: &Rig) -> (BTreeMap<String, Vec<u8>>, Vec<Vec<Vec<Option<String>>>>) {
    let mut redis = rig.redis.connect().await;
    let mut held = BTreeMap::new();
    for key in redis.keys::<_, Vec<String>>("*").await.unwrap() {
        let dumped: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
        held.insert(key, dumped);
    }
    let mut tables = Vec::new();
    for table in rig.sql("SHOW TABLES").await {
        tables.push(rig.sql(&format!("SELECT * FROM {}", table[0].as_deref().unwrap())).await);
    }
    (held, tables)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_finds_the_same_and_changes_not_one_byte() {
    let rig = synced(ALL).await;
    for (note, (kind, ..)) in (1..).zip(INJECTED) {
        inject(&rig, kind, if kind == "orphan_row" { 10_000 } else { note }).await;
    }
    let before = everything(&rig).await;
    let dry = pass(&rig, &["--dry-run"], 3).await;
    assert_eq!(everything(&rig).await, before);
    assert_eq!(
        (&dry["dry_run"], &dry["outcome"], &dry["residual"]),
        (&true.into(), &"drift".into(), &10.into()),
        "{dry}"
    );

    let report = pass(&rig, &[], 0).await;
    assert_eq!(kinds(&report), kinds(&dry));
    let before = everything(&rig).await;
    let dry = pass(&rig, &["--dry-run"], 0).await;
    assert_eq!(everything(&rig).await, before);
    assert_eq!(dry["outcome"], "clean", "{dry}");
}
