//! "Back up" and "MySQL was restored from a backup".

use super::{Stage, steps};

async fn nothing(_: &mut Stage, comment: &str) {
    panic!("nobody knows what this means: {comment}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_of_yesterday_gets_today_from_redis() {
    let Some(mut stage) = Stage::set("").await else { return };
    let put = async |stage: &Stage, note: u64, user: u64| {
        let api = stage.daemon.as_ref().unwrap().api();
        api.put(&format!("/v1/like/note/{note}/users/{user}")).await.expect(200);
    };
    stage.start().await;
    put(&stage, 1, 1).await;
    put(&stage, 2, 1).await;
    stage.rig.tallyd(&["sync"]).await.expect_code(0);
    // A degraded write that the backup still holds and that was replayed long ago must not come back from it.
    stage.rig.sql_exec("INSERT INTO degraded_write VALUES (1, 1, 0, 2, 1, 1, 1, 1764522000000)").await;
    stage.play(&steps("Back up"), nothing).await;
    stage.rig.sql_exec("DELETE FROM degraded_write").await;
    put(&stage, 1, 2).await;
    let api = stage.daemon.as_ref().unwrap().api();
    api.delete("/v1/like/note/2/users/1").await.expect(200);
    put(&stage, 3, 1).await;
    stage.rig.tallyd(&["sync"]).await.expect_code(0);
    let rows = "SELECT target_id, user_id, status FROM interaction_record ORDER BY 1, 2";
    let counts = "SELECT target_id, count FROM interaction_count WHERE interaction_type = 1 ORDER BY 1";
    let today = (stage.rig.sql(rows).await, stage.rig.sql(counts).await);

    stage.play(&steps("MySQL was restored from a backup"), nothing).await;
    assert_eq!((stage.rig.sql(rows).await, stage.rig.sql(counts).await), today);
    stage.rig.tallyd(&["reconcile"]).await.expect_code(0);
}
