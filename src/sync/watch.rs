//! What wakes the driver besides the schedule: the backlog, the journal of degraded writes, and a run that failed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::driver::Waker;
use super::error::RunError;
use super::report::{Outcome, RunReport, Trigger};
use super::run::Context;
use crate::sink::{Session, SinkError};
use crate::store::{Store, StoreError};

/// How often the backlog and the journal are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long they are left to others after a run that did not succeed; degraded writes are waited for.
const PAUSE: Duration = Duration::from_secs(10);
const JOURNAL_PAUSE: Duration = Duration::from_secs(2);
/// After how long a run that failed is tried again, at first and at most.
const SOON: Duration = Duration::from_secs(10);
const LATE: Duration = Duration::from_mins(1);

/// How the last run ended; nothing, before the first one has.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What it said.
    pub report: Option<Arc<RunReport>>,
    /// When.
    pub at: Option<Instant>,
}

impl Ended {
    /// Nothing was left.
    fn is_done(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.outcome == Outcome::Done)
    }

    /// Something failed.
    fn has_failed(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.has_failed())
    }
}

/// Looks, and wakes the driver.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) context: Arc<Context>,
    pub(super) waker: Waker,
    pub(super) last: watch::Receiver<Ended>,
    pub(super) stop: CancellationToken,
}

impl Watcher {
    /// Wakes when the backlog has grown to `sync.early_flush_changes`, and when Redis may have lost something: it is back
    /// after it could not be reached, or a checkpoint is gone.
    pub(super) async fn backlog(mut self) {
        let mut store = None;
        let (mut pause, mut checkpoints, mut suspect) = (LOOK, 0, false);
        while self.sleeps(pause).await {
            pause = LOOK;
            let (pending, held) = match pending(&self.context, &mut store).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%error, "the backlog could not be looked at");
                    store = None;
                    suspect = true;
                    continue;
                }
            };
            suspect |= held < checkpoints;
            checkpoints = held;
            if suspect && self.waker.nudge(Trigger::Redis) {
                suspect = false;
            } else if pending >= self.context.settings.now().sync.early_flush_changes {
                self.last.mark_unchanged();
                self.waker.wake(Trigger::Backlog);
                pause = self.run_ended(PAUSE).await;
            }
        }
    }

    /// Wakes when the journal of degraded writes has rows and Redis answers, so that they can be replayed. Says when MySQL
    /// goes and comes.
    pub(super) async fn journal(mut self) {
        let (mut session, mut store) = (self.context.sink.session(), None);
        let (mut pause, mut away) = (LOOK, false);
        while self.sleeps(pause).await {
            pause = LOOK;
            let found = replayable(&self.context, &mut session, &mut store).await;
            match &found {
                Err(RunError::Sink(error @ SinkError::Unreachable { .. })) if !away => {
                    away = true;
                    tracing::warn!("MySQL is away: {error}; writes stay in Redis meanwhile");
                }
                Err(RunError::Sink(_)) => {}
                Ok(_) | Err(_) if away => {
                    away = false;
                    tracing::info!("MySQL is back");
                }
                Ok(_) | Err(_) => {}
            }
            match found {
                Ok(true) => {
                    self.last.mark_unchanged();
                    self.waker.nudge(Trigger::Journal);
                    pause = self.run_ended(JOURNAL_PAUSE).await;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "the degraded journal could not be looked at");
                    store = None;
                }
            }
        }
        session.close().await;
    }

    /// Wakes again after a run that failed, less and less often until one does not.
    pub(super) async fn failures(mut self) {
        let mut pause = SOON;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = self.last.changed() => {}
            }
            if !self.last.borrow_and_update().has_failed() {
                pause = SOON;
                continue;
            }
            if !self.sleeps(pause).await {
                return;
            }
            if self.last.borrow().has_failed() {
                pause = (pause * 2).min(LATE);
                self.waker.nudge(Trigger::Retry);
            }
        }
    }

    /// `false` when it is time to stop.
    async fn sleeps(&self, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.stop.cancelled()).await.is_err()
    }

    /// Waits for the end of the run that is under way; answers when to look again: after `pause` if it did not succeed.
    async fn run_ended(&mut self, pause: Duration) -> Duration {
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = self.last.changed() => {}
        }
        if self.last.borrow().is_done() { LOOK } else { pause }
    }
}

/// How much waits in all partitions, and how many have a checkpoint.
async fn pending(context: &Context, store: &mut Option<Store>) -> Result<(u64, usize), StoreError> {
    let store = connected(context, store).await?;
    let (mut pending, mut checkpoints) = (0, 0);
    for partition in context.partitions() {
        let (waits, checkpoint) = store.pending(partition).await?;
        pending += waits;
        checkpoints += usize::from(checkpoint);
    }
    Ok((pending, checkpoints))
}

async fn replayable(context: &Context, session: &mut Session, store: &mut Option<Store>) -> Result<bool, RunError> {
    if !session.journal_waits(&context.vocabulary, context.config.redis.shards).await? {
        return Ok(false);
    }
    connected(context, store).await?.ping().await?;
    Ok(true)
}

async fn connected<'s>(context: &Context, store: &'s mut Option<Store>) -> Result<&'s Store, StoreError> {
    Ok(match store {
        Some(store) => store,
        None => store.insert(context.store().await?),
    })
}
