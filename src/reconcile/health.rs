//! How syncing did since the last pass, from the ledger of runs.

use serde::{Deserialize, Serialize};

use super::pass::as_float;
use super::request::Trigger;
use crate::sink::{Session, SinkError};
use crate::sync::{Context, Lag, WRITES_TOTAL};

/// Runs since the last pass that was caused alike, in sum: a nightly report tells of a day.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SyncHealth {
    /// When that pass started, RFC 3339; `None` when this is the first.
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
    /// How long half of the changes had waited at most, ms, to 10 % above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_p50_ms: Option<u64>,
    /// The same of 99 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_p99_ms: Option<u64>,
    /// Writes that were acknowledged since the database was set up, by all processes, as of a minute ago.
    pub writes_total: u64,
    /// Writes for one change that was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<f64>,
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
    #[serde(default)]
    lag_ms: Lag,
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

/// What is taken from the report of the pass before.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Before {
    started_at: Option<String>,
    sync_health: BeforeHealth,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BeforeHealth {
    writes_total: u64,
}

/// Sums up the runs since the last pass that was caused alike: health, the balance of degraded writes, and restores.
pub(super) async fn health(context: &Context, trigger: Trigger) -> Result<(SyncHealth, Degraded, u64), SinkError> {
    let mut session = context.sink.session();
    let last = session.last_pass(Some(trigger.as_str())).await?;
    let before: Before = last.and_then(|pass| serde_json::from_str(&pass.report).ok()).unwrap_or_default();
    let since = before.started_at;
    let writes_total = session.meta(WRITES_TOTAL).await?.and_then(|total| total.parse().ok()).unwrap_or_default();
    let mut health = SyncHealth { since: since.clone(), writes_total, ..SyncHealth::default() };
    let losses = sum(&mut session, since, &mut health).await?;
    let writes = writes_total.saturating_sub(before.sync_health.writes_total);
    health.coalescing =
        (writes > 0 && health.changes > 0).then(|| hundredths(as_float(writes) / as_float(health.changes)));
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
    let (mut losses, mut after, mut lag) = (0, (since, String::new()), Lag::default());
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
            lag.add(&run.lag_ms);
            losses += run.partitions.iter().filter_map(|p| Some(p.restored.as_ref()?.times.max(1))).sum::<u64>();
        }
        if page.len() < PAGE as usize {
            (health.lag_p50_ms, health.lag_p99_ms) = (lag.percentile(50), lag.percentile(99));
            return Ok(losses);
        }
    }
}

fn hundredths(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}
