//! Redis comes back: degraded writes are replayed into it, and both sides agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::AsyncCommands;

use crate::likes::assert_agreement;
use crate::support::{
    Http, PrivateMysql, PrivateRedis, Proxy, Redis, RedisAt, Reply, Rig, Served, create_database, eventually,
};

const AT_ONCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);
/// Half-open connections are left within this time once new ones work.
pub const RECOVERED: Duration = Duration::from_secs(15);

pub fn from_mysql(reply: &Reply) -> bool {
    reply.header("tallyd-source") == Some("mysql")
}

/// Whether these are trials at full length, which the machine does not share with other tests: `make torture`.
fn is_long() -> bool {
    std::env::var_os("TALLYD_TEST_LONG").is_some()
}

async fn number(rig: &Rig, query: &str) -> i64 {
    rig.sql(query).await[0][0].as_deref().unwrap_or("0").parse().unwrap()
}

pub async fn closed(served: &Served, limit: Duration) {
    let closed = async || {
        let status = served.admin.get("/status").await.expect(200).json();
        status["breaker"] == "closed" && status["degraded"]["pending"] == 0
    };
    eventually(limit, closed, "the breaker closes").await;
}

pub async fn synced(served: &Served) {
    let report = served.admin.post("/sync?wait_seconds=30", "").await.expect(200).json();
    assert_eq!(report["outcome"], "done", "{report}");
}

/// Sends `rate` writes a second until `stop`: likes and their cancelling, over some users and targets. How many were
/// acknowledged, and how many of those by MySQL.
async fn write_until(api: Http, rate: u64, stop: Arc<AtomicBool>) -> (u64, u64) {
    let mut tick = tokio::time::interval(Duration::from_millis(1000 / (rate / 10)));
    let mut sent = Vec::new();
    let mut n: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        tick.tick().await;
        for _ in 0..10 {
            n += 1;
            let api = api.clone();
            let path = format!("/v1/like/note/{}/users/{}", n % 20 + 1, n / 20 % 50 + 1);
            let cancel = n / 1000 % 2 == 1;
            sent.push(tokio::spawn(async move {
                let asked = Instant::now();
                let answer = if cancel { api.delete(&path).await } else { api.put(&path).await };
                assert!(asked.elapsed() < AT_ONCE, "{:?}: {answer:?}", asked.elapsed());
                answer.expect(200)
            }));
        }
    }
    let (mut all, mut mysql) = (0, 0);
    for answer in sent {
        let answer = answer.await.unwrap();
        all += 1;
        mysql += u64::from(from_mysql(&answer));
    }
    (all, mysql)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_under_load_is_balanced_afterwards() {
    let (seconds, rate) = if is_long() { (30, 500) } else { (3, 150) };
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes", "--appendfsync", "always"]).await else {
        return;
    };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "degraded.probe_seconds = 1\nsync.cron = \"*/2 * * * * *\"");
    let served = rig.serve(&[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = tokio::spawn(write_until(served.api().clone(), rate, stop.clone()));
    let some = async || number(&rig, "SELECT COUNT(*) FROM interaction_record").await > 100;
    eventually(SOON, some, "a first sync").await;
    redis.kill();
    let down = Instant::now();
    let over = async || down.elapsed() >= Duration::from_secs(seconds);
    eventually(Duration::from_secs(seconds + 5), over, "the outage").await;
    redis.start_again().await;
    closed(&served, SOON).await;
    stop.store(true, Ordering::Relaxed);
    let (all, mysql) = writers.await.unwrap();
    assert!(mysql > rate / 5 * seconds, "{mysql} of {all} writes went to MySQL");
    closed(&served, SOON).await;
    let log = served.daemon.log();
    let accepted: u64 = balance(&log).iter().map(|(accepted, _)| accepted).sum();
    assert!(balance(&log).iter().all(|(accepted, replayed)| accepted == replayed), "{log}");
    assert_eq!(accepted, mysql, "{log}");
    let status = served.admin.get("/status").await.expect(200).json();
    assert_eq!(status["degraded"]["replayed_total"], mysql);
    synced(&served).await;
    for target in 1..=20 {
        // What was loaded again only now.
        served.api().get(&format!("/v1/like/note/{target}")).await.expect(200);
    }
    assert_agreement(&rig).await;
    println!("{all} writes in all, {mysql} of them degraded and replayed");
}

/// Accepted and replayed, each time reads went back to Redis.
fn balance(log: &str) -> Vec<(u64, u64)> {
    let said = log.lines().filter_map(|line| line.split_once(" degraded writes accepted, "));
    said.map(|(before, after)| {
        let number = |word: Option<&str>| word.unwrap().parse().unwrap();
        (number(before.rsplit(' ').next()), number(after.split(' ').next()))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_left_once_new_ones_work() {
    let redis = Redis::start().await;
    let db = create_database().await;
    let proxy = Proxy::start(redis.url(), "").await;
    let rig = Rig::on(&RedisAt::at(proxy.in_front_of(redis.url())), &db, "degraded.probe_seconds = 1");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    proxy.freeze();
    for user in 2..=40 {
        assert!(from_mysql(&api.put(&format!("/v1/like/note/1/users/{user}")).await.expect(200)));
    }
    proxy.thaw();
    closed(&served, RECOVERED).await;
    let answer = api.put("/v1/like/note/1/users/41").await.expect(200);
    assert!(!from_mysql(&answer) && answer.json()["count"] == "41", "{answer:?}");
    synced(&served).await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timed_out_like_that_is_repeated_counts_once() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "redis.timeout_ms = 200");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    let mut connection = redis.connect().await;
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(10_000).arg("WRITE").query_async(&mut connection).await.unwrap();
    assert!(from_mysql(&api.put("/v1/like/note/1/users/2").await.expect(200)));
    let () = redis::cmd("CLIENT").arg("UNPAUSE").query_async(&mut connection).await.unwrap();
    let back = async || {
        let answer = api.put("/v1/like/note/1/users/2").await.expect(200);
        !from_mysql(&answer)
    };
    eventually(SOON, back, "a like in Redis").await;
    closed(&served, SOON).await;
    let state: String = connection.hget("like:1:1", 2).await.unwrap();
    let count: String = connection.hget("cnt:1:1", "like").await.unwrap();
    assert_eq!((state.as_str(), count.as_str()), ("1", "2"));
    synced(&served).await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_redis_does_not_beat_a_newer_mysql() {
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes", "--appendfsync", "always"]).await else {
        return;
    };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "degraded.probe_seconds = 1");
    let served = rig.serve(&["--no-schedule"]).await;
    let api = served.api();
    api.put("/v1/like/note/1/users/1").await.expect(200);
    redis.kill();
    let cancelled = api.delete("/v1/like/note/1/users/1").await.expect(200);
    assert!(from_mysql(&cancelled), "{cancelled:?}");
    redis.start_again().await;
    closed(&served, SOON).await;
    assert_eq!(api.get("/v1/like/note/1/users/1").await.expect(200).json()["active"], false);
    synced(&served).await;
    assert_agreement(&rig).await;
    assert_eq!(number(&rig, "SELECT SUM(status) FROM interaction_record").await, 0);
    assert_eq!(api.get("/v1/like/note/1").await.expect(200).json()["count"], "0");
}

/// The one that does not see Redis knows its clock from before.
#[tokio::test(flavor = "multi_thread")]
async fn it_comes_up_by_itself_when_both_servers_do() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let db = mysql.create_database("tallyd").await;
    let rig = Rig::on(&redis, &db, "degraded.probe_seconds = 1\nsync.cron = \"*/2 * * * * *\"");
    rig.migrate().await;
    mysql.stop().await;
    redis.stop().await;
    let served = Served::by(rig.spawn(&["serve"], &[]), true).await;
    served.admin.get("/healthz").await.expect(200);
    served.admin.get("/readyz").await.expect(503);
    served.api().put("/v1/like/note/1/users/1").await.expect_problem(503, "unavailable");
    let (begun, away) = (Instant::now(), Duration::from_secs(if is_long() { 300 } else { 3 }));
    eventually(away + SOON, async || begun.elapsed() >= away, "the time without both").await;
    assert!(served.daemon.is_running());
    redis.start_again().await;
    // MySQL is not needed for that.
    let written = async || served.api().put("/v1/like/note/1/users/1").await.status == 200;
    eventually(SOON, written, "a write once Redis is there").await;
    mysql.start_again().await;
    let copied = async || {
        rig.sql("SELECT count FROM interaction_count").await.first().is_some_and(|row| row[0].as_deref() == Some("1"))
    };
    eventually(SOON, copied, "a sync once MySQL is there").await;
    served.admin.get("/readyz").await.expect(200);
    // MySQL is not asked again for a second after it did not answer.
    let loaded = async || served.api().get("/v1/like/note/1").await.status == 200;
    eventually(SOON, loaded, "a load once MySQL is there").await;
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_most_active_is_loaded_again_after_a_restore() {
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&redis, &db, "cache.warm_top = 2");
    let served = rig.serve(&["--no-schedule"]).await;
    for (target, users) in [(1, 3), (2, 1), (3, 2)] {
        for user in 1..=users {
            served.api().put(&format!("/v1/like/note/{target}/users/{user}")).await.expect(200);
        }
    }
    synced(&served).await;
    let mut connection = redis.connect().await;
    let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
    synced(&served).await;
    let loaded = async || {
        let mut connection = redis.connect().await;
        let counts: (Option<i64>, Option<i64>) =
            (connection.hget("cnt:1:1", "like").await.unwrap(), connection.hget("cnt:1:3", "like").await.unwrap());
        counts == (Some(3), Some(2))
    };
    eventually(SOON, loaded, "the two most active targets").await;
    assert!(!connection.exists::<_, bool>("cnt:1:2").await.unwrap(), "not asked for, and not among them");
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    assert!(metrics.contains("tallyd_redis_loss_total 1\n"), "{metrics}");
}
