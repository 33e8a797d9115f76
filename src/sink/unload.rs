//! What unloading asks before it takes a target out of Redis.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::Id;

/// What MySQL says of targets that are about to leave Redis.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Targets of which something was set aside: what Redis holds of them is not all here.
    pub rejected: BTreeSet<Id>,
    /// The count rows of counters, by target and code.
    pub counters: BTreeMap<(Id, u16), i64>,
}

impl Session {
    /// Asks for a hundred targets or so. `names` are the names of all interactions, `counters` the codes of those without
    /// states.
    pub async fn kept_of(
        &mut self,
        target_type: u16,
        targets: &[Id],
        names: &[&str],
        counters: &[u16],
    ) -> Result<Kept, SinkError> {
        // Ranges of the index on marks: ';' comes after ':'.
        let of = |target: &Id, name: &&str| format!("(mark >= '{name}:{target}:' AND mark < '{name}:{target};')");
        let marks: Vec<String> =
            targets.iter().flat_map(|target| names.iter().map(move |name| of(target, name))).collect();
        let rejected = format!(
            "/* tallyd unload */ SELECT DISTINCT mark FROM sync_rejected WHERE target_type = {target_type} AND ({})",
            marks.join(" OR ")
        );
        let list = |ids: Vec<String>| ids.join(",");
        let rows = format!(
            "/* tallyd unload */ SELECT CAST(target_id AS SIGNED), CAST(interaction_type AS SIGNED), \
             CAST(count AS SIGNED) FROM interaction_count WHERE target_type = {target_type} \
             AND target_id IN ({}) AND interaction_type IN ({})",
            list(targets.iter().map(ToString::to_string).collect()),
            list(counters.iter().map(ToString::to_string).collect())
        );
        let (nothing, no_counters) = (marks.is_empty(), counters.is_empty());
        self.with(move |conn| {
            Box::pin(async move {
                let mut kept = Kept::default();
                if !nothing {
                    kept.rejected = conn.rejected_among(rejected).await?;
                }
                if !nothing && !no_counters {
                    kept.counters = conn.counter_rows(rows).await?;
                }
                Ok(kept)
            })
        })
        .await
    }
}

impl Conn {
    async fn rejected_among(&mut self, select: String) -> Result<BTreeSet<Id>, SinkError> {
        let failed = self.failed();
        let rows = self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)?;
        let marks = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>().map_err(failed)?;
        Ok(marks.iter().filter_map(|mark| mark.split(':').nth(1)?.parse().ok()).collect())
    }

    async fn counter_rows(&mut self, select: String) -> Result<BTreeMap<(Id, u16), i64>, SinkError> {
        let failed = self.failed();
        let rows = self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)?;
        let read = |row: &sqlx::mysql::MySqlRow| -> Result<_, sqlx::Error> {
            let (target, interaction): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let key = Id::try_from(target).ok().zip(u16::try_from(interaction).ok());
            key.map(|key| row.try_get(2).map(|count| (key, count))).transpose()
        };
        rows.iter().filter_map(|row| read(row).map_err(&failed).transpose()).collect()
    }
}
