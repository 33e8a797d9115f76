//! `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::{Admin, json};
use crate::http::Problem;
use crate::sink::SinkError;

/// How long the schema is waited for.
const PATIENCE: Duration = Duration::from_millis(800);

/// What a load balancer should wait before it asks again.
const AGAIN: Duration = Duration::from_secs(5);

/// The process lives: 200, always.
pub(super) async fn alive() -> Response {
    json(r#"{"status":"alive"}"#.to_owned())
}

/// Writes can be accepted, by Redis or by MySQL in its place: 200. They cannot, for both servers are down or the schema
/// is old: 503.
pub(super) async fn ready(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    let (redis, mysql) = tokio::join!(admin.live.ready(), mysql(&admin));
    let refused = |reason: String| Err(Problem::unavailable(format!("writes cannot be accepted: {reason}"), AGAIN));
    match (redis, mysql) {
        (_, Mysql::Old(reason)) => refused(reason),
        (Err(redis), Mysql::Down(mysql)) => refused(format!("{redis}; {mysql}")),
        (Err(_), Mysql::Current) => Ok(json(r#"{"status":"degraded"}"#.to_owned())),
        (Ok(()), _) => Ok(json(r#"{"status":"ready"}"#.to_owned())),
    }
}

enum Mysql {
    Current,
    Old(String),
    Down(String),
}

async fn mysql(admin: &Admin) -> Mysql {
    let look = async {
        let mut session = admin.context.sink.session();
        let found = session.require_schema().await;
        session.close().await;
        found
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok(_)) => Mysql::Current,
        Ok(Err(error @ SinkError::Schema { .. })) => Mysql::Old(error.to_string()),
        Ok(Err(error)) => Mysql::Down(error.to_string()),
        Err(_) => Mysql::Down(format!("MySQL did not answer within {} ms", PATIENCE.as_millis())),
    }
}
