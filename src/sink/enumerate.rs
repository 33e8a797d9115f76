//! Which targets there are, for reconciliation.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::Id;

/// Rows of a target type that are counted at most, of those that nobody configured.
const COUNTED: u32 = 100_000;

impl Session {
    /// The targets of a type above `after`, in order, that have a count row or record rows; about `limit`. Where to go on,
    /// `None` at the end. Where the layout does not find the rows of a target, those with a count row.
    pub async fn targets_page(
        &mut self,
        target_type: u16,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<Id>, Option<i64>), SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let of = |table: &str, range: &str| {
                    format!(
                        "/* tallyd reconcile */ SELECT CAST(t AS SIGNED) FROM (SELECT DISTINCT target_id AS t \
                         FROM {table} WHERE target_type = {target_type} AND ({range}) \
                         ORDER BY target_id LIMIT {limit}) AS page"
                    )
                };
                let counted = conn.ids(of("interaction_count", &format!("target_id > {after}"))).await?;
                let mut upto = if counted.len() < limit { i64::MAX } else { counted.last().copied().unwrap_or(after) };
                let between = between(&counted, after, upto);
                let mut targets: BTreeSet<i64> = counted.into_iter().collect();
                if conn.layout()?.by_target && !between.is_empty() {
                    let recorded = conn.ids(of("interaction_record", &between)).await?;
                    if recorded.len() >= limit {
                        upto = recorded.last().copied().unwrap_or(upto);
                    }
                    targets.extend(recorded);
                }
                let targets = targets.range(..=upto).filter_map(|&target| Id::try_from(target).ok()).collect();
                Ok((targets, (upto < i64::MAX).then_some(upto)))
            })
        })
        .await
    }

    /// Which of some targets have a count row or record rows.
    pub async fn known_among(&mut self, target_type: u16, targets: &[Id]) -> Result<BTreeSet<Id>, SinkError> {
        let mut unknown = targets.to_vec();
        self.with(move |conn| {
            Box::pin(async move {
                let mut known = BTreeSet::new();
                for table in conn.tables_by_target()? {
                    if unknown.is_empty() {
                        break;
                    }
                    let ids = conn.ids(format!(
                        "/* tallyd reconcile */ SELECT CAST(t AS SIGNED) FROM (SELECT DISTINCT target_id AS t \
                         FROM {table} WHERE target_type = {target_type} AND target_id IN ({})) AS page",
                        list(&unknown)
                    ));
                    known.extend(ids.await?.into_iter().filter_map(|target| Id::try_from(target).ok()));
                    unknown.retain(|target| !known.contains(target));
                }
                Ok(known)
            })
        })
        .await
    }

    /// The codes of target types that have rows. Where the layout does not find the rows of a target, those with count rows.
    pub async fn target_types(&mut self) -> Result<BTreeSet<u16>, SinkError> {
        self.with(|conn| {
            Box::pin(async move {
                let mut types = BTreeSet::new();
                for table in conn.tables_by_target()? {
                    let ids = conn.ids(format!(
                        "/* tallyd reconcile */ SELECT CAST(t AS SIGNED) FROM \
                         (SELECT DISTINCT target_type AS t FROM {table}) AS types"
                    ));
                    types.extend(ids.await?.into_iter().filter_map(|code| u16::try_from(code).ok()));
                }
                Ok(types)
            })
        })
        .await
    }

    /// What rows a target type has: code of the interaction, one of the targets, how many rows; of the first `COUNTED`.
    pub async fn rows_of_type(&mut self, target_type: u16) -> Result<Vec<(u16, Id, u64)>, SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let mut found = BTreeMap::new();
                for table in conn.tables_by_target()? {
                    let select = format!(
                        "/* tallyd reconcile */ SELECT CAST(i AS SIGNED), CAST(MIN(t) AS SIGNED), COUNT(*) FROM \
                         (SELECT interaction_type AS i, target_id AS t FROM {table} WHERE target_type = {target_type} \
                         LIMIT {COUNTED}) AS page GROUP BY i"
                    );
                    for row in conn.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)? {
                        let read = |at: usize| row.try_get::<i64, _>(at).map_err(&failed);
                        let (interaction, target, rows) = (read(0)?, read(1)?, read(2)?);
                        if let (Ok(interaction), Ok(target)) = (u16::try_from(interaction), Id::try_from(target)) {
                            found.insert(interaction, (target, rows.unsigned_abs()));
                        }
                    }
                }
                Ok(found.into_iter().map(|(interaction, (target, rows))| (interaction, target, rows)).collect())
            })
        })
        .await
    }
}

impl Conn {
    /// The tables whose rows of a target the layout finds.
    fn tables_by_target(&self) -> Result<&'static [&'static str], SinkError> {
        let tables: &[&str] = &["interaction_count", "interaction_record"];
        Ok(if self.layout()?.by_target { tables } else { &tables[..1] })
    }

    pub(super) async fn ids(&mut self, select: String) -> Result<Vec<i64>, SinkError> {
        let failed = self.failed();
        let rows = self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)?;
        rows.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
    }
}

/// What lies between targets that are known, in SQL: whoever has many rows and a count row is not gone through again.
fn between(known: &[i64], after: i64, upto: i64) -> String {
    let gaps = std::iter::once(&after).chain(known).zip(known).filter(|&(low, high)| high - low > 1);
    let mut ranges: Vec<_> = gaps.map(|(low, high)| format!("target_id > {low} AND target_id < {high}")).collect();
    if upto == i64::MAX {
        ranges.push(format!("target_id > {}", known.last().unwrap_or(&after)));
    }
    ranges.join(" OR ")
}

pub(super) fn list(ids: &[Id]) -> String {
    ids.iter().map(Id::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_are_looked_into() {
        assert_eq!(between(&[1, 2, 3], 0, 3), "");
        assert_eq!(between(&[5, 6], 3, 6), "target_id > 3 AND target_id < 5");
        assert_eq!(between(&[1, 2], 0, i64::MAX), "target_id > 2");
        assert_eq!(between(&[], 2, i64::MAX), "target_id > 2");
    }
}
