//! A wiped or evicted Redis does not overwrite the database (hazard 14).

use redis::AsyncCommands;

use crate::likes::{assert_agreement, count_rows, records, reload};
use crate::support::{Rig, Served, sequence};

/// MySQL says 1,000 likes of note 8, and Redis holds them.
async fn thousand() -> (Rig, Served) {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    rig.sql_exec(&format!(
        "INSERT INTO interaction_record SELECT 1, 8, 1, seq, 1, '2026-01-01', '2026-01-01' FROM {} s;
         INSERT INTO interaction_count VALUES (1, 8, 1, 1000, '2026-01-01')",
        sequence(1000)
    ))
    .await;
    // One more, taken back: a run leaves a checkpoint on both sides.
    served.api().put("/v1/like/1/8/users/5000").await.expect(200);
    served.api().delete("/v1/like/1/8/users/5000").await.expect(200);
    sync(&served).await;
    assert_eq!(count(&served).await, "1000");
    (rig, served)
}

async fn sync(served: &Served) -> serde_json::Value {
    let report = served.admin.post("/sync?wait_seconds=60", "").await.expect(200).json();
    assert_eq!(report["outcome"], "done", "{report}");
    report
}

async fn count(served: &Served) -> String {
    let count = served.api().get("/v1/like/1/8").await.expect(200).json()["count"].clone();
    count.as_str().unwrap().to_owned()
}

/// One like more makes 1,001, everywhere and for good.
async fn like_and_look(rig: &Rig, served: &Served) -> serde_json::Value {
    let liked = served.api().put("/v1/like/1/8/users/7777").await.expect(200).json();
    assert_eq!((&liked["count"], &liked["changed"]), (&"1001".into(), &true.into()));
    let report = sync(served).await;
    for _ in 0..2 {
        assert_eq!(count(served).await, "1001");
        assert_eq!(count_rows(rig).await[&(8, 0)], 1001);
        assert_eq!(records(rig).await.values().sum::<i64>(), 1001);
        reload(rig, [8]).await;
        assert_agreement(rig).await;
        sync(served).await;
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_redis_does_not_overwrite_the_database() {
    let (rig, served) = thousand().await;
    redis::cmd("FLUSHDB").query_async::<()>(&mut rig.redis.connect().await).await.unwrap();
    let report = like_and_look(&rig, &served).await;
    let restored = &report["partitions"][0]["restored"];
    assert_eq!((&restored["kind"], &restored["kept"]), (&"missing".into(), &1.into()), "{report}");
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    // Every partition had a checkpoint to lose only if it ever had work: notes alone.
    assert!(metrics.lines().any(|line| line == "tallyd_redis_loss_total 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_key_does_not_overwrite_the_database() {
    for key in ["like:1:8", "cnt:1:8"] {
        let (rig, served) = thousand().await;
        assert_eq!(rig.redis.connect().await.del::<_, i64>(key).await.unwrap(), 1);
        let report = like_and_look(&rig, &served).await;
        assert!(report["partitions"][0]["restored"].is_null(), "{key}: {report}");
    }
}
