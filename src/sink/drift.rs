//! The ledger of reconciliation: passes, and every drift that they found.

use chrono::{DateTime, Utc};
use sqlx::mysql::MySqlRow;
use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;

/// What a row of `reconcile_drift` needs at most in a statement.
const ROW_BYTES: usize = 512;

/// One pass, as `reconcile_run` keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassRow {
    /// UUID, version 7.
    pub run_id: String,
    /// `sample`, `full` or `command`.
    pub caused_by: &'static str,
    /// Host, process and a random part.
    pub owner: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// How long it took.
    pub duration_ms: i64,
    /// `clean`, `repaired`, `drift`, `stopped` or `failed`.
    pub outcome: &'static str,
    /// JSON, as `tallyd reconcile --json` prints it.
    pub report: String,
}

/// One drift, as `reconcile_drift` keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriftRow {
    /// Code of the target type.
    pub target_type: u16,
    /// The target.
    pub target_id: i64,
    /// Code of the interaction.
    pub interaction_type: u16,
    /// The user; `None` where a count is concerned.
    pub user_id: Option<i64>,
    /// What differs.
    pub kind: String,
    /// The probable cause.
    pub cause: String,
    /// `redis` or `mysql`: where it was or would be repaired.
    pub side: String,
    /// What was there; `None` for nothing.
    pub before: Option<String>,
    /// What is right; `None` where it was to go, or is not known.
    pub after: Option<String>,
    /// `repaired`, `failed`, `refused`, `left` or `dry`.
    pub outcome: String,
    /// When it was found.
    pub found_at: DateTime<Utc>,
}

impl Session {
    /// Keeps drifts of a pass.
    pub async fn record_drifts(&mut self, run_id: &str, rows: Vec<DriftRow>) -> Result<(), SinkError> {
        let insert = (
            "/* tallyd reconcile.record */ INSERT INTO reconcile_drift (run_id, target_type, target_id, \
             interaction_type, user_id, kind, cause, side, before_value, after_value, outcome, found_at) VALUES ",
            "(?,?,?,?,?,?,?,?,?,?,?,?)",
            "",
        );
        let run_id = run_id.to_owned();
        self.with(move |conn| {
            Box::pin(async move {
                conn.write_rows(&rows, insert, ROW_BYTES, |query, row| {
                    let query = query.bind(run_id.clone()).bind(row.target_type).bind(row.target_id);
                    let query = query.bind(row.interaction_type).bind(row.user_id).bind(row.kind.clone());
                    let query = query.bind(row.cause.clone()).bind(row.side.clone()).bind(row.before.clone());
                    query.bind(row.after.clone()).bind(row.outcome.clone()).bind(row.found_at)
                })
                .await
            })
        })
        .await
    }

    /// Keeps a pass, and forgets passes and drifts older than `keep_days`.
    pub async fn record_pass(&mut self, row: PassRow, keep_days: u32) -> Result<(), SinkError> {
        let insert = "/* tallyd reconcile.record */ INSERT INTO reconcile_run \
             (run_id, caused_by, owner, started_at, duration_ms, outcome, report) VALUES (?,?,?,?,?,?,?)";
        let forget = [
            "/* tallyd reconcile.record */ DELETE FROM reconcile_run \
             WHERE started_at < UTC_TIMESTAMP(3) - INTERVAL ? DAY ORDER BY started_at LIMIT 1000",
            "/* tallyd reconcile.record */ DELETE FROM reconcile_drift \
             WHERE found_at < UTC_TIMESTAMP(3) - INTERVAL ? DAY ORDER BY found_at LIMIT 10000",
        ];
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let PassRow { run_id, caused_by, owner, started_at, duration_ms, outcome, report } = row;
                let insert = sqlx::query(insert).bind(run_id).bind(caused_by).bind(owner).bind(started_at);
                let insert = insert.bind(duration_ms).bind(outcome).bind(report);
                conn.mysql.execute(insert).await.map_err(&failed)?;
                for forget in forget {
                    conn.mysql.execute(sqlx::query(forget).bind(keep_days)).await.map_err(&failed)?;
                }
                Ok(())
            })
        })
        .await
    }

    /// The reports of the last `limit` passes, newest first, as JSON.
    pub async fn last_passes(&mut self, limit: u32) -> Result<Vec<String>, SinkError> {
        let select = "/* tallyd reconcile.list */ SELECT report FROM reconcile_run \
             ORDER BY started_at DESC, run_id DESC LIMIT ?";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(sqlx::query(select).bind(limit)).await.map_err(&failed)?;
                rows.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
            })
        })
        .await
    }

    /// The drifts of a pass in the order in which they were found; at most `limit`.
    pub async fn drifts_of(&mut self, run_id: &str, limit: u32) -> Result<Vec<DriftRow>, SinkError> {
        let select = "/* tallyd reconcile.list */ SELECT target_type, target_id, interaction_type, user_id, kind, cause, \
             side, before_value, after_value, outcome, found_at FROM reconcile_drift WHERE run_id = ? ORDER BY id LIMIT ?";
        let run_id = run_id.to_owned();
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(sqlx::query(select).bind(run_id).bind(limit)).await.map_err(&failed)?;
                rows.iter().map(|row| drift(row).map_err(&failed)).collect()
            })
        })
        .await
    }
}

fn drift(row: &MySqlRow) -> Result<DriftRow, sqlx::Error> {
    Ok(DriftRow {
        target_type: row.try_get(0)?,
        target_id: row.try_get(1)?,
        interaction_type: row.try_get(2)?,
        user_id: row.try_get(3)?,
        kind: row.try_get(4)?,
        cause: row.try_get(5)?,
        side: row.try_get(6)?,
        before: row.try_get(7)?,
        after: row.try_get(8)?,
        outcome: row.try_get(9)?,
        found_at: row.try_get(10)?,
    })
}
