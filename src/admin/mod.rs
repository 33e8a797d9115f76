//! The listener for those who run tallyd: health, metrics, status, and a run on demand.

mod health;
mod metrics;
mod sync;

pub(crate) use metrics::waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio_util::task::TaskTracker;

use crate::config::Tokens;
use crate::http::guard::{Guard, Protects};
use crate::http::with_fallbacks;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::sync::{Context, Waker};

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
    /// Starts runs.
    pub waker: Waker,
    /// When the daemon started.
    pub started: Instant,
}

/// The routes over `admin`. With `tokens`, a `POST` needs one of them. `at_work` knows the requests under way.
pub fn router(admin: Admin, tokens: Tokens, at_work: &TaskTracker) -> Router {
    let router = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .route("/status", get(status))
        .route("/sync", post(sync::run))
        .with_state(Arc::new(admin));
    Guard::new(tokens, Protects::Posts, ROOM, LIMIT, at_work.clone()).before(with_fallbacks(router))
}

async fn status(State(admin): State<Arc<Admin>>) -> Response {
    let mut status = crate::status::gather(&admin.context).await;
    status.uptime_s = Some(admin.started.elapsed().as_secs());
    // Without requests nobody has noticed yet that Redis is away.
    if status.redis.up {
        status.breaker = admin.live.breaker().as_str();
    }
    Json(status).into_response()
}

/// A JSON text that is not parsed again.
fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
