//! The loop that owns the passes of the daemon: two schedules wake it, and there are never two at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::pass::reconcile;
use super::request::{Request, Scope, Trigger};
use super::resume::was_cut_short;
use crate::metrics::ReconcileMetrics;
use crate::pulse::Pulses;
use crate::sync::{Context, Progress};

/// How long a pass of the daemon waits for a run that has much to copy.
const LEASE_WAIT: Duration = Duration::from_mins(10);

/// How often the loop moves while it has nothing to do, to show that it could.
const IDLE: Duration = Duration::from_secs(5);

/// Wakes the loop. Clones wake the same one.
#[derive(Clone, Debug, Default)]
pub struct ReconcilerWaker {
    waiting: Arc<Mutex<Option<Trigger>>>,
    arrived: Arc<Notify>,
}

impl ReconcilerWaker {
    /// Asks for a pass. One that is under way is not disturbed: this one comes after it. Of several that wait there is one
    /// pass, over everything if any asked for that.
    pub fn wake(&self, trigger: Trigger) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if *waiting != Some(Trigger::Full) {
            *waiting = Some(trigger);
        }
        self.arrived.notify_one();
    }

    fn take(&self) -> Option<Trigger> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A loop at work.
pub struct Reconciler {
    /// Wakes it.
    pub waker: ReconcilerWaker,
    task: JoinHandle<()>,
}

impl Reconciler {
    /// Starts the loop; `automatic` goes on at once with a pass that ended with its process. It shows in `pulses` that it
    /// moves, and ends when `stop` is cancelled, between two batches.
    #[must_use]
    pub fn start(
        context: &Arc<Context>,
        metrics: ReconcileMetrics,
        automatic: bool,
        pulses: &Pulses,
        stop: &CancellationToken,
    ) -> Self {
        let waker = ReconcilerWaker::default();
        let pulse = pulses.add("reconciliation", context.longest_silence());
        let (of_loop, context, stop) = (waker.clone(), context.clone(), stop.clone());
        let task = tokio::spawn(pulse.of(async move {
            if automatic {
                go_on(&context, &of_loop).await;
            }
            drive(context, of_loop, metrics, stop).await;
        }));
        Self { waker, task }
    }

    /// Waits until a pass under way has ended.
    pub async fn join(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the loop of reconciliation ended badly");
        }
    }
}

/// Asks for the rest of a pass that ended with its process. When MySQL is away, the schedule sees to it.
async fn go_on(context: &Context, waker: &ReconcilerWaker) {
    match was_cut_short(context).await {
        Ok(true) => waker.wake(Trigger::Full),
        Ok(false) => {}
        Err(error) => tracing::debug!(%error, "it is not known whether a pass was cut short"),
    }
}

async fn drive(context: Arc<Context>, waker: ReconcilerWaker, metrics: ReconcileMetrics, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = waker.arrived.notified() => {}
            () = tokio::time::sleep(IDLE) => {}
        }
        let Some(trigger) = waker.take() else { continue };
        let scope = match trigger {
            Trigger::Sample => Scope::Sample(context.settings.now().reconcile.sample_percent),
            Trigger::Full | Trigger::Command => Scope::All,
        };
        let request = Request { trigger, scope, dry_run: false, lease_wait: LEASE_WAIT };
        let report = Box::pin(reconcile(&context, request, &Progress::default(), &stop)).await;
        metrics.ended(&report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_not_replaced_by_a_sample() {
        let waker = ReconcilerWaker::default();
        waker.wake(Trigger::Sample);
        waker.wake(Trigger::Full);
        waker.wake(Trigger::Sample);
        assert_eq!(waker.take(), Some(Trigger::Full));
        assert_eq!(waker.take(), None);
    }
}
