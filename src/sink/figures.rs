//! What reconciliation reads: which targets there are, and what MySQL holds of some of them as of one moment.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::{Id, RecordRow};

/// Which rows of one interaction with a target are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedRows {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// All, if there are no more than this; else those of `users`. Also where the layout does not find the rows of a
    /// target, those of `users`.
    pub whole_up_to: Option<u64>,
    /// In order.
    pub users: Vec<Id>,
}

/// What MySQL holds of one interaction with a target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// The count row.
    pub count: Option<i64>,
    /// How many record rows there are, and how many of them are active; `None` where the layout does not find them.
    pub rows: Option<(u64, u64)>,
    /// Rows that were wanted: whether the state is active, and the latest event time that the row may stand for.
    pub states: BTreeMap<Id, (bool, i64)>,
    /// Whether `states` are all.
    pub whole: bool,
}

/// What MySQL holds of some targets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// By target and code of the interaction, configured or not; what is not there has neither count nor rows.
    pub figures: BTreeMap<(Id, u16), Figures>,
    /// Targets with writes in the degraded journal, asked for after the rest was read.
    pub journaled: BTreeSet<Id>,
    /// Whether the layout finds the rows of a target.
    pub by_target: bool,
}

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
                let of = |table: &str, upto: i64| {
                    format!(
                        "/* tallyd reconcile */ SELECT CAST(t AS SIGNED) FROM (SELECT DISTINCT target_id AS t \
                         FROM {table} WHERE target_type = {target_type} AND target_id > {after} \
                         AND target_id <= {upto} ORDER BY target_id LIMIT {limit}) AS page"
                    )
                };
                let counted = conn.ids(of("interaction_count", i64::MAX)).await?;
                let mut upto = if counted.len() < limit { i64::MAX } else { counted.last().copied().unwrap_or(after) };
                let mut targets: BTreeSet<i64> = counted.into_iter().collect();
                if conn.layout()?.by_target {
                    let recorded = conn.ids(of("interaction_record", upto)).await?;
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
        let list = list(targets);
        self.with(move |conn| {
            Box::pin(async move {
                let mut known = BTreeSet::new();
                let tables: &[&str] = if conn.layout()?.by_target {
                    &["interaction_count", "interaction_record"]
                } else {
                    &["interaction_count"]
                };
                for table in tables {
                    let ids = conn.ids(format!(
                        "/* tallyd reconcile */ SELECT DISTINCT CAST(target_id AS SIGNED) FROM {table} \
                         WHERE target_type = {target_type} AND target_id IN ({list})"
                    ));
                    known.extend(ids.await?.into_iter().filter_map(|target| Id::try_from(target).ok()));
                }
                Ok(known)
            })
        })
        .await
    }

    /// The codes of target types that have rows.
    pub async fn target_types(&mut self) -> Result<BTreeSet<u16>, SinkError> {
        self.with(|conn| {
            Box::pin(async move {
                let mut types = BTreeSet::new();
                for table in ["interaction_count", "interaction_record"] {
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

    /// What MySQL holds of `targets`, a hundred or so, as of one moment, with the rows of `wanted`, and after that which of
    /// them the journal has writes of.
    pub async fn held(
        &mut self,
        target_type: u16,
        targets: Vec<Id>,
        wanted: Vec<WantedRows>,
    ) -> Result<Held, SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let begin = "/* tallyd reconcile */ SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
                conn.mysql.execute(begin).await.map_err(&failed)?;
                let begin = "/* tallyd reconcile */ START TRANSACTION WITH CONSISTENT SNAPSHOT";
                conn.mysql.execute(begin).await.map_err(&failed)?;
                let mut held = conn.figures(target_type, &targets).await?;
                conn.wanted_rows(target_type, wanted, &mut held).await?;
                conn.mysql.execute("/* tallyd reconcile */ COMMIT").await.map_err(&failed)?;
                let journaled = conn.ids(format!(
                    "/* tallyd reconcile */ SELECT DISTINCT target_id FROM degraded_write \
                     WHERE target_type = {target_type} AND target_id IN ({})",
                    list(&targets)
                ));
                held.journaled = journaled.await?.into_iter().filter_map(|target| Id::try_from(target).ok()).collect();
                Ok(held)
            })
        })
        .await
    }

    /// The rows of some users, a thousand or so, of one interaction with a target: whether the state is active, and the latest
    /// event time that the row may stand for.
    pub async fn rows_of(
        &mut self,
        (target_type, target, interaction): (u16, Id, u16),
        users: Vec<Id>,
    ) -> Result<BTreeMap<Id, (bool, i64)>, SinkError> {
        let row = |user| RecordRow { target, interaction, user, active: false, at_ms: 0 };
        let rows: Vec<RecordRow> = users.into_iter().map(row).collect();
        self.with(move |conn| {
            Box::pin(async move {
                let held = conn.held_records(target_type, &rows, false).await?;
                let of_user = held.into_iter().filter_map(|((_, _, user), row)| {
                    Some((Id::try_from(user).ok()?, (row.active, conn.latest_ms(&row))))
                });
                Ok(of_user.collect())
            })
        })
        .await
    }

    /// How many threads of the server are at work.
    pub async fn threads_running(&mut self) -> Result<u64, SinkError> {
        let show = "/* tallyd reconcile */ SHOW GLOBAL STATUS LIKE 'Threads_running'";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_optional(sqlx::raw_sql(show)).await.map_err(&failed)?;
                let value: Option<String> = row.map(|row| row.try_get(1)).transpose().map_err(&failed)?;
                Ok(value.and_then(|value| value.parse().ok()).unwrap_or_default())
            })
        })
        .await
    }
}

impl Conn {
    async fn ids(&mut self, select: String) -> Result<Vec<i64>, SinkError> {
        let failed = self.failed();
        let rows = self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)?;
        rows.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
    }

    async fn figures(&mut self, target_type: u16, targets: &[Id]) -> Result<Held, SinkError> {
        let failed = self.failed();
        let mut held = Held { by_target: self.layout()?.by_target, ..Held::default() };
        for ((target, interaction), count) in self.counts_in(target_type, targets).await? {
            if let Ok(target) = Id::try_from(target) {
                held.figures.entry((target, interaction)).or_default().count = Some(count);
            }
        }
        if !held.by_target {
            return Ok(held);
        }
        let select = format!(
            "/* tallyd reconcile */ SELECT CAST(target_id AS SIGNED), CAST(interaction_type AS SIGNED), \
             CAST(COUNT(*) AS SIGNED), CAST(SUM(status = 1) AS SIGNED) FROM interaction_record \
             WHERE target_type = {target_type} AND target_id IN ({}) GROUP BY target_id, interaction_type",
            list(targets)
        );
        for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)? {
            let read = |at: usize| row.try_get::<i64, _>(at).map_err(&failed);
            let (target, interaction, all, active) = (read(0)?, read(1)?, read(2)?, read(3)?);
            if let (Ok(target), Ok(interaction)) = (Id::try_from(target), u16::try_from(interaction)) {
                let rows = (all.unsigned_abs(), active.unsigned_abs());
                held.figures.entry((target, interaction)).or_default().rows = Some(rows);
            }
        }
        Ok(held)
    }

    async fn wanted_rows(
        &mut self,
        target_type: u16,
        wanted: Vec<WantedRows>,
        held: &mut Held,
    ) -> Result<(), SinkError> {
        let mut whole: BTreeMap<u16, Vec<Id>> = BTreeMap::new();
        let mut points = Vec::new();
        for WantedRows { target, interaction, whole_up_to, users } in wanted {
            let all = held.figures.get(&(target, interaction)).and_then(|figures| figures.rows).unwrap_or_default().0;
            if held.by_target && whole_up_to.is_some_and(|limit| all <= limit) {
                if all > 0 {
                    whole.entry(interaction).or_default().push(target);
                }
                held.figures.entry((target, interaction)).or_default().whole = true;
            } else {
                let row = |user| RecordRow { target, interaction, user, active: false, at_ms: 0 };
                points.extend(users.into_iter().map(row));
            }
        }
        let failed = self.failed();
        let within = self.time_unit_ms().map_or(0, |unit| unit - 1);
        for (interaction, targets) in whole {
            let select = format!(
                "/* tallyd reconcile */ SELECT CAST(target_id AS SIGNED), CAST(user_id AS SIGNED), \
                 CAST(status AS SIGNED), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time) DIV 1000 \
                 FROM interaction_record WHERE target_type = {target_type} AND target_id IN ({}) \
                 AND interaction_type = {interaction}",
                list(&targets)
            );
            for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)? {
                let (target, user, (active, update_ms)) = whole_row(&row).map_err(&failed)?;
                let state = (active, update_ms + within);
                if let (Ok(target), Ok(user)) = (Id::try_from(target), Id::try_from(user)) {
                    held.figures.entry((target, interaction)).or_default().states.insert(user, state);
                }
            }
        }
        points.sort_unstable();
        for ((target, interaction, user), row) in self.held_records(target_type, &points, false).await? {
            if let (Ok(target), Ok(user)) = (Id::try_from(target), Id::try_from(user)) {
                let state = (row.active, self.latest_ms(&row));
                held.figures.entry((target, interaction)).or_default().states.insert(user, state);
            }
        }
        Ok(())
    }
}

fn whole_row(row: &MySqlRow) -> Result<(i64, i64, (bool, i64)), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, (row.try_get::<i64, _>(2)? == 1, row.try_get(3)?)))
}

fn list(ids: &[Id]) -> String {
    ids.iter().map(Id::to_string).collect::<Vec<_>>().join(",")
}
