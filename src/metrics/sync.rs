//! Runs of the driver.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::sync::{Outcome, RunReport};

/// Seconds: from a run that finds nothing to one that fills an hour.
const BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// What the runs of this process did.
#[derive(Clone, Debug)]
pub struct SyncMetrics {
    runs: Family<Labels<1>, Counter>,
    seconds: Histogram,
    rows: Counter,
    rejected: Counter,
    skipped: Counter,
    losses: Counter,
    replayed: Counter,
}

impl SyncMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            runs: Family::default(),
            seconds: Histogram::new(BUCKETS),
            rows: Counter::default(),
            rejected: Counter::default(),
            skipped: Counter::default(),
            losses: Counter::default(),
            replayed: Counter::default(),
        };
        for outcome in [Outcome::Done, Outcome::Partial, Outcome::Failed, Outcome::Refused, Outcome::Busy] {
            drop(metrics.runs.get_or_create(&labels(outcome)));
        }
        registry.register("sync_runs", "Runs by their outcome", metrics.runs.clone());
        registry.register("sync_run_seconds", "How long runs took", metrics.seconds.clone());
        registry.register("sync_rows", "Record and count rows sent to MySQL", metrics.rows.clone());
        registry.register("rejected_rows", "Entries set aside in sync_rejected", metrics.rejected.clone());
        registry.register("sync_skipped", "Ticks that found a run under way", metrics.skipped.clone());
        registry.register("redis_loss", "Partitions restored after Redis lost writes", metrics.losses.clone());
        registry.register("replayed_writes", "Degraded writes replayed", metrics.replayed.clone());
        metrics
    }

    /// A run has ended.
    pub fn ended(&self, report: &RunReport) {
        self.runs.get_or_create(&labels(report.outcome)).inc();
        self.seconds.observe(Duration::from_millis(report.duration_ms).as_secs_f64());
        self.rows.inc_by(report.tally.rows_written);
        self.rejected.inc_by(report.tally.rejected);
        self.replayed.inc_by(report.tally.replayed);
        let restores = report.partitions.iter().filter_map(|partition| Some(partition.restored.as_ref()?.times));
        self.losses.inc_by(restores.sum());
    }

    /// A tick found a run under way.
    pub fn skipped(&self) {
        self.skipped.inc();
    }
}

fn labels(outcome: Outcome) -> Labels<1> {
    [("outcome", Arc::from(outcome.as_str()))]
}
