//! `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::Admin;
use crate::http::{Kind, Problem};
use crate::metrics::{CONTENT_TYPE as TEXT, Waiting};
use crate::sink::{SinkError, Standing};
use crate::store::StoreError;
use crate::sync::Context;

/// How long the servers are waited for: scrapes go on without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything that is counted and timed, what waits in Redis and what stands in MySQL, as far as they say so in time.
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    let (backlog, ledger) = (&admin.metrics.backlog, &admin.metrics.ledger);
    let (waiting, standing) = tokio::join!(
        tokio::time::timeout(PATIENCE, waiting(&admin.context)),
        tokio::time::timeout(PATIENCE, standing(&admin.context))
    );
    match waiting {
        Ok(Ok(waiting)) => backlog.known(&waiting),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the backlog could not be looked at");
            backlog.unknown();
        }
        Err(_) => backlog.unknown(),
    }
    match standing {
        Ok(Ok(standing)) => ledger.known(&standing, admin.context.settings.now().report.mail.is_some()),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the ledgers could not be looked at");
            ledger.unknown();
        }
        Err(_) => ledger.unknown(),
    }
    let text = admin.metrics.text();
    let text = text.map_err(|error| Problem::new(Kind::Internal, format!("the metrics cannot be written: {error}")))?;
    Ok(([(CONTENT_TYPE, TEXT)], text).into_response())
}

async fn standing(context: &Context) -> Result<Standing, SinkError> {
    let mut session = context.sink.session();
    let standing = session.standing().await;
    session.close().await;
    standing
}

/// What waits, one entry a target type.
pub(crate) async fn waiting(context: &Context) -> Result<Vec<Waiting>, StoreError> {
    let store = context.store().await?;
    let mut all: Vec<Waiting> = Vec::new();
    for partition in context.partitions() {
        let backlog = store.backlog(partition).await?;
        let age_ms = backlog.oldest_ms.map(|oldest_ms| u64::try_from(backlog.now_ms - oldest_ms).unwrap_or_default());
        if all.last().is_none_or(|last| last.target_type != partition.target_type) {
            all.push(Waiting { target_type: partition.target_type, ..Waiting::default() });
        }
        if let Some(of_type) = all.last_mut() {
            of_type.dirty += backlog.dirty + backlog.inflight;
            of_type.changes += backlog.changes + backlog.inflight_changes;
            of_type.oldest_ms = of_type.oldest_ms.max(age_ms);
        }
    }
    Ok(all)
}
