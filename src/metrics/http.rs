//! Requests of the API.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Labels;

/// Seconds: from an answer of Redis to the time limit of a request.
const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Everything that is not a listed call: unknown paths, wrong methods.
const OTHER: Call = Call { method: "other", route: "other" };

/// A method and a route template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// In capitals.
    pub method: &'static str,
    /// As the router spells it.
    pub route: &'static str,
}

/// Classes of status codes; 429, which says that clients ask for too much, by itself.
const CLASSES: [&str; 4] = ["2xx", "429", "4xx", "5xx"];

/// Requests by call, and by the class of their status.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    /// The last one is for [`OTHER`].
    series: Arc<[Series]>,
}

#[derive(Debug)]
struct Series {
    call: Call,
    /// In the order of [`CLASSES`].
    classes: [Counter; 4],
    seconds: Histogram,
}

impl HttpMetrics {
    pub(super) fn register(registry: &mut Registry, calls: &[Call]) -> Self {
        let total = Family::<Labels<3>, Counter>::default();
        let seconds =
            Family::<Labels<2>, Histogram, fn() -> Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let series = |call: Call| {
            let [method, route] =
                [("method", call.method), ("route", call.route)].map(|(name, text)| (name, text.into()));
            let classes = CLASSES
                .map(|class| total.get_or_create_owned(&[method.clone(), route.clone(), ("status", class.into())]));
            Series { call, classes, seconds: seconds.get_or_create_owned(&[method, route]) }
        };
        let series = calls.iter().copied().chain([OTHER]).map(series).collect();
        registry.register("http_requests", "Requests that were answered", total);
        registry.register("http_request_seconds", "How long answers took", seconds);
        Self { series }
    }

    /// A request was answered. `route` is the template that matched, if one did; HEAD is counted as GET.
    pub fn answered(&self, method: &str, route: Option<&str>, status: u16, took: Duration) {
        let method = if method == "HEAD" { "GET" } else { method };
        let is_meant = |series: &&Series| series.call.method == method && Some(series.call.route) == route;
        let Some(series) = self.series.iter().find(is_meant).or(self.series.last()) else { return };
        let [good, limited, refused, failed] = &series.classes;
        let class = match status {
            ..400 => good,
            429 => limited,
            400..500 => refused,
            500.. => failed,
        };
        class.inc();
        series.seconds.observe(took.as_secs_f64());
    }
}
