//! The watchdog is fed while the daemon gets on, however slowly, and not when it does not.

use std::time::{Duration, Instant};

use sqlx::{Connection, Executor};

use super::{Manager, SOON};
use crate::likes::{like_all, load, records, store};
use crate::support::{Daemon, Rig, eventually, failpoints};

/// With `mysql.timeout_ms = 500` a loop may be silent for 22 s.
const SILENCE: Duration = Duration::from_secs(22);
const FED: &str = "WATCHDOG=1";
/// Fed twice a second.
const WATCHDOG: (&str, &str) = ("WATCHDOG_USEC", "2000000");

/// 500 likes in 10 chunks, to be copied when the daemon starts.
async fn start() -> Rig {
    let rig = Rig::start("sync.batch_rows = 50\nsync.cron = \"0 0 1 1 *\"\nmysql.timeout_ms = 500").await;
    rig.migrate().await;
    load(&mut rig.redis.connect().await, 1..=10).await;
    like_all(&store(&rig).await, 1..=10, 1..51).await;
    rig
}

async fn fed(manager: &Manager, times: usize) {
    manager.forget();
    eventually(SOON, async || manager.times(FED) >= times, "the watchdog is fed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_daemon_feeds_it_for_longer_than_a_loop_may_be_silent() {
    let rig = start().await;
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG]);
    manager.hears("READY=1", "").await;
    // The listeners may be silent for 45 s.
    let begun = Instant::now();
    while begun.elapsed() < 2 * SILENCE + Duration::from_secs(6) {
        fed(&manager, 10).await;
    }
    assert!(!daemon.log().contains("stuck"), "{}", daemon.log());
}

/// Every transaction of the run waits for a row that another holds, until its time is over, and is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_that_gets_on_feeds_it() {
    let rig = start().await;
    let mut holder = rig.db.connect().await;
    let manager = Manager::new();
    let mut rows = "INSERT INTO interaction_record VALUES ".to_owned();
    rows += &(1..=10).map(|target| format!("({target}, 25)")).collect::<Vec<_>>().join(", ");
    let rows = rows.replace("(", "(1, ").replace(", 25)", ", 1, 25, 1, NOW(3), NOW(3))");
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute(sqlx::AssertSqlSafe(rows)).await.unwrap();
    let daemon = manager.start(&rig, &[], &[WATCHDOG]);
    manager.hears("READY=1", "").await;
    let begun = Instant::now();
    while begun.elapsed() < SILENCE + Duration::from_secs(8) {
        fed(&manager, 10).await;
    }
    assert!(!daemon.log().contains("stuck"), "{}", daemon.log());
    assert!(daemon.log().contains("not synced"), "it was kept busy: {}", daemon.log());
    holder.close_hard().await.unwrap();
    eventually(SOON, async || records(&rig).await.len() == 500, "then it is done").await;
}

async fn starved(manager: &Manager, daemon: &Daemon, name: &str) -> Duration {
    let begun = Instant::now();
    daemon.wait_for_log(&format!("{name} is stuck: no progress for"), SOON).await;
    let took = begun.elapsed();
    manager.forget();
    // That something does not come can only be waited for: for longer than the service manager would.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(manager.times(FED), 0, "{:?}", manager.heard());
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_hangs_does_not_feed_it() {
    if !failpoints() {
        return;
    }
    let rig = start().await;
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG, ("TALLYD_FAILPOINT", "after_read:hang")]);
    manager.hears("READY=1", "").await;
    fed(&manager, 10).await;
    let took = starved(&manager, &daemon, "the sync driver").await;
    assert!(took > SILENCE / 2, "{took:?}");
    assert!(daemon.is_running(), "to end it is for the service manager");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_dies_ends_the_process_with_a_failure() {
    if !failpoints() {
        return;
    }
    let rig = start().await;
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG, ("TALLYD_FAILPOINT", "after_read:panic")]);
    let output = daemon.output(SOON).await.expect_code(1);
    assert!(output.stderr.contains("the sync driver has panicked: tallyd ends"), "{}", output.stderr);
}
