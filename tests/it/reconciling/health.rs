//! A report tells how syncing did since the last one that was caused alike.

use super::{pass, synced};
use crate::likes::SOON;
use crate::support::Signal;

#[tokio::test(flavor = "multi_thread")]
async fn writes_for_one_change_and_how_long_changes_waited_are_told() {
    let rig = synced("").await;
    let before = pass(&rig, &["--all"], 0).await["sync_health"].clone();
    assert_eq!((&before["changes"], &before["since"]), (&3200.into(), &serde_json::Value::Null), "{before}");

    let served = rig.serve(&["--no-schedule"]).await;
    for n in 0..5 {
        let path = "/v1/like/note/1/users/2";
        if n % 2 == 0 { served.api().delete(path).await } else { served.api().put(path).await }.expect(200);
    }
    served.signal(Signal::TERM);
    served.wait(SOON).await;
    let old = "UPDATE sync_run SET report = JSON_SET(report, '$.lag_ms.up_to', JSON_OBJECT('100', 1, '60000', 99))";
    rig.sql_exec(old).await;
    rig.tallyd(&["sync"]).await.expect_code(0);

    let health = pass(&rig, &["--all"], 0).await["sync_health"].clone();
    assert_eq!(
        (&health["runs"], &health["changes"], &health["coalescing"]),
        (&1.into(), &1.into(), &5.0.into()),
        "{health}"
    );
    assert!(health["since"].is_string(), "{health}");
    let waited = health["lag_p50_ms"].as_u64().unwrap();
    assert!((100..10_000).contains(&waited), "only what came since is told of: {health}");
    assert_eq!(health["lag_p50_ms"], health["lag_p99_ms"]);
    let none = pass(&rig, &["--all"], 0).await["sync_health"].clone();
    assert_eq!((&none["runs"], none.get("coalescing"), none.get("lag_p50_ms")), (&0.into(), None, None), "{none}");
}
