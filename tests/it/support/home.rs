//! Folders on disk: one for each test process, swept by a later one when this one could not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The folder that outlives runs: cargo's for this crate.
pub fn base() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Holds the lock `name` among all test processes until the file is dropped.
pub fn lock(name: &str) -> File {
    fs::create_dir_all(base()).unwrap();
    let file = File::create(base().join(name)).unwrap();
    file.lock().unwrap();
    file
}

/// A fresh folder, removed when dropped; when the process is killed, by the next one.
pub fn new_home(prefix: &str) -> TempDir {
    tempfile::Builder::new().prefix(prefix).tempdir_in(of_this_process()).unwrap()
}

/// Removes what ended test processes left.
pub fn sweep() {
    let _one_at_a_time = lock("runs.lock");
    remove_abandoned();
}

fn runs() -> PathBuf {
    base().join("runs")
}

fn of_this_process() -> &'static Path {
    static RUN: OnceLock<(PathBuf, File)> = OnceLock::new();

    let (folder, _locked_as_long_as_we_live) = RUN.get_or_init(|| {
        let _one_at_a_time = lock("runs.lock");
        fs::create_dir_all(runs()).unwrap();
        remove_abandoned();
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(runs()).unwrap().keep();
        let ours = File::create(folder.join("lock")).unwrap();
        ours.lock().unwrap();
        (folder, ours)
    });
    folder
}

fn remove_abandoned() {
    for folder in fs::read_dir(runs()).into_iter().flatten().flatten() {
        // The kernel releases the lock with its process. No file: the process died before it took the lock.
        let in_use = File::open(folder.path().join("lock")).is_ok_and(|lock| lock.try_lock().is_err());
        if !in_use {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}
