//! The listener for those who run tallyd: health, metrics, status as a page and as JSON, and a run on demand.

mod health;
mod metrics;
mod page;
mod sync;

pub(crate) use metrics::waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::config::Tokens;
use crate::http::guard::{Guard, Guarded, PAGE, Protects};
use crate::http::with_fallbacks;
use crate::live::Live;
use crate::metrics::{Metrics, WriteRate};
use crate::status::{Daemon, Status, gather};
use crate::sync::{Context, Ended, Waker};

/// Requests under way at once; the next one is answered 503.
const ROOM: usize = 64;

/// The longest that an answer may take: a run may be waited for this long and a little more.
const LIMIT: Duration = Duration::from_secs(sync::LONGEST_WAIT + 30);

/// What is administered.
#[derive(Clone)]
pub struct Admin {
    /// Both servers.
    pub context: Arc<Context>,
    /// What readiness is asked of.
    pub live: Live,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// How many writes it acknowledges.
    pub rate: WriteRate,
    /// Starts runs.
    pub waker: Waker,
    /// How its last run ended.
    pub last: watch::Receiver<Ended>,
    /// When the daemon started.
    pub started: Instant,
}

/// The routes over `admin`. With `tokens`, a `POST` needs one of them. `at_work` knows the requests under way.
pub fn router(admin: Admin, tokens: Tokens, at_work: &TaskTracker) -> Guarded {
    let page = page::Page { admin: admin.clone(), tokens: tokens.clone() };
    let page = Router::new().route(PAGE, get(page::show).post(page::sync)).with_state(Arc::new(page));
    let router = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .route("/status", get(status))
        .route("/sync", post(sync::run))
        .with_state(Arc::new(admin))
        .merge(page);
    Guard::new(tokens, Protects::Posts, ROOM, LIMIT, at_work.clone()).before(with_fallbacks(router))
}

async fn status(State(admin): State<Arc<Admin>>) -> Response {
    Json(admin.status().await).into_response()
}

impl Admin {
    async fn status(&self) -> Status {
        let daemon = Daemon {
            uptime_s: self.started.elapsed().as_secs(),
            breaker: self.live.breaker().as_str(),
            breaker_since_s: self.live.degraded_for().map(|time| time.as_secs()),
            writes_per_second: self.rate.per_second(),
            last_run: self.last.borrow().report.as_ref().and_then(|report| serde_json::to_string(&**report).ok()),
        };
        gather(&self.context, Some(daemon)).await
    }
}

/// A JSON text that is not parsed again.
fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
