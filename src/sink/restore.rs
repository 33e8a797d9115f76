//! What a restore compares the changes of a Redis of the past with.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::{Change, Id, RecordRow};

/// Targets in one list.
const LIST: usize = 500;

impl Session {
    /// What MySQL holds behind each change (they come in key order): of a state the latest time that its row may stand
    /// for, of a counter its count.
    pub async fn held_behind(&mut self, target_type: u16, changes: &[Change]) -> Result<Vec<Option<i64>>, SinkError> {
        match self.try_held_behind(target_type, changes.to_vec()).await {
            // The server may have ended a session that had nothing to do for long.
            Err(error) if error.is_transient() => self.try_held_behind(target_type, changes.to_vec()).await,
            outcome => outcome,
        }
    }

    async fn try_held_behind(&mut self, target_type: u16, changes: Vec<Change>) -> Result<Vec<Option<i64>>, SinkError> {
        self.with(move |conn| Box::pin(async move { conn.held_behind(target_type, &changes).await })).await
    }

    /// The count rows of some targets, by target and interaction.
    pub async fn count_rows(
        &mut self,
        target_type: u16,
        targets: &[Id],
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        let again = targets.to_vec();
        match self.try_count_rows(target_type, targets.to_vec()).await {
            Err(error) if error.is_transient() => self.try_count_rows(target_type, again).await,
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
    async fn held_behind(&mut self, target_type: u16, changes: &[Change]) -> Result<Vec<Option<i64>>, SinkError> {
        let row = |change: &Change| {
            let &Change { target, interaction, user, at_ms } = change;
            user.map(|user| RecordRow { target, interaction, user, active: false, at_ms })
        };
        let rows: Vec<RecordRow> = changes.iter().filter_map(row).collect();
        let records = self.held_records(target_type, &rows, false).await?;
        let mut targets: Vec<Id> = changes.iter().filter(|c| c.user.is_none()).map(|c| c.target).collect();
        targets.dedup();
        let counts = self.count_rows(target_type, &targets).await?;
        let stands_for = self.time_unit_ms().map_or(0, |unit| unit - 1);
        let held = |change: &Change| match change.user {
            Some(user) => {
                let held = records.get(&(change.target.get(), change.interaction, user.get()));
                held.map(|held| held.update_ms + stands_for)
            }
            None => counts.get(&(change.target.get(), change.interaction)).copied(),
        };
        Ok(changes.iter().map(held).collect())
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
