//! The process itself.

use std::sync::Arc;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;

/// Its version and when it began, which do not change.
pub(super) fn register(registry: &mut Registry) {
    let build = Family::<Labels<1>, Gauge>::default();
    build.get_or_create(&[("version", Arc::from(env!("CARGO_PKG_VERSION")))]).set(1);
    registry.register("build_info", "1, with the version as a label", build);
    let started = Gauge::<i64>::default();
    started.set(chrono::Utc::now().timestamp());
    registry.register("start_time_seconds", "When the process started, Unix seconds", started);
}
