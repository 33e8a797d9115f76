//! Restoring a partition after a proven loss: what stays, what goes, and what may come between.

mod between;
mod case14;
mod fields;
mod servers;
mod unsettled;
mod writing;

use redis::AsyncCommands;
use serde_json::Value;

use crate::likes::{like_all, load, store};
use crate::support::{Output, Rig};

/// `targets` × 20 likes, synced.
async fn liked(rig: &Rig, targets: std::ops::RangeInclusive<i64>) {
    load(&mut rig.redis.connect().await, targets.clone()).await;
    like_all(&store(rig).await, targets, 1..21).await;
    rig.tallyd(&["sync"]).await.expect_code(0);
}

/// Takes the checkpoint away: the smallest loss there is.
async fn lose(rig: &Rig) {
    assert_eq!(rig.redis.connect().await.del::<_, i64>("ckpt:1").await.unwrap(), 1);
}

/// What the report of a run says of the restore of notes.
fn restored(output: &Output) -> Value {
    output.json()["partitions"][0]["restored"].clone()
}

/// Commands for Redis, one a line.
async fn redis_all(rig: &Rig, commands: &str) {
    let mut redis = rig.redis.connect().await;
    for line in commands.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = redis::cmd(words[0]).arg(&words[1..]).query_async::<redis::Value>(&mut redis).await;
        answer.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

async fn hget(rig: &Rig, key: &str, field: &str) -> Option<String> {
    rig.redis.connect().await.hget(key, field).await.unwrap()
}
