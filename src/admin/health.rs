//! `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::{Admin, json};
use crate::http::Problem;
use crate::sink::SinkError;

/// How long the schema is waited for. Whether MySQL answers is no condition: writes go on without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a load balancer should wait before it asks again.
const AGAIN: Duration = Duration::from_secs(5);

/// The process lives: 200, always.
pub(super) async fn alive() -> Response {
    json(r#"{"status":"alive"}"#.to_owned())
}

/// Writes can be accepted: 200. They cannot, for both servers are down or the schema is old: 503.
pub(super) async fn ready(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    let (live, schema) = tokio::join!(admin.live.ready(), schema(&admin));
    live.map_err(|reason| Problem::unavailable(format!("writes cannot be accepted: {reason}"), AGAIN))?;
    schema.map_err(|reason| Problem::unavailable(reason, AGAIN))?;
    Ok(json(r#"{"status":"ready"}"#.to_owned()))
}

/// An error when MySQL says that its schema is not current.
async fn schema(admin: &Admin) -> Result<(), String> {
    let look = async {
        let mut session = admin.context.sink.session();
        let found = session.require_schema().await;
        session.close().await;
        found
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Err(error @ SinkError::Schema { .. })) => Err(error.to_string()),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the schema could not be looked at");
            Ok(())
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}
