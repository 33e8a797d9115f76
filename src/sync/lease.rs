//! Holding a lease while the work goes on.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::Partition;
use crate::sink::{LEASE_SECONDS, Lease, Session, Sink, SinkError, Taken};

/// How often a lease of somebody else is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How often a lease of ours is renewed.
const RENEW: Duration = Duration::from_secs(LEASE_SECONDS as u64 / 3);

/// A lease that a task renews until it is released.
pub(super) struct Held {
    pub(super) lease: Lease,
    /// Cancelled when somebody else is the owner by now.
    pub(super) lost: CancellationToken,
    done: CancellationToken,
    renewer: JoinHandle<()>,
}

/// Takes the lease of `partition`, waiting for its owner until `deadline`. The owner's name when it is not to be had.
pub(super) async fn take(
    sink: &Sink,
    partition: Partition,
    owner: &str,
    deadline: Instant,
    stop: &CancellationToken,
) -> Result<Result<Held, String>, SinkError> {
    let mut session = sink.session();
    loop {
        match session.take_lease(partition, owner).await? {
            Taken::Yes(lease) => return Ok(Ok(Held::new(session, lease))),
            Taken::No { owner } if Instant::now() >= deadline || stop.is_cancelled() => return Ok(Err(owner)),
            Taken::No { .. } => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

impl Held {
    fn new(session: Session, lease: Lease) -> Self {
        let (lost, done) = (CancellationToken::new(), CancellationToken::new());
        let renewer = tokio::spawn(renew(session, lease, lost.clone(), done.clone()));
        Self { lease, lost, done, renewer }
    }

    /// Gives the lease back.
    pub(super) async fn release(self) {
        self.done.cancel();
        if let Err(error) = self.renewer.await {
            tracing::error!(%error, partition = %self.lease.partition, "the renewal of the lease ended badly");
        }
    }
}

/// A renewal that fails is tried again at the next time: the lease may outlive a short outage, and if it does not,
/// no commit goes through.
async fn renew(mut session: Session, lease: Lease, lost: CancellationToken, done: CancellationToken) {
    let partition = lease.partition;
    while tokio::time::timeout(RENEW, done.cancelled()).await.is_err() {
        match session.renew_lease(lease).await {
            Ok(()) => {}
            Err(SinkError::LeaseLost) => {
                tracing::warn!(%partition, token = lease.token, "the lease has another owner by now; this run stops");
                lost.cancel();
                return;
            }
            Err(error) => tracing::warn!(%partition, %error, "the lease could not be renewed"),
        }
    }
    if let Err(error) = session.release_lease(lease).await {
        tracing::warn!(%partition, %error, "the lease could not be given back; it runs out in {LEASE_SECONDS} s");
    }
    session.close().await;
}
