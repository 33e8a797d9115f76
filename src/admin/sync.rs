//! `POST /sync`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use crate::http::{Kind, Problem};

/// The longest that a run is waited for, seconds.
pub(super) const LONGEST_WAIT: u64 = 300;

/// After so long a daemon that stops may have started again.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(default)]
    wait_seconds: u64,
}

/// Asks for a run that starts from now on: 202 with its id; with `?wait_seconds=N` 200 with its report, when it ends
/// within so many seconds. Requests that come while one waits share a run.
pub(super) async fn run(
    State(admin): State<Arc<Admin>>,
    wait: Result<Query<Wait>, QueryRejection>,
) -> Result<Response, Problem> {
    let wait = wait.map_err(|error| Problem::new(Kind::Malformed, format!("query: {}", error.body_text())))?;
    let Query(Wait { wait_seconds }) = wait;
    if wait_seconds > LONGEST_WAIT {
        let detail = format!("wait_seconds: {wait_seconds} is not within 0 to {LONGEST_WAIT}");
        return Err(Problem::new(Kind::Malformed, detail));
    }
    let ticket = admin.waker.request().ok_or_else(stopping)?;
    let run_id = ticket.run_id.clone();
    match tokio::time::timeout(Duration::from_secs(wait_seconds), ticket.report()).await {
        Ok(Some(report)) => Ok(Json(report.as_ref()).into_response()),
        Ok(None) => Err(stopping()),
        Err(_) => Ok((StatusCode::ACCEPTED, Json(json!({ "run_id": run_id }))).into_response()),
    }
}

pub(super) fn stopping() -> Problem {
    Problem::unavailable("tallyd is stopping; it finishes its work when it starts again", AGAIN)
}
