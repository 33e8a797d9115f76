//! The ledger of reconciliation passes, as far as reports need it.

use chrono::{DateTime, Utc};
use sqlx::mysql::MySqlRow;
use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;

/// One pass, as `reconcile_run` keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptPass {
    /// UUID.
    pub run_id: String,
    /// `sample`, `full` or `command`.
    pub caused_by: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// JSON, as `tallyd reconcile --json` prints it.
    pub report: String,
    /// Whether its report was handed to the mail server.
    pub mailed: bool,
}

impl KeptPass {
    fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let mailed_at: Option<DateTime<Utc>> = row.try_get(4)?;
        Ok(Self {
            run_id: row.try_get(0)?,
            caused_by: row.try_get(1)?,
            started_at: row.try_get(2)?,
            report: row.try_get(3)?,
            mailed: mailed_at.is_some(),
        })
    }
}

impl Session {
    /// The last pass; of those with this cause, if one is named.
    pub async fn last_pass(&mut self, caused_by: Option<&'static str>) -> Result<Option<KeptPass>, SinkError> {
        let select = "/* tallyd pass.last */ SELECT run_id, caused_by, started_at, report, mailed_at FROM reconcile_run \
             WHERE ? IS NULL OR caused_by = ? ORDER BY started_at DESC, run_id DESC LIMIT 1";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let select = sqlx::query(select).bind(caused_by).bind(caused_by);
                let row = conn.mysql.fetch_optional(select).await.map_err(&failed)?;
                row.as_ref().map(KeptPass::read).transpose().map_err(&failed)
            })
        })
        .await
    }

    /// The reports of the last `limit` passes with the same cause before `pass`, newest first, as JSON.
    pub async fn passes_before(&mut self, pass: &KeptPass, limit: u32) -> Result<Vec<String>, SinkError> {
        let select = "/* tallyd pass.before */ SELECT report FROM reconcile_run \
             WHERE caused_by = ? AND started_at < ? ORDER BY started_at DESC, run_id DESC LIMIT ?";
        let (caused_by, started_at) = (pass.caused_by.clone(), pass.started_at);
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let select = sqlx::query(select).bind(caused_by).bind(started_at).bind(limit);
                let rows = conn.mysql.fetch_all(select).await.map_err(&failed)?;
                rows.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
            })
        })
        .await
    }

    /// Notes that the report of a pass was handed to the mail server. The first time stands.
    pub async fn pass_mailed(&mut self, run_id: &str) -> Result<(), SinkError> {
        let update = "/* tallyd pass.mailed */ UPDATE reconcile_run SET mailed_at = UTC_TIMESTAMP(3) \
             WHERE run_id = ? AND mailed_at IS NULL";
        let run_id = run_id.to_owned();
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                conn.mysql.execute(sqlx::query(update).bind(run_id)).await.map_err(&failed)?;
                Ok(())
            })
        })
        .await
    }

    /// Takes the turn to mail, of which there is one in a database, or says that another process has it. It is kept as
    /// long as the connection, which the server ends when it is silent: who has the turn takes it again meanwhile.
    pub async fn take_mail_turn(&mut self) -> Result<bool, SinkError> {
        let select = "/* tallyd pass.turn */ SELECT COALESCE(CAST(GET_LOCK(CONCAT('tallyd mail ', LEFT(DATABASE(), 40)), 0) \
             AS SIGNED), 0)";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_one(sqlx::query(select)).await.map_err(&failed)?;
                let taken: i64 = row.try_get(0).map_err(&failed)?;
                Ok(taken == 1)
            })
        })
        .await
    }
}
