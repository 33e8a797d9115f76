//! Tests that cannot run in these surroundings: never silent, always counted.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::{env, thread};

/// The servers of `TALLYD_TEST_…_URL`, when the suite is to use those.
pub fn external_mysql() -> Option<String> {
    external("TALLYD_TEST_MYSQL_URL")
}

pub fn external_redis() -> Option<String> {
    external("TALLYD_TEST_REDIS_URL")
}

fn external(name: &str) -> Option<String> {
    env::var(name).ok().filter(|url| !url.is_empty())
}

/// The running test, for its skip message; where it is in the source when its thread has another name.
#[track_caller]
pub fn this_test() -> String {
    match thread::current().name() {
        Some(name) if name.contains("::") => name.to_owned(),
        _ => Location::caller().to_string(),
    }
}

/// Says that `test` is skipped, on the terminal and in the file that `make test` counts.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    // Not eprint!, which the test runner keeps to itself when the test passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = env::var_os("TALLYD_TEST_SKIPPED") {
        let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Whether the binary has its failpoints; where it has not, the test counts as skipped.
#[track_caller]
pub fn failpoints() -> bool {
    if !cfg!(feature = "failpoints") {
        skipped(&this_test(), "needs the Cargo feature failpoints");
    }
    cfg!(feature = "failpoints")
}
