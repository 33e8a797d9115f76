//! Doing what was planned, and undoing it.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::losses;
use crate::plan::{Fault, Planned};
use crate::proxy::Proxy;
use crate::support::{PrivateRedis, eventually};
use crate::tallyd::Tallyd;
use crate::world::World;

pub const SOON: Duration = Duration::from_secs(30);
/// Longer than a daemon waits for Redis.
const PAUSE_AT_LEAST: Duration = Duration::from_millis(400);
/// A `sync --now` takes this long to begin, on a slow machine.
const SYNC_MS: u64 = 300;

/// One fault from beginning to end; afterwards everything runs.
pub async fn inflict(world: &World, planned: Planned) {
    let Planned { fault, after, lasting, choice } = planned;
    tokio::time::sleep(after).await;
    world.tally.fault(fault);
    let daemon = &world.daemons[usize::try_from(choice).unwrap() % world.daemons.len()];
    match fault {
        Fault::KillDaemon => kill_daemon(world, daemon, lasting).await,
        Fault::KillDaemons => {
            let all = world.daemons.iter().map(|daemon| kill_daemon(world, daemon, lasting));
            futures::future::join_all(all).await;
        }
        Fault::StopDaemon => {
            let process = daemon.turn().await;
            daemon.stop_for(process.as_ref(), lasting).await;
        }
        Fault::KillSync => world.sync_now(Duration::from_millis(u64::from(choice) % SYNC_MS)).await,
        Fault::KillRedis => kill_redis(world, lasting).await,
        Fault::StopRedis => stop(world.redis.lock().await.server().pid(), lasting).await,
        Fault::HoleRedis => swallow(&world.redis_net, true, lasting).await,
        Fault::HoleOldRedis => swallow(&world.redis_net, false, lasting).await,
        Fault::RefuseRedis => refuse(&world.redis_net, lasting).await,
        Fault::PauseRedis => {
            let (redis, lasting) = (world.redis.lock().await, lasting.max(PAUSE_AT_LEAST));
            tell(&redis, &["CLIENT", "PAUSE", &lasting.as_millis().to_string()]).await;
            tokio::time::sleep(lasting).await;
        }
        Fault::ForgetScripts => tell(&*world.redis.lock().await, &["SCRIPT", "FLUSH"]).await,
        Fault::FillRedis => {
            let redis = world.redis.lock().await;
            tell(&redis, &["CONFIG", "SET", "maxmemory", "1"]).await;
            tokio::time::sleep(lasting).await;
            tell(&redis, &["CONFIG", "SET", "maxmemory", "0"]).await;
        }
        Fault::ReadonlyRedis => {
            let redis = world.redis.lock().await;
            // Nobody listens there, so that it keeps what it has.
            tell(&redis, &["REPLICAOF", "127.0.0.1", "1"]).await;
            tokio::time::sleep(lasting).await;
            tell(&redis, &["REPLICAOF", "NO", "ONE"]).await;
        }
        Fault::MisconfiguredRedis => misconfigure(&*world.redis.lock().await, lasting).await,
        Fault::KillMysql => kill_mysql(world, lasting).await,
        Fault::StopMysql => stop(world.mysql.lock().await.server().pid(), lasting).await,
        Fault::HoleMysql => swallow(&world.mysql_net, true, lasting).await,
        Fault::HoleOldMysql => swallow(&world.mysql_net, false, lasting).await,
        Fault::RefuseMysql => refuse(&world.mysql_net, lasting).await,
        Fault::KillBoth => {
            tokio::join!(kill_redis(world, lasting), kill_mysql(world, lasting));
        }
        Fault::Flush => losses::flush(world).await,
        Fault::PromoteReplica => losses::promote_replica(world, lasting).await,
        Fault::CutFile => losses::cut_file(world, choice).await,
        Fault::OldFiles => losses::old_files(world, lasting).await,
        Fault::Evict => losses::evict(world, choice).await,
    }
}

/// One command to Redis, past the proxy.
pub async fn tell(redis: &PrivateRedis, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]).query_async::<()>(&mut redis.connect().await).await.unwrap();
}

async fn kill_daemon(world: &World, daemon: &Tallyd, lasting: Duration) {
    let mut process = daemon.turn().await;
    daemon.kill(&mut process);
    tokio::time::sleep(lasting).await;
    daemon.start_again(&world.rig, &mut process).await;
}

async fn kill_redis(world: &World, lasting: Duration) {
    let mut redis = world.redis.lock().await;
    redis.kill();
    tokio::time::sleep(lasting).await;
    redis.start_again().await;
}

async fn kill_mysql(world: &World, lasting: Duration) {
    let mut mysql = world.mysql.lock().await;
    {
        let mut seen = world.watcher.hold().await;
        mysql.kill();
        seen.server_was_killed();
    }
    tokio::time::sleep(lasting).await;
    mysql.start_again().await;
}

/// SIGSTOP for as long.
async fn stop(server: Option<u32>, lasting: Duration) {
    let pid = Pid::from_raw(i32::try_from(server.expect("it runs")).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    tokio::time::sleep(lasting).await;
    kill_process(pid, Signal::CONT).unwrap();
}

async fn swallow(net: &Proxy, new_ones: bool, lasting: Duration) {
    net.swallow(new_ones);
    tokio::time::sleep(lasting).await;
    net.open();
}

async fn refuse(net: &Proxy, lasting: Duration) {
    net.refuse();
    tokio::time::sleep(lasting).await;
    net.open();
}

/// A Redis whose snapshots fail refuses writes while it is told to make some. A folder is where its file should be.
async fn misconfigure(redis: &PrivateRedis, lasting: Duration) {
    let file = redis.server().home().join("dump.rdb");
    // A promoted replica has one, and loads the append-only file all the same.
    let _ = fs::remove_file(&file);
    fs::create_dir(&file).unwrap();
    tell(redis, &["CONFIG", "SET", "save", "3600 1"]).await;
    tell(redis, &["BGSAVE"]).await;
    let failed = async || says(redis, "persistence", "rdb_last_bgsave_status:err").await;
    eventually(SOON, failed, "the snapshot fails").await;
    tokio::time::sleep(lasting).await;
    tell(redis, &["CONFIG", "SET", "save", ""]).await;
    fs::remove_dir(&file).unwrap();
}

/// Whether this line is in a section of INFO.
pub async fn says(redis: &PrivateRedis, section: &str, line: &str) -> bool {
    let info: String = redis::cmd("INFO").arg(section).query_async(&mut redis.connect().await).await.unwrap();
    info.lines().any(|found| found == line)
}
