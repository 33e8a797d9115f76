//! `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::{Admin, json};
use crate::http::Problem;
use crate::live::Ready;

/// What a load balancer should wait before it asks again.
const AGAIN: Duration = Duration::from_secs(5);

/// The process lives: 200, always.
pub(super) async fn alive() -> Response {
    json(r#"{"status":"alive"}"#.to_owned())
}

/// Writes can be accepted, by Redis or by MySQL in its place: 200. They cannot, for both servers are down or the schema
/// is old: 503.
pub(super) async fn ready(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    match admin.live.readiness().await {
        Ok(Ready::Redis) => Ok(json(r#"{"status":"ready"}"#.to_owned())),
        Ok(Ready::Mysql) => Ok(json(r#"{"status":"degraded"}"#.to_owned())),
        Err(reason) => Err(Problem::unavailable(format!("writes cannot be accepted: {reason}"), AGAIN)),
    }
}
