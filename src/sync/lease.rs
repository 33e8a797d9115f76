//! Holding a lease while the work goes on.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run::Context;
use crate::model::Partition;
use crate::sink::{LEASE_SECONDS, Lease, Session, SinkError, Taken};

/// How often a lease of somebody else is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How often a lease of ours is renewed.
const RENEW: Duration = Duration::from_secs(LEASE_SECONDS as u64 / 3);

/// A lease that a task renews until it is released.
pub(crate) struct Held {
    pub(crate) lease: Lease,
    /// Whether the journal of degraded writes had rows for it when it was taken.
    pub(crate) journaled: bool,
    /// Cancelled when somebody else is the owner by now.
    pub(crate) lost: CancellationToken,
    done: CancellationToken,
    renewer: JoinHandle<Option<Session>>,
}

/// Takes the lease of `partition`, waiting for its owner until `deadline`. The owner's name when it is not to be had.
pub(crate) async fn take(
    context: &Context,
    partition: Partition,
    deadline: Instant,
    stop: &CancellationToken,
) -> Result<Result<Held, String>, SinkError> {
    let mut session = context.sink.session();
    loop {
        match session.take_lease(partition, &context.owner).await? {
            Taken::Yes(lease) => {
                // On a connection that is there already: most runs have nothing to replay.
                let journaled = session.journal_waits_of(partition, &context.vocabulary).await;
                let journaled = journaled.unwrap_or_else(|error| {
                    tracing::debug!(%partition, %error, "the degraded journal could not be looked at");
                    true
                });
                return Ok(Ok(Held::new(session, lease, journaled)));
            }
            Taken::No { owner } if Instant::now() >= deadline || stop.is_cancelled() => return Ok(Err(owner)),
            Taken::No { .. } => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

impl Held {
    fn new(session: Session, lease: Lease, journaled: bool) -> Self {
        let (lost, done) = (CancellationToken::new(), CancellationToken::new());
        let renewer = tokio::spawn(renew(session, lease, lost.clone(), done.clone()));
        Self { lease, journaled, lost, done, renewer }
    }

    /// Gives the lease back; with its token, if that was never `used`.
    pub(crate) async fn release(self, used: bool) {
        let partition = self.lease.partition;
        self.done.cancel();
        let mut session = match self.renewer.await {
            Ok(Some(session)) => session,
            Ok(None) => return,
            Err(error) => return tracing::error!(%error, %partition, "the renewal of the lease ended badly"),
        };
        let released =
            if used { session.release_lease(self.lease).await } else { session.unissue_lease(self.lease).await };
        if let Err(error) = released {
            tracing::warn!(%partition, %error, "the lease could not be given back; it runs out in {LEASE_SECONDS} s");
        }
        session.close().await;
    }
}

/// A renewal that fails is tried again at the next time: the lease may outlive a short outage, and if it does not,
/// no commit goes through. Answers the session, unless the lease is lost.
async fn renew(
    mut session: Session,
    lease: Lease,
    lost: CancellationToken,
    done: CancellationToken,
) -> Option<Session> {
    let partition = lease.partition;
    while tokio::time::timeout(RENEW, done.cancelled()).await.is_err() {
        match session.renew_lease(lease).await {
            Ok(()) => {}
            Err(SinkError::LeaseLost) => {
                tracing::warn!(%partition, token = lease.token, "the lease has another owner by now; this run stops");
                lost.cancel();
                return None;
            }
            Err(error) => tracing::warn!(%partition, %error, "the lease could not be renewed"),
        }
    }
    Some(session)
}
