//! The schedules of the daemon, as the settings have them.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::reconcile::{self, ReconcilerWaker};
use crate::schedule::Schedule;
use crate::sync::{Alarm, Context, Trigger, Waker};

/// Wakes the driver and reconciliation by their schedules, and takes up those that change, until `stop` is cancelled.
pub async fn keep_schedules(
    context: Arc<Context>,
    mut alarm: Alarm,
    sync: Waker,
    reconciler: ReconcilerWaker,
    stop: CancellationToken,
) {
    let mut settings = context.settings.subscribe();
    let mut before = None;
    loop {
        let now = settings.borrow_and_update().clone();
        let differs = |of: fn(&Config) -> &Schedule| before.as_deref().is_none_or(|before| of(before) != of(&now));
        if differs(|config| &config.sync.cron) {
            let waker = sync.clone();
            alarm.every("sync", now.sync.cron.clone(), move || waker.wake(Trigger::Schedule));
        }
        if differs(|config| &config.reconcile.sample_cron) {
            let waker = reconciler.clone();
            let ring = move || waker.wake(reconcile::Trigger::Sample);
            alarm.every("reconcile sample", now.reconcile.sample_cron.clone(), ring);
        }
        if differs(|config| &config.reconcile.full_cron) {
            let waker = reconciler.clone();
            let ring = move || waker.wake(reconcile::Trigger::Full);
            alarm.every("reconcile full", now.reconcile.full_cron.clone(), ring);
        }
        before = Some(now);
        tokio::select! {
            () = stop.cancelled() => break,
            _ = settings.changed() => {}
        }
    }
    alarm.stop().await;
}
