//! Unloading targets that nobody wrote or loaded for a while: Redis holds what is live, MySQL everything.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Live, LiveError};
use crate::metrics::CacheMetrics;
use crate::model::{Id, Partition};
use crate::sink::Kept;

/// Between two passes at least and at most.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_hours(1);
/// Between two pages of a pass: it is in no hurry.
const PAUSE: Duration = Duration::from_millis(10);
/// Targets in one script.
const BATCH: usize = 100;

impl Live {
    /// Unloads what was idle for `cache.idle_seconds`, pass after pass, until `stop` is cancelled.
    pub async fn keep_unloading(&self, metrics: &CacheMetrics, stop: &CancellationToken) {
        let mut settings = self.context.settings.subscribe();
        loop {
            let pause = (settings.borrow_and_update().cache.idle / 4).clamp(OFTEN, SELDOM);
            tokio::select! {
                () = stop.cancelled() => return,
                _ = settings.changed() => continue,
                () = tokio::time::sleep(pause) => {}
            }
            let mut unloaded = 0;
            if let Err(error) = self.unload_pass(&mut unloaded, metrics, stop).await {
                tracing::debug!(%error, "idle targets stay for now");
            }
            if unloaded > 0 {
                tracing::info!(unloaded, "targets that were idle are unloaded");
            }
        }
    }

    async fn unload_pass(
        &self,
        unloaded: &mut u64,
        metrics: &CacheMetrics,
        stop: &CancellationToken,
    ) -> Result<(), LiveError> {
        let partitions = self.context.partitions();
        let mut cursor = 0;
        while !stop.is_cancelled() {
            let (number, store) = self.redis.link.store().await.map_err(LiveError::unavailable)?;
            let page = store.scan_counted(&partitions, cursor).await;
            let (next, found) = page.map_err(|error| self.redis.failed(number, &error))?;
            for (partition, targets) in found {
                for batch in targets.chunks(BATCH) {
                    let gone = self.unload_idle(partition, batch).await?;
                    metrics.unloaded(gone);
                    *unloaded += gone;
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Unloads those of a batch that are idle, clean, and nowhere held by more than MySQL. Answers how many.
    async fn unload_idle(&self, partition: Partition, targets: &[Id]) -> Result<u64, LiveError> {
        let (number, store) = self.redis.store().await?;
        let idle = store.idle(partition, targets, self.context.settings.now().cache.idle).await;
        let mut idle = idle.map_err(|error| self.redis.failed(number, &error))?;
        if idle.targets.is_empty() {
            return Ok(0);
        }
        let kept = self.kept(partition, &idle.targets).await?;
        idle.targets.retain(|target| !kept.rejected.contains(target));
        store.unload(&idle, &kept.counters).await.map_err(|error| self.redis.failed(number, &error).into())
    }

    async fn kept(&self, partition: Partition, targets: &[Id]) -> Result<Kept, LiveError> {
        let interactions = &self.context.vocabulary.interactions;
        let names: Vec<&str> = interactions.iter().map(|i| i.name.as_str()).collect();
        let counters: Vec<u16> = interactions.iter().filter(|i| !i.has_states()).map(|i| i.code).collect();
        let away = |error: crate::sink::SinkError| LiveError::unavailable(error.to_string());
        let mut borrowed = self.sessions.borrow().await.map_err(away)?;
        let kept = borrowed.session.kept_of(partition.target_type, targets, &names, &counters).await;
        borrowed.give_back();
        kept.map_err(away)
    }
}
