//! What leaves Redis.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Targets that were unloaded.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    unloaded: Counter,
}

impl CacheMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { unloaded: Counter::default() };
        registry.register("unloaded_targets", "Targets unloaded because nobody used them", metrics.unloaded.clone());
        metrics
    }

    /// So many more were unloaded.
    pub fn unloaded(&self, targets: u64) {
        self.unloaded.inc_by(targets);
    }
}
