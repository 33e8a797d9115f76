//! The ledger of runs.

use chrono::{DateTime, Utc};
use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;

/// One run, as `sync_run` keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// UUID, version 7.
    pub run_id: String,
    /// `schedule`, `backlog`, `start`, `command`, `api`, `journal` or `retry`.
    pub caused_by: &'static str,
    /// Host, process and a random part.
    pub owner: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// How long it took.
    pub duration_ms: i64,
    /// `done`, `partial`, `failed`, `refused` or `busy`.
    pub outcome: &'static str,
    /// Transactions tried again.
    pub retries: u64,
    /// JSON, as `tallyd sync --json` prints it.
    pub report: String,
}

impl Session {
    /// Keeps a run, and forgets runs older than `keep_days`.
    pub async fn record_run(&mut self, row: RunRow, keep_days: u32) -> Result<(), SinkError> {
        let insert = "/* tallyd run.record */ INSERT INTO sync_run \
             (run_id, caused_by, owner, started_at, duration_ms, outcome, retries, report) VALUES (?,?,?,?,?,?,?,?)";
        let forget = "/* tallyd run.record */ DELETE FROM sync_run \
             WHERE started_at < UTC_TIMESTAMP(3) - INTERVAL ? DAY ORDER BY started_at LIMIT 1000";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let RunRow { run_id, caused_by, owner, started_at, duration_ms, outcome, retries, report } = row;
                let insert = sqlx::query(insert).bind(run_id).bind(caused_by).bind(owner).bind(started_at.naive_utc());
                let insert = insert.bind(duration_ms).bind(outcome).bind(retries).bind(report);
                conn.mysql.execute(insert).await.map_err(&failed)?;
                conn.mysql.execute(sqlx::query(forget).bind(keep_days)).await.map_err(&failed)?;
                Ok(())
            })
        })
        .await
    }

    /// The reports of the last `limit` runs, newest first, as JSON.
    pub async fn last_runs(&mut self, limit: u32) -> Result<Vec<String>, SinkError> {
        let select = "/* tallyd run.list */ SELECT report FROM sync_run ORDER BY started_at DESC, run_id DESC LIMIT ?";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(sqlx::query(select).bind(limit)).await.map_err(&failed)?;
                rows.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
            })
        })
        .await
    }

    /// Runs that started after `at`, or at it under a greater id than `run_id`, oldest first: start, id and report.
    pub async fn runs_after(
        &mut self,
        at: DateTime<Utc>,
        run_id: &str,
        limit: u32,
    ) -> Result<Vec<(DateTime<Utc>, String, String)>, SinkError> {
        let select = "/* tallyd run.list */ SELECT started_at, run_id, report FROM sync_run \
             WHERE started_at > ? OR (started_at = ? AND run_id > ?) ORDER BY started_at, run_id LIMIT ?";
        let run_id = run_id.to_owned();
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let query = sqlx::query(select).bind(at).bind(at).bind(run_id).bind(limit);
                let rows = conn.mysql.fetch_all(query).await.map_err(&failed)?;
                let read = |row: &sqlx::mysql::MySqlRow| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                rows.iter().map(|row| read(row).map_err(&failed)).collect()
            })
        })
        .await
    }
}
