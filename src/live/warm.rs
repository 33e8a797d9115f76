//! Loading the most active targets before anybody asks for them.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::load::{Loaded, NotLoaded};
use super::{Live, LiveError};
use crate::model::Id;
use crate::store::Wanted;
use crate::sync::Progress;

/// Targets loaded at once: few, so that those whom users ask for find room.
const LOADS: usize = 4;
/// How often a target is tried that others have in hand, or for which a server did not answer, and how long in between.
const ROUNDS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// How long Redis is waited for, and how often it is looked whether it is there.
const CONNECT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// How soon the daemon tries again while a server is away.
const RETRY: Duration = Duration::from_secs(3);

/// What became of the most active targets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Warmed {
    /// Loaded now.
    pub loaded: u64,
    /// Loaded already.
    pub already: u64,
    /// Not loaded, because others had them in hand for too long.
    pub failed: u64,
    /// Why the first of them was not.
    pub failure: Option<String>,
}

impl Live {
    /// Loads the `top` most active targets, whole where they are small: those with the greatest sums of count rows. Ends
    /// early when `stop` is cancelled.
    pub async fn warm(&self, top: u64, progress: &Progress, stop: &CancellationToken) -> Result<Warmed, LiveError> {
        self.connected().await?;
        let Some(found) = stop.run_until_cancelled(Box::pin(self.most_active(top))).await else {
            return Ok(Warmed::default());
        };
        let mut open = found?;
        progress.found(open.len() as u64);
        let mut warmed = Warmed::default();
        for round in 1..=ROUNDS {
            let last = round == ROUNDS;
            let loads = futures::stream::iter(std::mem::take(&mut open)).take_until(stop.cancelled());
            let loads = loads.map(|target| async move { (target, self.load_patiently(target).await) });
            let mut outcomes = Box::pin(loads.buffer_unordered(LOADS));
            while let Some((target, outcome)) = outcomes.next().await {
                match outcome {
                    Ok(Loaded::Here) => warmed.loaded += 1,
                    Ok(Loaded::Already) => warmed.already += 1,
                    Err(NotLoaded::Busy(error)) if last => {
                        warmed.failed += 1;
                        warmed.failure.get_or_insert_with(|| error.to_string());
                    }
                    Err(NotLoaded::Busy(_)) => {
                        open.push(target);
                        continue;
                    }
                    Err(away) => return Err(away.into()),
                }
                progress.advanced(1);
            }
            if open.is_empty() || tokio::time::timeout(PAUSE, stop.cancelled()).await.is_ok() {
                break;
            }
        }
        Ok(warmed)
    }

    /// Loads one target; a server that does not answer is given some seconds.
    async fn load_patiently(&self, (target_type, target): (u16, Id)) -> Result<Loaded, NotLoaded> {
        let mut tries = 1;
        loop {
            let wanted = Wanted { whole: true, ..Wanted::default() };
            match self.load_here(target_type, target, wanted).await {
                Err(NotLoaded::Redis(_) | NotLoaded::Mysql(_)) if tries < ROUNDS => tries += 1,
                outcome => return outcome,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for the connection to Redis, which is made since the start, for longer than a request would.
    async fn connected(&self) -> Result<(), LiveError> {
        let begun = Instant::now();
        loop {
            // Not a request: the breaker is not told.
            match self.redis.link.store().await {
                Err(error) if begun.elapsed() >= CONNECT => return Err(LiveError::unavailable(error)),
                Err(_) => tokio::time::sleep(LOOK).await,
                Ok(_) => return Ok(()),
            }
        }
    }

    async fn most_active(&self, top: u64) -> Result<Vec<(u16, Id)>, LiveError> {
        let types: Vec<u16> = self.context.vocabulary.targets.iter().map(|target| target.code).collect();
        let away = |error: crate::sink::SinkError| LiveError::unavailable(error.to_string());
        // A session of its own: it may take a while, and loads need theirs.
        let mut session = self.context.sink.session();
        let targets = session.most_active(&types, top).await.map_err(away)?;
        session.close().await;
        Ok(targets)
    }

    /// Warms (`cache.warm_top` as it is then) as soon as both servers are there, and again whenever `restored` is notified,
    /// until `stop` is cancelled.
    pub async fn keep_warm(&self, restored: &Notify, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let top = self.context.settings.now().cache.warm_top;
            if top == 0 {
                stop.run_until_cancelled(restored.notified()).await;
                continue;
            }
            match self.warm(top, &Progress::default(), stop).await {
                Ok(Warmed { loaded, already, failed, failure }) => {
                    if failed > 0 {
                        tracing::warn!(
                            loaded,
                            already,
                            failed,
                            failure,
                            "not all of the most active targets are loaded"
                        );
                    } else if loaded > 0 {
                        tracing::info!(loaded, already, "the most active targets are loaded");
                    }
                    stop.run_until_cancelled(restored.notified()).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "the most active targets cannot be loaded yet");
                    let _over = tokio::time::timeout(RETRY, stop.cancelled()).await;
                }
            }
        }
    }
}
