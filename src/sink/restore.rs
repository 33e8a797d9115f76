//! What a restore compares the changes of a Redis of the past with.

use std::collections::HashMap;

use super::SinkError;
use super::compare::key;
use super::session::{Conn, Session};
use crate::model::{Change, Id, RecordRow};

impl Session {
    /// The latest time that the row behind each change (they come in key order) may stand for; `None` without a row, and
    /// for a counter.
    pub async fn row_times(&mut self, target_type: u16, changes: &[Change]) -> Result<Vec<Option<i64>>, SinkError> {
        match self.try_row_times(target_type, changes.to_vec()).await {
            // The server may have ended a session that had nothing to do for long.
            Err(error) if error.is_transient() => self.try_row_times(target_type, changes.to_vec()).await,
            outcome => outcome,
        }
    }

    async fn try_row_times(&mut self, target_type: u16, changes: Vec<Change>) -> Result<Vec<Option<i64>>, SinkError> {
        self.with(move |conn| Box::pin(async move { conn.row_times(target_type, &changes).await })).await
    }

    /// The count rows of some targets, by target and interaction.
    pub async fn count_rows(
        &mut self,
        target_type: u16,
        targets: &[Id],
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        match self.try_count_rows(target_type, targets.to_vec()).await {
            Err(error) if error.is_transient() => self.try_count_rows(target_type, targets.to_vec()).await,
            outcome => outcome,
        }
    }

    async fn try_count_rows(
        &mut self,
        target_type: u16,
        targets: Vec<Id>,
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        self.with(move |conn| Box::pin(async move { conn.counts_in(target_type, &targets).await })).await
    }
}

impl Conn {
    async fn row_times(&mut self, target_type: u16, changes: &[Change]) -> Result<Vec<Option<i64>>, SinkError> {
        let row = |change: &Change| {
            let &Change { target, interaction, user, at_ms } = change;
            user.map(|user| RecordRow { target, interaction, user, active: false, at_ms })
        };
        let rows: Vec<RecordRow> = changes.iter().filter_map(row).collect();
        let held = self.held_records(target_type, &rows, false).await?;
        let time = |change: &Change| Some(self.latest_ms(held.get(&key(&row(change)?))?));
        Ok(changes.iter().map(time).collect())
    }
}
