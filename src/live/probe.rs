//! What leads the breaker back: probes while it is open, then the watch over the journal.

use std::time::Duration;

use super::breaker::{Breaker, BreakerState};
use super::link::Link;
use crate::sink::{Session, SinkError};
use crate::sync::Context;

/// How often the journal is looked at while degraded writes wait in it.
const LOOK: Duration = Duration::from_millis(200);
/// How long MySQL is left alone after it did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Goes on until it is dropped.
pub(super) async fn keep(context: std::sync::Arc<Context>, breaker: Breaker, link: Link) {
    loop {
        let (mut state, mut owed) = breaker.watch();
        tokio::select! {
            _ = state.wait_for(|state| *state != BreakerState::Closed) => {}
            _ = owed.wait_for(|generation| *generation > 0) => {}
        }
        let mut session = context.sink.session();
        let before = session.journal_balance().await.ok();
        lead_back(&context, &breaker, &link, &mut session, before.map(|(_, replayed)| replayed)).await;
        session.close().await;
    }
}

/// Until reads are answered by Redis again; `replayed` is the total before.
async fn lead_back(context: &Context, breaker: &Breaker, link: &Link, session: &mut Session, replayed: Option<u64>) {
    loop {
        if breaker.state() == BreakerState::Open {
            tokio::time::sleep(context.config.degraded.probe).await;
            match link.renew().await {
                Ok(()) => {
                    breaker.replaying();
                    tracing::info!("Redis takes writes again; degraded writes are replayed into it");
                }
                Err(error) => tracing::debug!("a probe of Redis failed: {error}"),
            }
            continue;
        }
        let generation = breaker.generation();
        let pause = match session.journal_balance().await {
            Ok((0, total)) => match breaker.close(generation) {
                Some((accepted, time)) => {
                    let replayed = replayed.map(|before| total.saturating_sub(before));
                    return tell(accepted, replayed, time);
                }
                None => LOOK,
            },
            Ok(_) => LOOK,
            // Nothing of ours is in the journal that cannot be asked.
            Err(SinkError::Unreachable { .. }) if breaker.acknowledged() == 0 => match breaker.close(generation) {
                Some((accepted, time)) => return tell(accepted, None, time),
                None => PAUSE,
            },
            Err(error) => {
                tracing::debug!(%error, "the journal could not be looked at");
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The balance: what this process had acknowledged, and what all runs have replayed since.
fn tell(accepted: u64, replayed: Option<u64>, time: Duration) {
    let replayed = replayed.map_or_else(|| "an unknown number".to_owned(), |replayed| replayed.to_string());
    let seconds = time.as_secs_f64();
    tracing::info!(
        "breaker closed: {accepted} degraded writes accepted, {replayed} replayed, after {seconds:.1} s; reads are \
         answered by Redis"
    );
}
