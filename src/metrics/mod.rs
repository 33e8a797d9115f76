//! Figures for Prometheus.
//!
//! Every series is made at start, at zero, for every value that its labels can take; the values come from the
//! configuration and from lists in the code, never from a request, so that their number is bounded. Only what waits comes
//! and goes: while Redis is down, nothing is said of the backlog, while MySQL is down, nothing of the journal. README.md
//! lists every metric; a test compares.

mod backlog;
mod breaker;
mod cache;
mod http;
mod ledger;
mod process;
mod rate;
mod reconcile;
mod sync;
mod writes;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

pub use backlog::{BacklogMetrics, Waiting};
pub use breaker::BreakerMetrics;
pub use cache::CacheMetrics;
pub use http::{Call, HttpMetrics};
pub use ledger::LedgerMetrics;
pub use rate::WriteRate;
pub use reconcile::ReconcileMetrics;
pub use sync::SyncMetrics;
pub use writes::WriteMetrics;

use crate::model::Vocabulary;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Every figure of the process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Writes that were answered.
    pub writes: WriteMetrics,
    /// Runs.
    pub sync: SyncMetrics,
    /// Requests of the API.
    pub http: HttpMetrics,
    /// The circuit breaker.
    pub breaker: BreakerMetrics,
    /// What leaves Redis.
    pub cache: CacheMetrics,
    /// Passes of reconciliation.
    pub reconcile: ReconcileMetrics,
    /// What waits in Redis.
    pub backlog: BacklogMetrics,
    /// What MySQL keeps.
    pub ledger: LedgerMetrics,
    registry: Arc<Registry>,
}

impl Metrics {
    /// All figures at zero. `calls` are the methods and route templates that are told apart; others are counted
    /// together.
    #[must_use]
    pub fn new(vocabulary: &Vocabulary, calls: &[Call]) -> Self {
        let mut registry = Registry::with_prefix("tallyd");
        process::register(&mut registry);
        Self {
            writes: WriteMetrics::register(&mut registry, vocabulary),
            sync: SyncMetrics::register(&mut registry),
            http: HttpMetrics::register(&mut registry, calls),
            breaker: BreakerMetrics::register(&mut registry),
            cache: CacheMetrics::register(&mut registry),
            reconcile: ReconcileMetrics::register(&mut registry),
            backlog: BacklogMetrics::register(&mut registry, vocabulary),
            ledger: LedgerMetrics::register(&mut registry),
            registry: Arc::new(registry),
        }
    }

    /// Everything in the Prometheus text format.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The families of [`Metrics`] share this shape: labels in the order of their names.
type Labels<const N: usize> = [(&'static str, Arc<str>); N];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn every_series_is_there_from_the_start() {
        let vocabulary = Config::parse("", [], Path::new("f")).unwrap().vocabulary;
        let metrics = Metrics::new(&vocabulary, &[Call { method: "GET", route: "/v1/x" }]);
        let text = metrics.text().unwrap();
        for line in [
            "tallyd_writes_total{interaction=\"like\",result=\"changed\"} 0",
            "tallyd_writes_total{interaction=\"view\",result=\"counted\"} 0",
            "tallyd_sync_runs_total{outcome=\"refused\"} 0",
            "tallyd_sync_run_seconds_count 0",
            "tallyd_sync_rows_total 0",
            "tallyd_sync_skipped_total 0",
            "tallyd_rejected_rows_total 0",
            "tallyd_drift_total{kind=\"redis_count_off\"} 0",
            "tallyd_reconcile_last_success_timestamp_seconds 0",
            "tallyd_breaker_open 0",
            "tallyd_degraded_writes_total 0",
            "tallyd_redis_loss_total 0",
            "tallyd_replayed_writes_total 0",
            "tallyd_unloaded_targets_total 0",
            "tallyd_http_requests_total{method=\"GET\",route=\"/v1/x\",status=\"2xx\"} 0",
            "tallyd_http_requests_total{method=\"other\",route=\"other\",status=\"4xx\"} 0",
            "tallyd_http_requests_total{method=\"other\",route=\"other\",status=\"429\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("interaction=\"like\",result=\"counted\""), "{text}");
    }

    #[test]
    fn what_is_not_listed_is_counted_together() {
        let vocabulary = Config::parse("", [], Path::new("f")).unwrap().vocabulary;
        let metrics = Metrics::new(&vocabulary, &[Call { method: "GET", route: "/v1/x" }]);
        for (method, route) in [("GET", Some("/v1/y")), ("BREW", Some("/v1/x")), ("GET", None)] {
            metrics.http.answered(method, route, 404, std::time::Duration::ZERO);
        }
        let line = "tallyd_http_requests_total{method=\"other\",route=\"other\",status=\"4xx\"} 3";
        assert!(metrics.text().unwrap().contains(line));
    }
}
