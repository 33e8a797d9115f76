//! The circuit breaker.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The breaker, and what went to MySQL because of it.
#[derive(Clone, Debug, Default)]
pub struct BreakerMetrics {
    open: Gauge<i64, AtomicI64>,
    degraded: Counter,
}

impl BreakerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "breaker_open",
            "1 while reads are answered by MySQL because Redis is down or degraded writes wait for it",
            metrics.open.clone(),
        );
        registry.register(
            "degraded_writes",
            "Writes acknowledged by MySQL because Redis was down",
            metrics.degraded.clone(),
        );
        metrics
    }

    /// Whether it is open, or replaying.
    pub fn open(&self, open: bool) {
        self.open.set(i64::from(open));
    }

    /// So many degraded writes were acknowledged.
    pub fn degraded(&self, writes: u64) {
        self.degraded.inc_by(writes);
    }
}
