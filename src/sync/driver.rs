//! The driver: one loop that owns the runs of a process.
//!
//! Every trigger wakes the same idempotent function. Two runs of one process never overlap, for there is one loop;
//! two of different processes do not, for there is the lease. A tick that finds a run under way is skipped and
//! counted: what it would have copied, the next run copies. Somebody who asks for a run by name is not skipped: the
//! next run that starts is his.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::report::{Outcome, Trigger};
use super::request::{Requests, Ticket};
use super::run::{Context, Extent, new_run_id, run_as};
use crate::metrics::SyncMetrics;
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
    requests: Arc<Requests>,
    running: Arc<AtomicBool>,
    skipped: Arc<AtomicU64>,
    metrics: SyncMetrics,
}

impl Waker {
    /// Asks for a run now, unless one is under way or about to start: then this is skipped, and counted.
    pub fn wake(&self, trigger: Trigger) {
        if self.running.load(Ordering::Acquire) || self.sender.try_send(trigger).is_err() {
            let skipped = self.skipped.fetch_add(1, Ordering::Relaxed) + 1;
            self.metrics.skipped();
            tracing::info!(trigger = trigger.as_str(), skipped, "skipped: a run is under way");
        }
    }

    /// Asks for a run that starts from now on. It is never skipped: when a run is under way, it comes after that.
    /// `None` when the driver is stopping.
    #[must_use]
    pub fn request(&self) -> Option<Ticket> {
        self.requests.ask()
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
    /// Starts the loop. When it is `automatic`, a run starts at once, so that what a crash has left is finished first,
    /// and the backlog may start others; else runs start only when asked for.
    #[must_use]
    pub fn start(context: &Arc<Context>, metrics: SyncMetrics, automatic: bool, stop: &CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let requests = Arc::default();
        let waker = Waker { sender, requests, running: Arc::default(), skipped: Arc::default(), metrics };
        let (outcomes, last) = watch::channel(None);
        if automatic {
            waker.wake(Trigger::Start);
        }
        let mut tasks = vec![tokio::spawn(drive(context.clone(), receiver, waker.clone(), outcomes, stop.clone()))];
        if automatic {
            tasks.push(tokio::spawn(watch_backlog(context.clone(), waker.clone(), last, stop.clone())));
        }
        Self { waker, tasks }
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
    waker: Waker,
    outcomes: watch::Sender<Option<Outcome>>,
    stop: CancellationToken,
) {
    loop {
        let woken_by = tokio::select! {
            () = stop.cancelled() => break,
            Some(trigger) = wakings.recv() => Some(trigger),
            () = waker.requests.arrived() => None,
        };
        // Nothing is read yet, so that this run answers a request, whoever woke it.
        let request = waker.requests.take();
        let (trigger, run_id) = match (&request, woken_by) {
            (Some(request), _) => (Trigger::Api, request.run_id.clone()),
            (None, Some(trigger)) => (trigger, new_run_id()),
            // An earlier run has answered it.
            (None, None) => continue,
        };
        waker.running.store(true, Ordering::Release);
        let progress = Progress::default();
        let report = run_as(run_id, &context, trigger, Extent::Changed, LEASE_WAIT, &progress, &stop).await;
        waker.running.store(false, Ordering::Release);
        waker.metrics.ended(&report);
        outcomes.send_replace(Some(report.outcome));
        if let Some(request) = request {
            request.answer(report);
        }
    }
    waker.requests.close();
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
        pending += store.pending(partition).await?;
    }
    Ok(pending)
}
