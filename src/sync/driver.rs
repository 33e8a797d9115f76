//! The driver: one loop that owns the runs of a process.
//!
//! Every trigger wakes the same idempotent function. Two runs of one process never overlap, for there is one loop;
//! two of different processes do not, for there is the lease. A tick that finds a run under way is skipped and
//! counted: what it would have copied, the next run copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::report::{Outcome, Trigger};
use super::run::{Context, Extent, run};
use crate::sink::LEASE_SECONDS;
use crate::store::{Store, StoreError};

/// How long a run of the daemon waits for other owners: longer than a lease of a crashed one holds.
const LEASE_WAIT: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 5);
/// How often the backlog is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the backlog is left to the schedule after a run that did not succeed.
const PAUSE: Duration = Duration::from_secs(10);

/// Wakes the driver. Clones wake the same one.
#[derive(Clone)]
pub struct Waker {
    sender: mpsc::Sender<Trigger>,
    running: Arc<AtomicBool>,
    skipped: Arc<AtomicU64>,
}

impl Waker {
    /// Asks for a run now, unless one is under way or about to start: then this is skipped, and counted.
    pub fn wake(&self, trigger: Trigger) {
        if self.running.load(Ordering::Acquire) || self.sender.try_send(trigger).is_err() {
            let skipped = self.skipped.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::info!(trigger = trigger.as_str(), skipped, "skipped: a run is under way");
        }
    }

    /// How many wakings were skipped.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

/// A driver at work.
pub struct Driver {
    /// Wakes it.
    pub waker: Waker,
    tasks: Vec<JoinHandle<()>>,
}

impl Driver {
    /// Starts the loop, with a run at once: what a crash has left is finished first.
    #[must_use]
    pub fn start(context: &Arc<Context>, stop: &CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let waker = Waker { sender, running: Arc::default(), skipped: Arc::default() };
        let (outcomes, last) = watch::channel(None);
        waker.wake(Trigger::Start);
        let drive = drive(context.clone(), receiver, waker.running.clone(), outcomes, stop.clone());
        let backlog = watch_backlog(context.clone(), waker.clone(), last, stop.clone());
        Self { waker, tasks: vec![tokio::spawn(drive), tokio::spawn(backlog)] }
    }

    /// Waits until a run under way has stopped between two chunks and everything is given back.
    pub async fn join(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the driver ended badly");
            }
        }
    }
}

async fn drive(
    context: Arc<Context>,
    mut wakings: mpsc::Receiver<Trigger>,
    running: Arc<AtomicBool>,
    outcomes: watch::Sender<Option<Outcome>>,
    stop: CancellationToken,
) {
    loop {
        let trigger = tokio::select! {
            () = stop.cancelled() => return,
            trigger = wakings.recv() => trigger,
        };
        let Some(trigger) = trigger else { return };
        running.store(true, Ordering::Release);
        let report = run(&context, trigger, Extent::Changed, LEASE_WAIT, &Progress::default(), &stop).await;
        running.store(false, Ordering::Release);
        outcomes.send_replace(Some(report.outcome));
    }
}

/// Wakes the driver when the backlog has grown to `sync.early_flush_changes`.
async fn watch_backlog(
    context: Arc<Context>,
    waker: Waker,
    mut last: watch::Receiver<Option<Outcome>>,
    stop: CancellationToken,
) {
    let mut store = None;
    let mut pause = LOOK;
    while tokio::time::timeout(pause, stop.cancelled()).await.is_err() {
        pause = LOOK;
        match pending(&context, &mut store).await {
            Ok(pending) if pending >= context.config.sync.early_flush_changes => {
                last.mark_unchanged();
                waker.wake(Trigger::Backlog);
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = last.changed() => {}
                }
                if *last.borrow() != Some(Outcome::Done) {
                    pause = PAUSE;
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "the backlog could not be looked at");
                store = None;
            }
        }
    }
}

async fn pending(context: &Context, store: &mut Option<Store>) -> Result<u64, StoreError> {
    let store = match store {
        Some(store) => store,
        None => store.insert(context.store().await?),
    };
    let mut pending = 0;
    for partition in context.partitions() {
        pending += store.pending_changes(partition).await?;
    }
    Ok(pending)
}
