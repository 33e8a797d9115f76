//! How syncing did since the last pass, from the ledger of runs.

use serde::{Deserialize, Serialize};

use crate::sink::{Session, SinkError};
use crate::sync::Context;

/// Runs since the last pass, in sum.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SyncHealth {
    /// When the last pass started, RFC 3339; `None` when this is the first.
    pub since: Option<String>,
    /// Runs.
    pub runs: u64,
    /// Of those, not done.
    pub failed_runs: u64,
    /// Record and count rows sent.
    pub rows_written: u64,
    /// Changes copied.
    pub changes: u64,
    /// Targets copied.
    pub targets: u64,
    /// Transactions tried again.
    pub retries: u64,
    /// Entries set aside.
    pub rejected: u64,
    /// Age of the oldest change that waits now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_dirty_ms: Option<i64>,
}

/// Degraded writes since the database was set up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Degraded {
    /// Accepted.
    pub accepted_total: u64,
    /// Of those, replayed.
    pub replayed_total: u64,
    /// Not yet replayed.
    pub pending: u64,
}

/// Of a report of a run, what is summed up.
#[derive(Deserialize)]
struct Run {
    outcome: String,
    rows_written: u64,
    changes: u64,
    targets: u64,
    #[serde(default)]
    retries: u64,
    rejected: u64,
    partitions: Vec<RunPartition>,
}

#[derive(Deserialize)]
struct RunPartition {
    restored: Option<Restored>,
}

#[derive(Deserialize)]
struct Restored {
    #[serde(default)]
    times: u64,
}

/// Runs are read in pages of so many.
const PAGE: u32 = 500;

/// Sums up the runs since the last pass: health, the balance of degraded writes, and restores.
pub(super) async fn health(context: &Context) -> Result<(SyncHealth, Degraded, u64), SinkError> {
    let mut session = context.sink.session();
    let last = session.last_passes(1).await?;
    let since = last.first().and_then(|json| {
        let report: serde_json::Value = serde_json::from_str(json).ok()?;
        Some(report.get("started_at")?.as_str()?.to_owned())
    });
    let mut health = SyncHealth { since: since.clone(), ..SyncHealth::default() };
    let losses = sum(&mut session, since, &mut health).await?;
    let (pending, replayed_total) = session.journal_balance().await?;
    session.close().await;
    if let Ok(store) = context.store().await {
        for partition in context.partitions() {
            if let Ok(backlog) = store.backlog(partition).await {
                let age_ms = backlog.oldest_ms.map(|oldest_ms| (backlog.now_ms - oldest_ms).max(0));
                health.oldest_dirty_ms = health.oldest_dirty_ms.max(age_ms);
            }
        }
    }
    Ok((health, Degraded { accepted_total: pending + replayed_total, replayed_total, pending }, losses))
}

async fn sum(session: &mut Session, since: Option<String>, health: &mut SyncHealth) -> Result<u64, SinkError> {
    let since = since.and_then(|since| since.parse().ok()).unwrap_or_default();
    let (mut losses, mut after) = (0, (since, String::new()));
    loop {
        let page = session.runs_after(after.0, &after.1, PAGE).await?;
        for (started_at, run_id, json) in &page {
            after = (*started_at, run_id.clone());
            let Ok(run) = serde_json::from_str::<Run>(json) else { continue };
            health.runs += 1;
            health.failed_runs += u64::from(run.outcome != "done");
            health.rows_written += run.rows_written;
            health.changes += run.changes;
            health.targets += run.targets;
            health.retries += run.retries;
            health.rejected += run.rejected;
            losses += run.partitions.iter().filter_map(|p| Some(p.restored.as_ref()?.times.max(1))).sum::<u64>();
        }
        if page.len() < PAGE as usize {
            return Ok(losses);
        }
    }
}
