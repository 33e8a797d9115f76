//! How many writes all processes acknowledged, so that reports can say how many became one change.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::run::Context;

/// Where it is kept in `tallyd_meta`.
pub const WRITES_TOTAL: &str = "writes_total";
/// How often it is brought up to date.
const OFTEN: Duration = Duration::from_mins(1);

/// Adds to it what this process has acknowledged since, now and then and when `stop` is cancelled. What could not be added is
/// added later.
pub async fn keep_toll(context: Arc<Context>, acknowledged: impl Fn() -> u64 + Send, stop: CancellationToken) {
    let (mut session, mut added) = (context.sink.session(), 0);
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(OFTEN) => {}
        }
        let now = acknowledged();
        if now == added {
            continue;
        }
        match session.add_meta(WRITES_TOTAL, now - added).await {
            Ok(()) => added = now,
            Err(error) => tracing::debug!(%error, "acknowledged writes could not be added up"),
        }
    }
    session.close().await;
}
