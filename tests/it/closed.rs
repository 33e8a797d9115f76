//! Output that nobody takes: commands do what they are for and end with its exit code, and never panic.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use crate::support::{Process, Rig};

/// No command of a test takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// A pipe that nobody reads any more.
fn broken_pipe() -> Stdio {
    let (_reader, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// The exit code, and what went to stderr.
async fn with_stdout(rig: &Rig, args: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = rig.command(args);
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    let process = Process::start(args.join(" "), command);
    let (_, stderr) = process.pipes();
    let code = process.wait(LIMIT).await.code();
    let mut said = String::new();
    stderr.unwrap().read_to_string(&mut said).unwrap();
    (code, said)
}

const COMMANDS: [&[&str]; 10] = [
    &["migrate"],
    &["migrate"],
    &["status"],
    &["status", "--json"],
    &["status", "--watch"],
    &["check"],
    &["check", "--json"],
    &["sync"],
    &["sync", "--dry-run", "--json"],
    &["completions", "bash"],
];

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_gone_changes_no_exit_code_and_is_not_mentioned() {
    let rig = Rig::start("").await;
    for args in COMMANDS {
        let (code, said) = with_stdout(&rig, args, broken_pipe()).await;
        assert_eq!(code, Some(0), "{args:?}: {said}");
        assert!(!said.contains("pipe") && !said.contains("panic"), "{args:?}: {said}");
    }
    rig.sql_exec("DROP TABLE interaction_count").await;
    for args in [&["status"][..], &["check"], &["sync"]] {
        let (code, said) = with_stdout(&rig, args, broken_pipe()).await;
        assert_eq!(code, Some(1), "{args:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_a_clear_error() {
    let rig = Rig::start("").await;
    for args in COMMANDS {
        let (code, said) = with_stdout(&rig, args, full_disk()).await;
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("tallyd: stdout cannot be written to: No space left"), "{args:?}: {said}");
    }
    // What it was for is done all the same.
    assert_eq!(rig.sql("SELECT outcome FROM sync_run").await, [[Some("done".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_stderr_changes_no_exit_code() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    for (args, rust_log, expected) in [
        (&["sync"][..], "trace", 0),
        (&["sync", "--target", "nothing:1"], "trace", 2),
        (&["sync"], "tallyd=loud", 78),
        (&["status"], "trace", 0),
    ] {
        let mut command = rig.command(args);
        command.env("RUST_LOG", rust_log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(broken_pipe());
        let code = Process::start(args.join(" "), command).wait(LIMIT).await.code();
        assert_eq!(code, Some(expected), "{args:?}");
    }
}
