//! The support keeps its promises; what rests on it is not worth more than it is.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, io};

use redis::AsyncCommands;
use sqlx::Connection;

use crate::support::{
    Daemon, PrivateMysql, PrivateRedis, Redis, Rig, Signal, bound, create_database, eventually, is_alive, new_home,
    sweep,
};

const LIMIT: Duration = Duration::from_secs(30);

fn row(values: &[Option<&str>]) -> Vec<Option<String>> {
    values.iter().map(|v| v.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_test_has_a_database_of_its_own_and_leaves_none() {
    let (one, two) = (create_database().await, create_database().await);
    one.sql_exec(
        "CREATE TABLE t (a INT, b DATETIME(3), c TEXT); INSERT INTO t VALUES (-1, '2026-03-29 01:00:00', NULL)",
    )
    .await;

    assert_eq!(one.sql("SELECT * FROM t").await, [row(&[Some("-1"), Some("2026-03-29 01:00:00.000"), None])]);
    assert_eq!(two.sql("SHOW TABLES").await, [] as [Vec<_>; 0]);

    let name = one.name.clone();
    drop(one);
    let left = two.sql(&format!("SHOW DATABASES LIKE '{name}'")).await;
    assert_eq!(left, [] as [Vec<_>; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_mysql_keeps_its_data_when_stopped_or_killed() {
    let Some(mut mysql) = PrivateMysql::start(&["--max_allowed_packet=1M"]).await else { return };
    let db = mysql.create_database("kept").await;
    db.sql_exec("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;

    mysql.stop().await;
    assert!(sqlx::MySqlConnection::connect(&db.url).await.is_err());
    mysql.start_again().await;
    db.sql_exec("INSERT INTO t VALUES (2)").await;
    mysql.kill();
    mysql.start_again().await;

    assert_eq!(db.sql("SELECT SUM(a), @@max_allowed_packet FROM t").await, [row(&[Some("3"), Some("1048576")])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_redis_loses_or_keeps_its_data_as_told() {
    for (options, kept) in [(&[][..], None), (&["--appendonly", "yes", "--appendfsync", "always"], Some("1"))] {
        let Some(mut redis) = PrivateRedis::start(options).await else { return };
        redis.connect().await.set::<_, _, ()>("key", 1).await.unwrap();
        redis.kill();
        redis.start_again().await;
        let value: Option<String> = redis.connect().await.get("key").await.unwrap();
        assert_eq!(value.as_deref(), kept, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_test_has_an_empty_redis_of_its_own() {
    let (one, two) = (Redis::start().await, Redis::start().await);
    one.connect().await.set::<_, _, ()>("key", 1).await.unwrap();
    assert_eq!(two.connect().await.exists::<_, bool>("key").await, Ok(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_shows_the_commands_of_a_client_and_of_its_scripts() {
    let redis = Redis::start().await;
    let mut connection = redis.connect().await;
    connection.set::<_, _, ()>("before", 1).await.unwrap();

    let commands = redis
        .commands_of(async || {
            connection.set::<_, _, ()>("a key", "\"1\"\r\n").await.unwrap();
            let script = "return redis.call('hset', KEYS[1], '42', '1')";
            redis::cmd("EVAL").arg(script).arg(1).arg("like:1:10086").query_async::<()>(&mut connection).await.unwrap();
        })
        .await;

    let names: Vec<_> = commands.iter().map(|c| (c.name(), c.from_script)).collect();
    assert_eq!(names, [("SET", false), ("EVAL", false), ("HSET", true)]);
    assert_eq!(commands[0].words, ["SET", "a key", "\"1\"\r\n"]);
    assert_eq!(commands[2].words, ["HSET", "like:1:10086", "42", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_is_signalled_read_and_measured() {
    let mut command = bound("sh");
    command.args(["-c", "trap 'echo out; echo bye >&2; exit 7' TERM; echo ready >&2; while :; do sleep 0.02; done"]);
    let daemon = Daemon::start("sh", command);
    daemon.wait_for_log("ready", LIMIT).await;
    eventually(LIMIT, async || daemon.peak_rss_kib() > 0, "its memory is measured").await;
    daemon.signal(Signal::TERM);
    let output = daemon.output(LIMIT).await.expect_code(7);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "ready\nbye\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rig_runs_the_binary_on_servers_that_can_be_reached() {
    let rig = Rig::start("sync.batch_rows = 10").await;
    rig.tallyd(&["--version"]).await.expect_code(0);
    rig.sql_exec("CREATE TABLE t (a INT)").await;
    assert_eq!(rig.sql("SELECT COUNT(*) FROM t").await, [row(&[Some("0")])]);
    let config = fs::read_to_string(rig.config()).unwrap();
    assert!(config.starts_with("redis.url = \"redis://") && config.ends_with("sync.batch_rows = 10\n"), "{config}");
}

/// Runs itself a second time as a child that holds servers until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn no_server_outlives_a_test_process_that_is_killed() {
    const ITSELF: &str = "support_works::no_server_outlives_a_test_process_that_is_killed";
    const CHILD: &str = "TALLYD_TEST_HOLDS_SERVERS";

    let Some(mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    if env::var_os(CHILD).is_some() {
        let pids = [mysql.server().pid(), redis.server().pid()].map(Option::unwrap);
        writeln!(io::stderr(), "holding {} {} {} .", pids[0], pids[1], new_home("held").keep().display()).unwrap();
        std::future::pending::<()>().await;
    }
    drop((mysql, redis));

    let mut command = bound(env::current_exe().unwrap());
    command.args(["--exact", ITSELF, "--nocapture"]).env(CHILD, "1").stdin(Stdio::null());
    let child = Daemon::start("a test process", command);
    let log = child.wait_for_log(" .\n", LIMIT).await;
    let words: Vec<_> = log.split_once("holding ").unwrap().1.split(' ').collect();
    let pids = [words[0], words[1]].map(|pid| pid.parse().unwrap());
    let home = fs::canonicalize(words[2]).unwrap();
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    sweep();
    assert!(home.exists(), "a living process keeps its folder");

    child.signal(Signal::KILL);
    child.wait(LIMIT).await;
    eventually(LIMIT, async || !pids.iter().any(|&pid| is_alive(pid)), "its servers have ended").await;
    sweep();
    assert!(!home.exists(), "what it left is removed");
}
