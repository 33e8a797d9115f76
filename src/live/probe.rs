//! What leads the breaker back: probes while it is open, then the watch over the journal.

use std::time::Duration;

use super::breaker::{Breaker, BreakerState, Closed};
use super::link::Link;
use crate::sink::{Session, SinkError};
use crate::sync::Context;

/// How often the journal is looked at while degraded writes wait in it.
const LOOK: Duration = Duration::from_millis(200);
/// How long MySQL is left alone after it did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Goes on until it is dropped.
pub(super) async fn keep(context: std::sync::Arc<Context>, breaker: Breaker, link: Link) {
    let mut session = context.sink.session();
    let mut replayed = replayed_total(&mut session).await;
    session.close().await;
    loop {
        let (mut state, mut owed) = breaker.watch();
        tokio::select! {
            _ = state.wait_for(|state| *state != BreakerState::Closed) => {}
            _ = owed.wait_for(|generation| *generation > 0) => {}
        }
        let mut session = context.sink.session();
        if replayed.is_none() {
            replayed = replayed_total(&mut session).await;
        }
        replayed = lead_back(&context, &breaker, &link, &mut session, replayed).await;
        session.close().await;
    }
}

/// How many degraded writes were ever replayed, if MySQL says so.
async fn replayed_total(session: &mut Session) -> Option<u64> {
    session.journal_balance().await.ok().map(|(_, replayed)| replayed)
}

/// Until reads are answered by Redis again; `before` is how many writes were replayed before, and the answer how many are by
/// then.
async fn lead_back(
    context: &Context,
    breaker: &Breaker,
    link: &Link,
    session: &mut Session,
    before: Option<u64>,
) -> Option<u64> {
    loop {
        if breaker.state() == BreakerState::Open {
            tokio::time::sleep(context.settings.now().degraded.probe).await;
            match link.renew().await {
                Ok(()) => {
                    breaker.replaying();
                    tracing::info!("Redis takes writes again; degraded writes are replayed into it");
                }
                Err(error) => tracing::debug!("a probe of Redis failed: {error}"),
            }
            continue;
        }
        let Some(generation) = breaker.generation() else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let pause = match session.journal_waits(&context.vocabulary, context.config.redis.shards).await {
            Ok(false) => {
                // Asked before reads return, for the total must not be that of later episodes.
                let total = replayed_total(session).await;
                match breaker.close(generation) {
                    Some(closed) => {
                        tell(closed, total.zip(before).map(|(total, before)| total.saturating_sub(before)));
                        return total;
                    }
                    None => LOOK,
                }
            }
            Ok(true) => LOOK,
            // Nothing of ours is in the journal that cannot be asked.
            Err(SinkError::Unreachable { .. }) if breaker.acknowledged() == 0 => match breaker.close(generation) {
                Some(closed) => {
                    tell(closed, None);
                    return None;
                }
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
fn tell(Closed { was_open, accepted, time }: Closed, replayed: Option<u64>) {
    let replayed = replayed.map_or_else(|| "an unknown number".to_owned(), |replayed| replayed.to_string());
    let seconds = time.as_secs_f64();
    if was_open {
        tracing::info!(
            "breaker closed: {accepted} degraded writes accepted, {replayed} replayed, after {seconds:.1} s; reads are \
             answered by Redis"
        );
    } else if accepted > 0 {
        tracing::info!(
            "calls to Redis failed, and the breaker stayed closed: {accepted} degraded writes accepted, {replayed} \
             replayed, after {seconds:.1} s"
        );
    }
}
