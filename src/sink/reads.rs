//! What the list of a user reads.

use chrono::{DateTime, Utc};
use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;
use super::upsert::time;
use crate::model::Id;

/// A place in the list of a user: event time (Unix milliseconds), target type, target. Newest first, then by key.
pub type UserPlace = (i64, u16, Id);

impl Session {
    /// The targets of a user's active states, newest first, after a place; at most `limit`.
    pub async fn user_targets(
        &mut self,
        user: Id,
        interaction: u16,
        after: Option<UserPlace>,
        limit: u32,
    ) -> Result<Vec<UserPlace>, SinkError> {
        let select = "/* tallyd user list */ SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time) DIV 1000, \
             CAST(target_type AS SIGNED), CAST(target_id AS SIGNED) FROM interaction_record \
             WHERE user_id = ? AND interaction_type = ? AND status = 1 AND (? = 0 OR update_time < ? \
                OR (update_time = ? AND (target_type > ? OR (target_type = ? AND target_id > ?)))) \
             ORDER BY update_time DESC, target_type, target_id LIMIT ?";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let (at_ms, target_type, target) = after.map_or((0, 0, 0), |(ms, kind, id)| (ms, kind, id.get()));
                let at = time(at_ms);
                let query = sqlx::query(select).bind(user.get()).bind(interaction).bind(after.is_some());
                let query = query.bind(at).bind(at).bind(target_type).bind(target_type).bind(target).bind(limit);
                let rows = conn.mysql.fetch_all(query).await.map_err(&failed)?;
                let read = |row: &sqlx::mysql::MySqlRow| -> Result<Option<UserPlace>, sqlx::Error> {
                    let (at_ms, kind, target): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                    let kind = u16::try_from(kind).unwrap_or_default();
                    Ok(Id::try_from(target).ok().map(|target| (at_ms, kind, target)))
                };
                rows.iter().filter_map(|row| read(row).map_err(&failed).transpose()).collect()
            })
        })
        .await
    }

    /// When the last run started that left nothing: everything written before is here.
    pub async fn copied_until(&mut self) -> Result<DateTime<Utc>, SinkError> {
        let select = "/* tallyd user list */ SELECT MAX(started_at) FROM sync_run WHERE outcome = 'done'";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_one(select).await.map_err(&failed)?;
                Ok(row.try_get::<Option<DateTime<Utc>>, _>(0).map_err(failed)?.unwrap_or_default())
            })
        })
        .await
    }
}
