//! "Configure and reload".

use std::fs;
use std::time::Duration;

use super::blocks::blocks;
use crate::support::{Rig, Signal};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_what_a_reload_changed_and_what_it_could_not() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let before = fs::read_to_string(rig.config()).unwrap();
    let url = rig.redis.url();
    let after = before.replace(url, &format!("{}1", url.strip_suffix('0').unwrap()));
    fs::write(rig.config(), format!("{after}\nlog.level = \"debug\"\nsync.cron = \"0 * * * * *\"\n")).unwrap();
    served.signal(Signal::HUP);
    let [lines] = blocks("Configure and reload", "text").try_into().expect("one block");
    for line in lines.lines() {
        let line = line.replace("/etc/tallyd/config.toml", &rig.config().display().to_string());
        served.wait_for_log(&line, Duration::from_secs(30)).await;
    }
}
