//! What the private MariaDB and the private Redis have in common.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::home::new_home;
use super::process::{Process, bound, find};
use super::wait::eventually;

/// Generous: a crashed MariaDB recovers first, and a machine may be busy.
const START_LIMIT: Duration = Duration::from_mins(1);
const STOP_LIMIT: Duration = Duration::from_mins(1);

/// A server of our own on 127.0.0.1, in a folder of its own.
pub struct Server {
    program: &'static str,
    args: Vec<String>,
    port: u16,
    // Before `home`: the process is gone when its folder is removed.
    process: Option<Process>,
    home: TempDir,
}

impl Server {
    /// Starts `program` on a free port. `prepare` makes its folder ready and returns the arguments; `ready` tells
    /// whether the server on this port serves.
    pub async fn start(
        program: &'static str,
        prepare: impl Fn(&Path, u16) -> Vec<String>,
        ready: impl AsyncFn(u16) -> bool,
    ) -> Self {
        // A port that was free may be taken a moment later.
        for _ in 0..4 {
            let (port, home) = (free_port(), new_home(program));
            let args = prepare(home.path(), port);
            let mut server = Self { program, args, port, process: None, home };
            server.launch();
            if server.serves(&ready).await {
                return server;
            }
            eprintln!("{program} did not start on port {port}:\n{}", server.log());
        }
        panic!("{program} does not start; its output is above");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Freezes it, say, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// SIGTERM, and waits for the end. Nothing when it is down.
    pub async fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::TERM);
            process.wait(STOP_LIMIT).await;
        }
    }

    /// SIGKILL, and waits for the end. Nothing when it is down.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// On the same port, with the same data and arguments.
    pub async fn start_again(&mut self, ready: impl AsyncFn(u16) -> bool) {
        assert!(self.process.is_none(), "{} is running: stop or kill it first", self.program);
        self.launch();
        assert!(self.serves(&ready).await, "{} does not start again:\n{}", self.program, self.log());
    }

    /// What the server has printed since its first start.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.home.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn launch(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(self.home.path().join("log")).unwrap();
        let mut command = bound(find(self.program));
        command.args(&self.args).current_dir(self.home.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(Process::start(self.program, command));
    }

    /// Waits until it serves (`true`) or has ended (`false`).
    async fn serves(&self, ready: &impl AsyncFn(u16) -> bool) -> bool {
        let process = self.process.as_ref().expect("launched");
        let probe = async || match process.ended() {
            Some(_) => Some(false),
            // Asked again after the answer, which may be another server's that holds the port.
            None => ready(self.port).await.then(|| process.ended().is_none()),
        };
        eventually(START_LIMIT, probe, format!("{} serves on port {}", self.program, self.port)).await
    }
}

/// A port below the range that the kernel gives to outgoing connections, so that none of those takes it while its
/// server is down. Each port is handed out once in a process; processes begin in different places.
fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const SPAN: u16 = 12_000;
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let random = uuid::Uuid::now_v7().as_u128() % u128::from(SPAN);
        AtomicU16::new(u16::try_from(random).unwrap())
    });

    loop {
        // Wraps at 65,536, which only makes some ports come round sooner.
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % SPAN;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
