//! What a restore compares the changes of a Redis of the past with.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::compare::key;
use super::session::{Conn, Session};
use crate::model::{Change, Id, RecordRow};

/// Targets in one list.
const LIST: usize = 500;

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
        self.with(move |conn| Box::pin(async move { conn.count_rows(target_type, &targets).await })).await
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

    async fn count_rows(&mut self, target_type: u16, targets: &[Id]) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        let failed = self.failed();
        let mut counts = HashMap::new();
        for list in targets.chunks(LIST) {
            let ids: Vec<String> = list.iter().map(ToString::to_string).collect();
            let text = format!(
                "/* tallyd restore */ SELECT CAST(target_id AS SIGNED), CAST(interaction_type AS SIGNED), \
                 CAST(count AS SIGNED) FROM interaction_count WHERE target_type = {target_type} AND target_id IN ({})",
                ids.join(",")
            );
            for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)? {
                let read = || -> Result<_, sqlx::Error> {
                    let interaction = u16::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
                    Ok(((row.try_get(0)?, interaction), row.try_get(2)?))
                };
                let (key, count) = read().map_err(&failed)?;
                counts.insert(key, count);
            }
        }
        Ok(counts)
    }
}
