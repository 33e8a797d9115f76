//! What the ledgers say of the work of all daemons, for `/metrics`.

use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;

/// How matters stand. Times are Unix seconds by MySQL's clock, of the end of what they speak of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Rows of the journal of degraded writes.
    pub journal: u64,
    /// The last run that was done.
    pub run_done_s: Option<i64>,
    /// The last full pass of the schedule that looked at everything.
    pub full_pass_s: Option<i64>,
    /// The last pass of the schedule that left both sides in agreement.
    pub agreement_s: Option<i64>,
    /// For how long the report of the last full pass has not been mailed, in seconds; `None` when it was.
    pub report_waits_s: Option<i64>,
}

impl Session {
    /// Asks all that in one statement.
    pub async fn standing(&mut self) -> Result<Standing, SinkError> {
        let select = "/* tallyd metrics */ SELECT CAST((SELECT COUNT(*) FROM degraded_write) AS UNSIGNED), \
             (SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', started_at) + duration_ms DIV 1000 FROM sync_run \
              WHERE outcome = 'done' ORDER BY started_at DESC LIMIT 1), \
             (SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', started_at) + duration_ms DIV 1000 FROM reconcile_run \
              WHERE caused_by = 'full' AND outcome IN ('clean', 'repaired', 'drift') \
              ORDER BY started_at DESC LIMIT 1), \
             (SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', started_at) + duration_ms DIV 1000 FROM reconcile_run \
              WHERE caused_by IN ('full', 'sample') AND outcome IN ('clean', 'repaired') \
              ORDER BY started_at DESC LIMIT 1), \
             (SELECT IF(mailed_at IS NULL, GREATEST(0, TIMESTAMPDIFF(SECOND, started_at, UTC_TIMESTAMP(3)) \
              - duration_ms DIV 1000), NULL) FROM reconcile_run \
              WHERE caused_by = 'full' ORDER BY started_at DESC LIMIT 1)";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_one(sqlx::query(select)).await.map_err(&failed)?;
                let read = || {
                    Ok(Standing {
                        journal: row.try_get(0)?,
                        run_done_s: row.try_get(1)?,
                        full_pass_s: row.try_get(2)?,
                        agreement_s: row.try_get(3)?,
                        report_waits_s: row.try_get(4)?,
                    })
                };
                read().map_err(&failed)
            })
        })
        .await
    }
}
