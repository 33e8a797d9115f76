//! A running program and what it prints.

use std::fs;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;

use super::process::Process;
use super::wait::eventually;

/// What a program that has ended printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Itself, when the exit code is `code`; else panics with all that was printed.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not JSON: {e}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }
}

type Buffer = Arc<Mutex<Vec<u8>>>;

/// A program that runs in the background; killed when dropped. A failing test prints its log.
pub struct Daemon {
    process: Process,
    stdout: Buffer,
    stderr: Buffer,
    peak_rss_kib: Arc<AtomicU64>,
    readers: Vec<JoinHandle<()>>,
}

impl Daemon {
    /// Starts a command made by [`super::bound`].
    pub fn start(name: &str, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Process::start(name, command);
        let (stdout, stderr) = process.pipes();
        let (out, err, peak) = (Buffer::default(), Buffer::default(), Arc::default());
        let readers = vec![read(stdout.unwrap(), &out), read(stderr.unwrap(), &err)];
        watch_memory(process.pid(), &peak);
        Self { process, stdout: out, stderr: err, peak_rss_kib: peak, readers }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub fn is_running(&self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits for its end; afterwards the log is complete. Panics after `limit`.
    pub async fn wait(&self, limit: Duration) -> ExitStatus {
        let ended = self.process.wait(limit).await;
        let read = async || self.readers.iter().all(JoinHandle::is_finished);
        eventually(limit, read, "what it printed is read to the end").await;
        ended
    }

    /// What it has printed to standard error so far.
    pub fn log(&self) -> String {
        text(&self.stderr)
    }

    /// What it has printed to standard output so far.
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// Waits until the log contains `needle`; returns the log up to now.
    pub async fn wait_for_log(&self, needle: &str, limit: Duration) -> String {
        let probe = async || {
            let log = self.log();
            if log.contains(needle) {
                return Some(log);
            }
            assert!(self.is_running() || self.log().contains(needle), "ended without {needle:?}:\n{log}");
            None
        };
        eventually(limit, probe, format!("{needle:?} in the log")).await
    }

    /// The most memory it had resident so far, as the kernel keeps it; looked up every 10 ms until it ends.
    pub fn peak_rss_kib(&self) -> u64 {
        self.peak_rss_kib.load(Ordering::Relaxed)
    }

    /// Waits for its end, and takes all it printed.
    pub async fn output(self, limit: Duration) -> Output {
        let code = self.wait(limit).await.code();
        Output { code, stdout: self.stdout(), stderr: self.log() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the log of process {}:\n{}", self.pid(), self.log());
        }
    }
}

fn text(buffer: &Buffer) -> String {
    String::from_utf8_lossy(&buffer.lock().unwrap()).into_owned()
}

fn read(mut pipe: impl Read + Send + 'static, buffer: &Buffer) -> JoinHandle<()> {
    let buffer = Arc::clone(buffer);
    thread::spawn(move || {
        let mut chunk = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut chunk) {
            buffer.lock().unwrap().extend_from_slice(&chunk[..length]);
        }
    })
}

fn watch_memory(pid: u32, peak: &Arc<AtomicU64>) {
    let peak = Arc::clone(peak);
    thread::spawn(move || {
        while let Some(kib) = resident_peak_kib(pid) {
            // Not the maximum of all looks: the program before exec is not meant.
            peak.store(kib, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(10));
        }
    });
}

/// `None` once the process has ended.
fn resident_peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
