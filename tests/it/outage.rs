//! Servers that are away, refuse, or swallow what is sent: a run says so, in bounded time (hazard 23).

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::likes::{SOON, assert_agreement, like_all, load, marks, records, store};
use crate::support::{
    DatabaseAt, Output, PrivateMysql, PrivateRedis, Proxy, Redis, RedisAt, Rig, create_database, eventually,
};

/// `mysql.timeout_ms`
const TIMEOUT: Duration = Duration::from_secs(1);
const CONFIG: &str = "mysql.timeout_ms = 1000\nsync.batch_rows = 20";
/// What tallyd may need beyond its time limit.
const MARGIN: Duration = Duration::from_secs(2);

/// 100 likes, not synced.
async fn fill(rig: &Rig) {
    rig.migrate().await;
    load(&mut rig.redis.connect().await, 1..=5).await;
    like_all(&store(rig).await, 1..=5, 1..21).await;
}

async fn timed(rig: &Rig, args: &[&str]) -> (Output, Duration) {
    let begun = Instant::now();
    let output = rig.tallyd(args).await;
    (output, begun.elapsed())
}

/// Every command that needs the server fails within `limit`, and what it prints names all of `words`.
async fn expect_failure(rig: &Rig, limit: Duration, words: &[&str]) {
    let commands = [
        &["sync", "--now", "--json"][..],
        &["sync", "--dry-run", "--json"],
        &["sync"],
        &["status"],
        &["status", "--json"],
        &["check"],
        &["check", "--json"],
    ];
    // Side by side: most of them wait.
    for (args, (output, took)) in commands.iter().zip(join_all(commands.map(|args| timed(rig, args))).await) {
        let output = output.expect_code(1);
        assert!(took < limit, "{args:?} took {took:?}");
        assert!(words.iter().all(|word| output.stdout.contains(word)), "{args:?}: {}", output.stdout);
        assert!(!output.stdout.contains("pool timed out"), "{args:?}: {}", output.stdout);
        let json = if args.contains(&"--json") { output.json() } else { continue };
        if args[0] == "sync" {
            assert_eq!(json["outcome"], "failed");
            let errors: Vec<_> = (0..4).map(|n| json["partitions"][n]["error"].as_str().unwrap()).collect();
            assert!(errors.iter().all(|error| words.iter().all(|word| error.contains(word))), "{errors:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_named_with_the_cause() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(mut redis) = PrivateRedis::start(&["--appendonly", "yes"]).await else { return };
    let rig = Rig::on(&redis, &mysql.create_database("likes").await, CONFIG);
    fill(&rig).await;

    mysql.stop().await;
    let host = format!("127.0.0.1:{}", mysql.server().port());
    expect_failure(&rig, TIMEOUT + MARGIN, &["MySQL at", &host, "Connection refused"]).await;
    let status = rig.tallyd(&["status", "--json"]).await.json();
    assert_eq!((&status["redis"]["up"], &status["mysql"]["up"]), (&true.into(), &false.into()));
    assert_eq!(status["partitions"][0]["changes"], 100, "what Redis knows is still told");
    mysql.start_again().await;

    redis.stop().await;
    let host = format!("127.0.0.1:{}", redis.server().port());
    expect_failure(&rig, TIMEOUT + MARGIN, &["Redis at", &host, "Connection refused"]).await;
    let status = rig.tallyd(&["status", "--json"]).await.json();
    assert_eq!((&status["redis"]["up"], &status["mysql"]["up"]), (&false.into(), &true.into()));
    redis.start_again().await;

    assert_eq!(marks(&rig).await, ["dirty:1", "chg:1"]);
    rig.tallyd(&["sync"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up() {
    let (redis, db, hole) = (Redis::start().await, create_database().await, Proxy::black_hole().await);
    let host = format!("127.0.0.1:{}", hole.port());
    let rig = Rig::on(&redis, &DatabaseAt { url: hole.in_front_of(&db.url), name: db.name.clone() }, CONFIG);
    expect_failure(&rig, TIMEOUT + MARGIN, &["MySQL at", &host, "no answer within 1000 ms"]).await;
    // It is waited for once, not again for the ledger.
    rig.configure("mysql.timeout_ms = 4000");
    let (output, took) = timed(&rig, &["sync", "--json"]).await;
    output.expect_code(1);
    assert!(took < Duration::from_secs(4) + MARGIN, "{took:?}");

    let rig = Rig::on(&RedisAt::at(hole.in_front_of(redis.url())), &db, CONFIG);
    rig.migrate().await;
    // A run waits up to 5 s for an answer of Redis.
    expect_failure(&rig, Duration::from_secs(5) + MARGIN, &["Redis at", &host]).await;
}

/// The locks of a transaction that nobody will ever end do not stand in the way of later runs, nor does the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_falls_silent_in_the_middle_of_a_run() {
    let (redis, db) = (Redis::start().await, create_database().await);
    let rig = Rig::on(&redis, &db, CONFIG);
    fill(&rig).await;
    // By then the records and counts of a chunk are written, and not committed.
    let proxy = Proxy::start(&db.url, "UPDATE sync_partition SET checkpoint").await;
    let through = Rig::on(&redis, &DatabaseAt { url: proxy.in_front_of(&db.url), name: db.name.clone() }, CONFIG);
    let (output, took) = timed(&through, &["sync", "--json"]).await;
    let output = output.expect_code(1);
    assert!(proxy.is_frozen());
    // Six attempts at a chunk, then the lease is given back in vain, then three partitions and the ledger.
    assert!(took < 12 * TIMEOUT + Duration::from_secs(5), "{took:?}");
    let error = output.json()["partitions"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&format!("127.0.0.1:{}", proxy.port())) && error.contains("no answer"), "{error}");
    assert!(output.json()["retries"].as_u64().unwrap() >= 5, "{}", output.stdout);
    assert_eq!(records(&rig).await.len(), 0, "nothing is half there");

    rig.tallyd(&["sync", "--json", "--wait-seconds", "30"]).await.expect_code(0);
    assert_agreement(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_falls_silent_in_the_middle_of_a_run() {
    let (redis, db) = (Redis::start().await, create_database().await);
    let rig = Rig::on(&redis, &db, CONFIG);
    fill(&rig).await;
    let proxy = Proxy::start(redis.url(), "HMGET").await;
    let through = Rig::on(&RedisAt::at(proxy.in_front_of(redis.url())), &db, CONFIG);
    let (output, took) = timed(&through, &["sync", "--json"]).await;
    let output = output.expect_code(1);
    // 5 s for the answer, 2 s for each attempt to connect again.
    assert!(proxy.is_frozen() && took < Duration::from_secs(5 + 4 * 2) + MARGIN, "{took:?}");
    let error = output.json()["partitions"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&format!("127.0.0.1:{}", proxy.port())), "{error}");

    // Only one connection falls silent: the rest of the run does not suffer for it.
    proxy.thaw();
    let run = through.spawn(&["sync", "--json"], &[]);
    eventually(SOON, async || proxy.is_frozen(), "the run reads a chunk").await;
    proxy.thaw();
    let output = run.output(SOON).await.expect_code(1);
    let outcomes = (0..4).map(|n| output.json()["partitions"][n]["outcome"].as_str().unwrap().to_owned());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["failed", "done", "done", "done"], "{}", output.stdout);
    assert_eq!(output.json()["left"], 5, "{}", output.stdout);

    // The lease was given back.
    rig.tallyd(&["sync", "--json", "--wait-seconds", "0"]).await.expect_code(0);
    assert_agreement(&rig).await;
}
