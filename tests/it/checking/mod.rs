//! `tallyd check`: what it finds, and whether what it says mends it.

mod least;
mod mending;

use std::process::Command;

use serde_json::Value;

use crate::support::{DatabaseAt, Rig};

/// The finding of this name.
async fn finding(rig: &Rig, name: &str) -> Value {
    let report = rig.tallyd(&["check", "--json"]).await.json();
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}")).clone()
}

/// The finding of this name, which must have this level.
async fn expect(rig: &Rig, name: &str, level: &str) -> Value {
    let found = finding(rig, name).await;
    assert_eq!(found["level"], level, "{found:#}");
    found
}

/// Carries a command out as an administrator would: as it is, in a shell or in a client of MySQL.
async fn carry_out(command: &str, redis_port: u16, mysql: &DatabaseAt) {
    let Some(rest) = command.strip_prefix("redis-cli ") else {
        mysql.sql_exec(command).await;
        return;
    };
    let done = Command::new("sh").arg("-c").arg(format!("redis-cli -p {redis_port} {rest}")).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.trim() == "OK", "{command}: {said}");
}
