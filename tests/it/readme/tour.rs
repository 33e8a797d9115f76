//! "Five minutes".

use super::{Stage, steps};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_is_true() {
    let Some(mut stage) = Stage::set("degraded.probe_seconds = 1").await else { return };
    stage.play(&steps("Five minutes"), aside).await;
}

async fn aside(stage: &mut Stage, comment: &str) {
    let served = stage.daemon.as_ref().expect("the daemon is started");
    match comment {
        "# 128 more users like it" => {
            for user in 100..=227 {
                served.api().put(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
            }
        }
        "# Redis is killed" => stage.redis.kill(),
        "# Redis is started again" => {
            stage.redis.start_again().await;
            let replayed = async || {
                let status = served.admin.get("/status").await.expect(200).json();
                status["breaker"] == "closed" && status["degraded"]["replayed_total"] == 1
            };
            eventually(std::time::Duration::from_mins(1), replayed, "the write is replayed").await;
        }
        other => panic!("nobody knows what this means: {other}"),
    }
}
