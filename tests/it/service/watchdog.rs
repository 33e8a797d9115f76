//! The watchdog is fed while the daemon gets on, however slowly, and not when it does not.

use std::time::{Duration, Instant};

use super::{Manager, SOON};
use crate::likes::{like_all, load, store};
use crate::support::{Daemon, Rig, Served, eventually, failpoints};

/// With `mysql.timeout_ms = 500` a loop may be silent for 22 s.
const SILENCE: Duration = Duration::from_secs(22);
const QUICK: &str = "mysql.timeout_ms = 500";
const FED: &str = "WATCHDOG=1";
/// Fed twice a second.
const WATCHDOG: (&str, &str) = ("WATCHDOG_USEC", "2000000");

/// 500 likes, to be copied when the daemon starts.
async fn start(extra: &str) -> Rig {
    let rig = Rig::start(&format!("sync.cron = \"0 0 1 1 *\"\n{extra}")).await;
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
    let rig = start(QUICK).await;
    let tokens = rig.dir().join("tokens");
    std::fs::write(&tokens, "a-token\n").unwrap();
    rig.configure(&format!("{QUICK}\napi.token_file = {:?}", tokens.display().to_string()));
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG]);
    manager.hears("READY=1", "").await;
    let served = Served::by(daemon, true).await;
    // The listeners may be silent for 45 s.
    let begun = Instant::now();
    while begun.elapsed() < 2 * SILENCE + Duration::from_secs(6) {
        fed(&manager, 10).await;
    }
    assert!(!served.log().contains("stuck"), "{}", served.log());
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    let asked = |status: &str| {
        let series =
            format!("tallyd_http_requests_total{{method=\"GET\",route=\"/openapi.json\",status=\"{status}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok()).unwrap()
    };
    assert!(asked("2xx") >= 5 && asked("4xx") == 0, "the API is asked with a token:\n{metrics}");
}

/// A run of many small transactions, each of them slow.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_that_gets_on_feeds_it() {
    let rig = start("sync.batch_rows = 2\nmysql.timeout_ms = 1000").await;
    rig.sql_exec("CREATE TRIGGER slow BEFORE INSERT ON interaction_record FOR EACH ROW DO SLEEP(0.12)").await;
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG]);
    manager.hears("READY=1", "").await;
    manager.forget();
    let log = daemon.wait_for_log("trigger=\"start\" outcome=\"done\"", 2 * SOON).await;
    let duration = log.lines().find_map(|line| line.rsplit_once("duration_ms=")?.1.parse().ok());
    let duration = Duration::from_millis(duration.expect("the line of a run ends with its duration"));
    assert!(duration > SILENCE + Duration::from_secs(2), "{duration:?} is no long run:\n{log}");
    assert!(!log.contains("stuck"), "{log}");
    // Twice a second, and once at least, however busy the machine is.
    assert!(manager.times(FED) as u64 > duration.as_secs(), "{} times in {duration:?}", manager.times(FED));
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
    let rig = start(QUICK).await;
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
    let rig = start(QUICK).await;
    let manager = Manager::new();
    let daemon = manager.start(&rig, &[], &[WATCHDOG, ("TALLYD_FAILPOINT", "after_read:panic")]);
    let output = daemon.output(SOON).await.expect_code(1);
    assert!(output.stderr.contains("the sync driver has panicked: tallyd ends"), "{}", output.stderr);
}
