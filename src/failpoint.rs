//! Named crash points, compiled only into tests (Cargo feature `failpoints`).
//!
//! `TALLYD_FAILPOINT=<name>:kill` ends the process with SIGKILL at the first passage, `:pause` stops it with SIGSTOP
//! until somebody sends SIGCONT; `:hang` never goes on, and keeps its thread; `:panic` panics. Names: `after_claim`, `after_read`, `after_commit`, `before_ack`; `in_restore`, after the
//! first batch of a restore. A batch of the replay passes `after_read` and `after_commit`, too.

/// Passes a crash point.
#[cfg(not(feature = "failpoints"))]
pub fn hit(_name: &str) {}

/// Passes a crash point.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static SPENT: AtomicBool = AtomicBool::new(false);
    let setting = std::env::var("TALLYD_FAILPOINT").unwrap_or_default();
    let Some((point, action)) = setting.split_once(':') else { return };
    if point != name || SPENT.swap(true, Ordering::SeqCst) {
        return;
    }
    let signal = match action {
        "hang" => loop {
            std::thread::park();
        },
        "panic" => std::panic::resume_unwind(Box::new("a failpoint")),
        "kill" => Signal::KILL,
        _ => Signal::STOP,
    };
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(%error, name, "a failpoint did not work");
    }
}
