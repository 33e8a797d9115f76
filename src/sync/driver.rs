//! The driver: one loop that owns the runs of a process.
//!
//! Every trigger wakes the same idempotent function. Two runs of one process never overlap, for there is one loop;
//! two of different processes do not, for there is the lease. A tick that finds a run under way is skipped and
//! counted: what it would have copied, the next run copies. Somebody who asks for a run by name is not skipped: the
//! next run that starts is his.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::report::Trigger;
use super::request::{Requests, Ticket};
use super::run::{Context, Extent, new_run_id, run_as};
use super::watch::{Ended, Watcher};
use crate::metrics::SyncMetrics;
use crate::pulse::{Pulse, Pulses};
use crate::sink::LEASE_SECONDS;

/// How long a run of the daemon waits for other owners: longer than a lease of a crashed one holds.
const LEASE_WAIT: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 5);

/// How often the loop moves while it has nothing to do, to show that it could.
const IDLE: Duration = Duration::from_secs(5);
/// The tasks that wake the driver wait for a run as long as it lasts: only a panic shows that one is gone.
const EVER: Duration = Duration::MAX;

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

    /// As [`Waker::wake`], by somebody who comes again: a run under way is no news to him, and is not counted. Whether a run
    /// will start.
    pub(super) fn nudge(&self, trigger: Trigger) -> bool {
        if self.running.load(Ordering::Acquire) {
            return false;
        }
        // When another waking is there already, that is the one.
        let _woken = self.sender.try_send(trigger);
        true
    }

    /// Asks for a run that starts from now on. It is never skipped: when a run is under way, it comes after that.
    /// `None` when the driver is stopping.
    #[must_use]
    pub fn request(&self) -> Option<Ticket> {
        self.requests.ask()
    }

    /// Whether a run is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
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
    /// How the last run ended.
    pub last: watch::Receiver<Ended>,
    tasks: Vec<JoinHandle<()>>,
}

impl Driver {
    /// Starts the loop. When it is `automatic`, a run starts at once, so that what a crash has left is finished first,
    /// and the backlog and failures may start others; else runs start only when asked for. The degraded journal starts
    /// them in any case. After a run that has restored a partition, `restored` is notified. The loop shows in `pulses` that
    /// it moves.
    #[must_use]
    pub fn start(
        context: &Arc<Context>,
        metrics: SyncMetrics,
        automatic: bool,
        restored: Arc<Notify>,
        pulses: &Pulses,
        stop: &CancellationToken,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let requests = Arc::default();
        let waker = Waker { sender, requests, running: Arc::default(), skipped: Arc::default(), metrics };
        let (ends, last) = watch::channel(Ended::default());
        if automatic {
            waker.wake(Trigger::Start);
        }
        let pulse = pulses.add("the sync driver", context.longest_silence());
        let drive = drive(context.clone(), receiver, waker.clone(), ends, restored, pulse.clone(), stop.clone());
        let mut tasks = vec![tokio::spawn(pulse.of(drive))];
        let watcher =
            Watcher { context: context.clone(), waker: waker.clone(), last: last.clone(), stop: stop.clone() };
        tasks.push(tokio::spawn(pulses.add("the watch over the journal", EVER).of(watcher.clone().journal())));
        if automatic {
            tasks.push(tokio::spawn(pulses.add("the watch over the backlog", EVER).of(watcher.clone().backlog())));
            tasks.push(tokio::spawn(pulses.add("the watch over failed runs", EVER).of(watcher.failures())));
        }
        Self { waker, last, tasks }
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
    ends: watch::Sender<Ended>,
    restored: Arc<Notify>,
    pulse: Pulse,
    stop: CancellationToken,
) {
    loop {
        let woken_by = tokio::select! {
            () = stop.cancelled() => break,
            Some(trigger) = wakings.recv() => Some(trigger),
            () = waker.requests.arrived() => None,
            () = tokio::time::sleep(IDLE) => None,
        };
        // Nothing is read yet, so that this run answers a request, whoever woke it.
        let request = waker.requests.take();
        let (trigger, run_id) = match (&request, woken_by) {
            (Some(request), _) => (Trigger::Api, request.run_id.clone()),
            (None, Some(trigger)) => (trigger, new_run_id()),
            // An earlier run has answered it, or it is a sign of life.
            (None, None) => continue,
        };
        waker.running.store(true, Ordering::Release);
        let progress = Progress::with(pulse.clone());
        let report = run_as(run_id, &context, trigger, Extent::Changed, LEASE_WAIT, &progress, &stop).await;
        waker.running.store(false, Ordering::Release);
        waker.metrics.ended(&report);
        if report.partitions.iter().any(|partition| partition.restored.is_some()) {
            restored.notify_one();
        }
        let report = Arc::new(report);
        ends.send_replace(Ended { report: Some(report.clone()), at: Some(Instant::now()) });
        if let Some(request) = request {
            request.answer(report);
        }
    }
    waker.requests.close();
}
