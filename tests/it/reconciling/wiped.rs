//! A Redis that lost everything lowers nothing, however often it is reconciled (hazard 14).

use super::{pass, synced};
use crate::likes::{count_rows, dump};

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_redis_never_lowers_a_count() {
    let rig = synced("").await;
    let (rows, counts) = (dump(&rig).await, count_rows(&rig).await);
    redis::cmd("FLUSHDB").query_async::<()>(&mut rig.redis.connect().await).await.unwrap();
    // The loss is left to a run; nothing is compared with what is not there.
    for _ in 0..50 {
        let report = pass(&rig, &[], 1).await;
        assert!(report["error"].as_str().unwrap().contains("lost writes"), "{report}");
    }
    assert_eq!(dump(&rig).await, rows);
    rig.tallyd(&["sync"]).await.expect_code(0);
    for _ in 0..50 {
        let report = pass(&rig, &[], 0).await;
        assert_eq!((&report["outcome"], &report["looked_at"]), (&"clean".into(), &400.into()), "{report}");
    }
    assert_eq!((dump(&rig).await, count_rows(&rig).await), (rows, counts));
}
