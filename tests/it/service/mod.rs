//! What a service manager hears, and what it may rely on.

mod logs;
mod ready;
mod reloading;
mod watchdog;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Daemon, Rig, eventually, new_home};

pub const SOON: Duration = Duration::from_mins(1);

/// A service manager, as far as the daemon knows.
pub struct Manager {
    home: TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Manager {
    pub fn new() -> Self {
        let home = new_home("manager");
        let socket = UnixDatagram::bind(home.path().join("notify")).unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = heard.clone();
        thread::spawn(move || {
            let mut message = vec![0; 65_536];
            while let Ok(length) = socket.recv(&mut message) {
                let text = String::from_utf8_lossy(&message[..length]).into_owned();
                all.lock().unwrap().extend(text.lines().map(str::to_owned));
            }
        });
        Self { home, heard }
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("notify")
    }

    /// Starts `tallyd serve args` under it.
    pub fn start(&self, rig: &Rig, args: &[&str], env: &[(&str, &str)]) -> Daemon {
        let socket = self.socket().display().to_string();
        rig.spawn(&[&["serve"], args].concat(), &[&[("NOTIFY_SOCKET", socket.as_str())], env].concat())
    }

    /// Everything it was told, a line each.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// How often it was told exactly this.
    pub fn times(&self, line: &str) -> usize {
        self.heard().iter().filter(|heard| *heard == line).count()
    }

    /// Forgets what it was told.
    pub fn forget(&self) {
        self.heard.lock().unwrap().clear();
    }

    /// Waits for a line that begins so and contains that.
    pub async fn hears(&self, beginning: &str, part: &str) -> String {
        let found = async || self.heard().into_iter().find(|line| line.starts_with(beginning) && line.contains(part));
        eventually(SOON, found, format!("{beginning}…{part} is told; so far {:?}", self.heard())).await
    }
}
