//! Child processes that cannot outlive the test process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;
use std::{env, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::eventually;

/// A command that the kernel kills with SIGKILL when this process ends, however it ends. Start it with [`Process`].
pub fn bound(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Where `program` is, also in the folders of system programs, which an ordinary user's `PATH` may lack.
pub fn find(program: &str) -> PathBuf {
    installed(program).unwrap_or_else(|| panic!("{program} is not installed: run tests/setup.sh"))
}

/// The same of a program that need not be there.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The thread that starts all children. The death signal comes when the *thread* that forked ends, and a test's
/// thread ends with its test; this one ends with the process.
fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();

    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, answer) in queue {
                let _ = answer.send(command.spawn());
            }
        });
        jobs
    });
    let (answer, child) = mpsc::channel();
    spawner.send((command, answer)).expect("the spawner lives as long as the process");
    child.recv().expect("the spawner lives as long as the process")
}

/// A running child; killed when dropped.
pub struct Process {
    child: Mutex<Child>,
    pid: u32,
    name: String,
}

impl Process {
    /// Starts a command made by [`bound`].
    pub fn start(name: impl Into<String>, command: Command) -> Self {
        let name = name.into();
        let child = spawn(command).unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        Self { pid: child.id(), child: Mutex::new(child), name }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes the pipe to the child, once.
    pub fn stdin(&self) -> Option<std::process::ChildStdin> {
        self.child.lock().unwrap().stdin.take()
    }

    /// Takes the pipes of the child, once.
    pub fn pipes(&self) -> (Option<std::process::ChildStdout>, Option<std::process::ChildStderr>) {
        let mut child = self.child.lock().unwrap();
        (child.stdout.take(), child.stderr.take())
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Sends a signal; nothing when it has ended, so that no other process can get it.
    pub fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            let pid = Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap();
            kill_process(pid, signal).unwrap();
        }
    }

    pub async fn wait(&self, limit: Duration) -> ExitStatus {
        eventually(limit, async || self.ended(), format!("{} ends", self.name)).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Whether a process with this id exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
