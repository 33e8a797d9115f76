//! What MySQL holds of some targets as of one moment, for reconciliation.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::enumerate::list;
use super::session::{Conn, Session};
use crate::model::{Digest, Id, RecordRow, Salt};

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
    /// Nothing is read when exactly these users have an active row.
    pub unless: Option<Digest>,
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
    /// The users with an active row; `None` where the layout does not find them.
    pub active: Option<Digest>,
    /// Whether they are those that were expected; `states` are not read then.
    pub as_expected: bool,
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
    /// What MySQL holds of `targets`, a hundred or so, as of one moment, with the rows of `wanted`, and after that which of
    /// them the journal has writes of. Digests are made with `salt`.
    pub async fn held(
        &mut self,
        target_type: u16,
        targets: Vec<Id>,
        wanted: Vec<WantedRows>,
        salt: Salt,
    ) -> Result<Held, SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let begin = "/* tallyd reconcile */ SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
                conn.mysql.execute(begin).await.map_err(&failed)?;
                let begin = "/* tallyd reconcile */ START TRANSACTION WITH CONSISTENT SNAPSHOT";
                conn.mysql.execute(begin).await.map_err(&failed)?;
                let mut held = conn.figures(target_type, &targets, salt).await?;
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
    async fn figures(&mut self, target_type: u16, targets: &[Id], salt: Salt) -> Result<Held, SinkError> {
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
             CAST(COUNT(*) AS SIGNED), CAST(COUNT(NULLIF(status = 1, 0)) AS SIGNED), BIT_XOR((status = 1) * {}) \
             FROM interaction_record WHERE target_type = {target_type} AND target_id IN ({}) \
             GROUP BY target_id, interaction_type",
            salt.sql("user_id"),
            list(targets)
        );
        for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await.map_err(&failed)? {
            let read = |at: usize| row.try_get::<i64, _>(at).map_err(&failed);
            let (target, interaction, all, active) = (read(0)?, read(1)?, read(2)?, read(3)?);
            let folded = row.try_get::<u64, _>(4).map_err(&failed)?;
            if let (Ok(target), Ok(interaction)) = (Id::try_from(target), u16::try_from(interaction)) {
                let figures = held.figures.entry((target, interaction)).or_default();
                figures.rows = Some((all.unsigned_abs(), active.unsigned_abs()));
                figures.active = Some(Digest { users: active.unsigned_abs(), folded });
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
        for WantedRows { target, interaction, whole_up_to, users, unless } in wanted {
            let figures = held.figures.get(&(target, interaction)).cloned().unwrap_or_default();
            let all = figures.rows.unwrap_or_default().0;
            if held.by_target && unless.is_some_and(|unless| unless == figures.active.unwrap_or_default()) {
                held.figures.entry((target, interaction)).or_default().as_expected = true;
            } else if held.by_target && whole_up_to.is_some_and(|limit| all <= limit) {
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
