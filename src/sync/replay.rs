//! The replay of writes that went to MySQL while Redis was down.

use super::error::RunError;
use super::work::Work;
use crate::failpoint;

impl Work<'_> {
    /// Replays until the partition's journal is empty. Everything handed over before must be settled.
    pub(super) async fn replay(&mut self) -> Result<(), RunError> {
        let writer = self.pipeline.writer()?;
        let mut writer = writer.lock().await;
        loop {
            self.go_on()?;
            let journaled = writer.journaled().await?;
            if journaled.ids.is_empty() {
                return Ok(());
            }
            let partition = self.holder.partition();
            if journaled.gone > 0 {
                tracing::warn!(%partition, states = journaled.gone, "degraded writes have no record row any more");
            }
            self.holder.replay(&journaled.states).await?;
            failpoint::hit("after_read");
            let replayed = writer.replayed(&journaled.ids, self.holder.checkpoint()).await?;
            self.tally.replayed += replayed;
            tracing::debug!(%partition, replayed, states = journaled.states.len(), "replayed degraded writes");
        }
    }
}
