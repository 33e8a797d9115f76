//! What loading reads.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::Id;

/// What a first look at a target finds, at little cost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FirstLook {
    /// The count rows, by code of the interaction.
    pub counts: BTreeMap<u16, i64>,
    /// The interactions that may have record rows; `None` where the layout does not find the rows of a target.
    pub with_rows: Option<BTreeSet<u16>>,
}

impl Session {
    /// Looks at the count rows of a target, and for those of `interactions` that have none, at whether there are record
    /// rows all the same.
    pub async fn first_look(
        &mut self,
        target_type: u16,
        target: Id,
        interactions: Vec<u16>,
    ) -> Result<FirstLook, SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let counts = conn.counts_of(target_type, target).await?;
                if !conn.layout()?.by_target {
                    return Ok(FirstLook { counts, with_rows: None });
                }
                let (known, unknown): (Vec<u16>, Vec<u16>) =
                    interactions.into_iter().partition(|interaction| counts.contains_key(interaction));
                let mut with_rows = conn.with_rows(target_type, target, &unknown).await?;
                with_rows.extend(known);
                Ok(FirstLook { counts, with_rows: Some(with_rows) })
            })
        })
        .await
    }

    /// Rows of one interaction with a target: users above `after`, in order, at most `limit`.
    pub async fn record_page(
        &mut self,
        (target_type, target, interaction): (u16, Id, u16),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(Id, bool)>, SinkError> {
        let select = "/* tallyd load */ SELECT CAST(user_id AS SIGNED), CAST(status AS SIGNED) FROM interaction_record \
             WHERE target_type = ? AND target_id = ? AND interaction_type = ? AND user_id > ? ORDER BY user_id LIMIT ?";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let query = sqlx::query(select).bind(target_type).bind(target.get()).bind(interaction);
                let rows = conn.mysql.fetch_all(query.bind(after).bind(limit)).await.map_err(&failed)?;
                rows.iter().filter_map(|row| state(row).map_err(&failed).transpose()).collect()
            })
        })
        .await
    }

    /// The rows of some users, a thousand or so, of one interaction with a target. Every layout finds them.
    pub async fn records_of(
        &mut self,
        (target_type, target, interaction): (u16, Id, u16),
        users: &[Id],
    ) -> Result<Vec<(Id, bool)>, SinkError> {
        let list: Vec<String> = users.iter().map(ToString::to_string).collect();
        let select = format!(
            "/* tallyd load */ SELECT CAST(user_id AS SIGNED), CAST(status AS SIGNED) FROM interaction_record \
             WHERE target_type = {target_type} AND target_id = {target} AND interaction_type = {interaction} \
             AND user_id IN ({})",
            list.join(",")
        );
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)?;
                rows.iter().filter_map(|row| state(row).map_err(&failed).transpose()).collect()
            })
        })
        .await
    }

    /// Whether MySQL has writes of a target that were not replayed into Redis yet.
    pub async fn is_journaled(&mut self, target_type: u16, target: Id) -> Result<bool, SinkError> {
        let select = "/* tallyd load */ SELECT 1 FROM degraded_write WHERE target_type = ? AND target_id = ? LIMIT 1";
        self.with(move |conn| {
            Box::pin(async move {
                let query = sqlx::query(select).bind(target_type).bind(target.get());
                let failed = conn.failed();
                Ok(conn.mysql.fetch_optional(query).await.map_err(failed)?.is_some())
            })
        })
        .await
    }

    /// The targets with the greatest sums of counts, the greatest first, of the given types. It reads every count row,
    /// for as long as that takes.
    pub async fn most_active(&mut self, target_types: &[u16], limit: u64) -> Result<Vec<(u16, Id)>, SinkError> {
        let types: Vec<String> = target_types.iter().map(ToString::to_string).collect();
        let select = format!(
            "/* tallyd warm */ SELECT CAST(target_type AS SIGNED), CAST(target_id AS SIGNED) FROM interaction_count \
             WHERE target_type IN ({}) GROUP BY target_type, target_id ORDER BY SUM(count) DESC LIMIT {limit}",
            types.join(",")
        );
        // Within the time limit: whether the server is there.
        self.with(|conn| Box::pin(async move { conn.layout().map(drop) })).await?;
        self.unlimited(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let read = |row: MySqlRow| async move {
                    let (target_type, target): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                    Ok(u16::try_from(target_type).ok().zip(Id::try_from(target).ok()))
                };
                // As they come: rows take many times the room of what is kept of them.
                let rows = conn.mysql.fetch(sqlx::raw_sql(AssertSqlSafe(select)));
                rows.try_filter_map(read).try_collect().await.map_err(failed)
            })
        })
        .await
    }
}

impl Conn {
    async fn counts_of(&mut self, target_type: u16, target: Id) -> Result<BTreeMap<u16, i64>, SinkError> {
        let select = "/* tallyd load */ SELECT CAST(interaction_type AS SIGNED), CAST(count AS SIGNED) \
             FROM interaction_count WHERE target_type = ? AND target_id = ?";
        let failed = self.failed();
        let query = sqlx::query(select).bind(target_type).bind(target.get());
        let rows = self.mysql.fetch_all(query).await.map_err(&failed)?;
        let read = |row: &MySqlRow| -> Result<(u16, i64), sqlx::Error> {
            Ok((u16::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default(), row.try_get(1)?))
        };
        rows.iter().map(|row| read(row).map_err(&failed)).collect()
    }

    /// Which of some interactions have rows of a target: one statement, one look into the index for each.
    async fn with_rows(
        &mut self,
        target_type: u16,
        target: Id,
        interactions: &[u16],
    ) -> Result<BTreeSet<u16>, SinkError> {
        let looks = interactions.iter().map(|interaction| {
            format!(
                "(SELECT CAST({interaction} AS SIGNED) FROM interaction_record WHERE target_type = {target_type} \
                 AND target_id = {target} AND interaction_type = {interaction} LIMIT 1)"
            )
        });
        let looks = looks.collect::<Vec<_>>().join(" UNION ALL ");
        if looks.is_empty() {
            return Ok(BTreeSet::new());
        }
        let failed = self.failed();
        let text = format!("/* tallyd load */ {looks}");
        let rows = self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)?;
        let read = |row: &MySqlRow| -> Result<u16, sqlx::Error> {
            Ok(u16::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())
        };
        rows.iter().map(|row| read(row).map_err(&failed)).collect()
    }
}

/// A user id that is none cannot be asked for either.
fn state(row: &MySqlRow) -> Result<Option<(Id, bool)>, sqlx::Error> {
    let (user, status): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Id::try_from(user).ok().map(|user| (user, status == 1)))
}
