//! Faults that take data out of Redis. Each is made while no client has a request under way; what MySQL holds right
//! afterwards decides what may be lost (see [`crate::record`]). Runs and restores may go on meanwhile: what they add to
//! MySQL only narrows that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clients::{TARGET_TYPES, TARGETS, VIEW};
use crate::faults::{SOON, says, tell};
use crate::proxy::Proxy;
use crate::rows;
use crate::support::{PrivateRedis, eventually};
use crate::world::{DURABLE, World, now_ms};

const AT_LEAST_BYTES: u64 = 20;
const AT_MOST_BYTES: u64 = 60_000;

/// Takes note of what may be lost of these targets. Nobody may have a request under way.
async fn note(world: &World, of: impl Fn(i64) -> bool) {
    let now = now_ms();
    let rows = rows::records(&world.db).await.unwrap();
    let counts = rows::counts(&world.db).await.unwrap();
    let views = counts.into_iter().filter(|((_, _, interaction), _)| *interaction == VIEW);
    let views = views.map(|((target_type, target, _), count)| ((target_type, target), u64::try_from(count).unwrap()));
    world.record.lock().unwrap().lost_data(now, of, &rows, &views.collect());
}

pub async fn flush(world: &World) {
    let redis = world.redis.lock().await;
    let _nobody_asks = world.gate.write().await;
    tell(&redis, &["FLUSHALL"]).await;
    note(world, |_| true).await;
}

/// A replica follows, is cut off for as long, and becomes the server.
pub async fn promote_replica(world: &World, lasting: Duration) {
    let mut redis = world.redis.lock().await;
    let between = Proxy::start(redis.server().port()).await;
    let port = between.port().to_string();
    let replica = PrivateRedis::start(&DURABLE).await.expect("the first one was private, too");
    // Not an option of its command line, which would hold for its next start, too.
    tell(&replica, &["REPLICAOF", "127.0.0.1", &port]).await;
    let follows = async || says(&replica, "replication", "master_link_status:up").await;
    eventually(SOON, follows, "the replica follows").await;
    between.swallow(true);
    tokio::time::sleep(lasting).await;

    let _nobody_asks = world.gate.write().await;
    tell(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    world.redis_net.turn_to(replica.server().port());
    *redis = replica;
    note(world, |_| true).await;
}

/// The crash of a machine whose disk had not yet got the end of the append-only file.
pub async fn cut_file(world: &World, choice: u32) {
    let mut redis = world.redis.lock().await;
    let _nobody_asks = world.gate.write().await;
    redis.kill();
    let newest = newest_file(&files(&redis));
    let file = fs::OpenOptions::new().write(true).open(newest).unwrap();
    let missing = AT_LEAST_BYTES + u64::from(choice) % AT_MOST_BYTES;
    file.set_len(file.metadata().unwrap().len().saturating_sub(missing)).unwrap();
    redis.start_again().await;
    note(world, |_| true).await;
}

/// A backup made so long before.
pub async fn old_files(world: &World, lasting: Duration) {
    let mut redis = world.redis.lock().await;
    let (current, old) = (files(&redis), redis.server().home().join("old"));
    copy(&current, &old);
    tokio::time::sleep(lasting).await;

    let _nobody_asks = world.gate.write().await;
    redis.kill();
    fs::remove_dir_all(&current).unwrap();
    fs::rename(&old, &current).unwrap();
    redis.start_again().await;
    note(world, |_| true).await;
}

/// Some keys of every fourth target.
pub async fn evict(world: &World, choice: u32) {
    let (redis, choice) = (world.redis.lock().await, i64::from(choice));
    let evicted = |target: i64| target % 4 == choice % 4;
    let words = [&["like"][..], &["cnt"], &["like", "collect", "cnt"]][usize::try_from(choice / 4 % 3).unwrap()];
    let _nobody_asks = world.gate.write().await;
    for target in (1..=TARGETS).filter(|&target| evicted(target)) {
        for (target_type, _) in TARGET_TYPES {
            for word in words {
                tell(&redis, &["UNLINK", &format!("{word}:{target_type}:{target}")]).await;
            }
        }
    }
    note(world, evicted).await;
}

fn files(redis: &PrivateRedis) -> PathBuf {
    redis.server().home().join("appendonlydir")
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(copied.success(), "cp -r: {copied}");
}

/// `appendonly.aof.<number>.incr.aof` with the greatest number.
fn newest_file(folder: &Path) -> PathBuf {
    let number = |path: &PathBuf| -> Option<u64> {
        path.file_name()?.to_str()?.strip_suffix(".incr.aof")?.rsplit_once('.')?.1.parse().ok()
    };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| number(path).is_some()).max_by_key(number).expect("an append-only file")
}
