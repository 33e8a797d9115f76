//! The daemons under test: where they listen, and what they print, kept in files.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex as Turn;

use crate::support::{Process, Rig, Signal, eventually};

const START_LIMIT: Duration = Duration::from_mins(1);

/// Where a running daemon listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    pub api: SocketAddr,
    pub admin: SocketAddr,
}

/// One `tallyd serve`, started again when it was killed.
pub struct Tallyd {
    log: PathBuf,
    process: Turn<Option<Process>>,
    addresses: Mutex<Option<Addresses>>,
    /// Odd while it is stopped.
    stops: AtomicU64,
}

impl Tallyd {
    pub async fn start(rig: &Rig, log: PathBuf) -> Self {
        let (process, addresses) = (Turn::new(None), Mutex::new(None));
        let tallyd = Self { log, process, addresses, stops: AtomicU64::new(0) };
        tallyd.start_again(rig, &mut *tallyd.turn().await).await;
        tallyd
    }

    /// `None` while it is down.
    pub fn addresses(&self) -> Option<Addresses> {
        *self.addresses.lock().unwrap()
    }

    /// Whoever does something to it waits for his turn.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, Option<Process>> {
        self.process.lock().await
    }

    /// SIGKILL.
    pub fn kill(&self, process: &mut Option<Process>) {
        *self.addresses.lock().unwrap() = None;
        *process = None;
    }

    pub async fn start_again(&self, rig: &Rig, process: &mut Option<Process>) {
        let from = fs::metadata(&self.log).map_or(0, |log| log.len());
        *process = Some(spawn(rig, &["serve"], &self.log));
        let listens = async || {
            let log = fs::read(&self.log).unwrap();
            let log = String::from_utf8_lossy(&log[usize::try_from(from).unwrap()..]).into_owned();
            assert!(process.as_ref().is_some_and(|process| process.ended().is_none()), "tallyd ended: {log}");
            let address = |name: &str| {
                let (_, rest) = log.split_once(&format!("{name} listens on "))?;
                rest.split_once('\n')?.0.trim().parse().ok()
            };
            Some(Addresses { api: address("api")?, admin: address("admin")? })
        };
        let addresses = eventually(START_LIMIT, listens, "tallyd listens").await;
        *self.addresses.lock().unwrap() = Some(addresses);
    }

    /// SIGSTOP for as long.
    pub async fn stop_for(&self, process: Option<&Process>, lasting: Duration) {
        self.stops.fetch_add(1, Ordering::SeqCst);
        process.inspect(|process| process.signal(Signal::STOP));
        tokio::time::sleep(lasting).await;
        process.inspect(|process| process.signal(Signal::CONT));
        self.stops.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes whenever it is stopped or goes on; odd while it is stopped.
    pub fn stops(&self) -> u64 {
        self.stops.load(Ordering::SeqCst)
    }
}

/// `tallyd args`, not waited for; what it prints goes to the end of `log`.
pub fn spawn(rig: &Rig, args: &[&str], log: &Path) -> Process {
    let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
    writeln!(file, "--- tallyd {}", args.join(" ")).unwrap();
    let mut command = rig.command(args);
    command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    Process::start(format!("tallyd {}", args.join(" ")), command)
}
