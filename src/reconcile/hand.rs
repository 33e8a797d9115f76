//! A partition in hand: under its lease and after the check, or, in a dry run, without either.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::Left;
use crate::model::{Checkpoint, Partition};
use crate::sink::{Lease, Session, SinkError, Writer};
use crate::store::{Holder, Store, Verdict};
use crate::sync::lease::{self, Held};
use crate::sync::{Context, RunError, dry, partition};

/// How long a lease is held before a run may come in between.
const SLICE: Duration = Duration::from_secs(3);

pub(super) struct Hand {
    pub(super) holder: Holder,
    pub(super) writer: Writer,
    pub(super) session: Session,
    held: Option<Held>,
    taken: Instant,
    stop: CancellationToken,
}

impl Hand {
    /// Takes the lease, waiting for its owner until `deadline`, and checks that nothing was lost.
    pub(super) async fn take(
        context: &Context,
        store: &Store,
        partition: Partition,
        run_id: &str,
        deadline: Instant,
        stop: &CancellationToken,
    ) -> Result<Self, Left> {
        let held = lease::take(context, partition, deadline, stop).await?.map_err(Left::Busy)?;
        let (lease, mysql) = (held.lease, held.lease.checkpoint);
        match store.check(partition, mysql, lease.token).await {
            Ok(Verdict::Held(holder)) => Ok(Self::new(context, holder, lease, run_id, Some(held), stop)),
            Ok(Verdict::Lost(loss)) => {
                held.release(true).await;
                Err(Left::Lost(partition::lost(&loss, mysql)))
            }
            Ok(Verdict::Newer(found)) => {
                held.release(false).await;
                Err(Left::Older { found: found.clone(), token: lease.token })
            }
            Err(error) => {
                held.release(true).await;
                Err(error.into())
            }
        }
    }

    /// For a dry run: nothing is taken, and nothing may be changed.
    pub(super) async fn dry(
        context: &Context,
        store: &Store,
        partition: Partition,
        stop: &CancellationToken,
    ) -> Result<Self, Left> {
        let kept = dry::checkpoints(context).await?.get(&partition).copied().unwrap_or_default();
        if let Some(loss) = dry::loss(store, partition, kept).await? {
            return Err(Left::Lost(partition::lost(&loss, kept)));
        }
        let mut session = context.sink.session();
        let token = session.lease_token(partition).await?;
        session.close().await;
        let found = store.backlog(partition).await?.checkpoint.unwrap_or_default();
        if found.parse::<Checkpoint>().is_ok_and(|held| held.token > token) {
            return Err(Left::Older { found, token });
        }
        let lease = Lease { partition, token: 0, checkpoint: Checkpoint::default() };
        Ok(Self::new(context, store.dry(partition), lease, "", None, stop))
    }

    fn new(
        context: &Context,
        holder: Holder,
        lease: Lease,
        run_id: &str,
        held: Option<Held>,
        stop: &CancellationToken,
    ) -> Self {
        let writer = Writer::new(&context.sink, lease, run_id, context.vocabulary.clone());
        Self { holder, writer, session: context.sink.session(), held, taken: Instant::now(), stop: stop.clone() }
    }

    /// Whether it is time to let a run come in between.
    pub(super) fn is_due(&self) -> bool {
        self.held.is_some() && self.taken.elapsed() > SLICE
    }

    /// Whether nothing may be changed.
    pub(super) fn is_dry(&self) -> bool {
        self.held.is_none()
    }

    /// Whether the work may go on.
    pub(super) fn go_on(&self) -> Result<(), RunError> {
        if self.held.as_ref().is_some_and(|held| held.lost.is_cancelled()) {
            return Err(SinkError::LeaseLost.into());
        }
        if self.stop.is_cancelled() { Err(RunError::Stopped) } else { Ok(()) }
    }

    pub(super) async fn release(self) {
        self.session.close().await;
        self.writer.close().await;
        if let Some(held) = self.held {
            held.release(true).await;
        }
    }
}
