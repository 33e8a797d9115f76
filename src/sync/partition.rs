//! One partition of a run: lease, check, work, release.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::lease::{self, Held};
use super::pipeline::Pipeline;
use super::report::{Outcome, PartitionReport, Tally};
use super::run::{Extent, Run};
use super::work::Work;
use crate::model::{Checkpoint, Partition};
use crate::sink::{Committed, SinkError, Writer};
use crate::store::{Holder, Store, Verdict};

/// Transactions under way at once.
const CONNECTIONS: usize = 2;

pub(super) const RESTORING: &str = "a restore of this partition is under way";

/// Works on one partition, waiting for its lease until `deadline`.
pub(super) async fn sync(run: &Run<'_>, store: &Store, partition: Partition, deadline: Instant) -> PartitionReport {
    let context = run.context;
    let held = match lease::take(&context.sink, partition, &context.owner, deadline, run.stop).await {
        Ok(Ok(held)) => held,
        Ok(Err(owner)) => {
            return PartitionReport::untouched(partition, Outcome::Busy, format!("the lease is held by {owner}"));
        }
        Err(error) => return PartitionReport::untouched(partition, Outcome::Failed, error.to_string()),
    };
    let (report, used) = checked(run, store, &held).await;
    held.release(used).await;
    report
}

/// Answers also whether the token of the lease was used.
async fn checked(run: &Run<'_>, store: &Store, held: &Held) -> (PartitionReport, bool) {
    let (partition, checkpoint) = (held.lease.partition, held.lease.checkpoint);
    let refused = |error| PartitionReport::untouched(partition, Outcome::Refused, error);
    let report = match store.check(partition, checkpoint, held.lease.token).await {
        Ok(Verdict::Held(holder)) => copy(run, store, held, holder).await,
        Ok(Verdict::Restoring) => refused(RESTORING.to_owned()),
        Ok(Verdict::Lost(found)) => refused(lost(&found, checkpoint)),
        Ok(Verdict::Newer(found)) => return (newer(run, held, &found).await, false),
        Err(error) => PartitionReport::untouched(partition, Outcome::Failed, error.to_string()),
    };
    (report, true)
}

pub(super) fn lost(found: &str, mysql: Checkpoint) -> String {
    let found = if found.is_empty() { "no checkpoint" } else { found };
    format!(
        "Redis has lost writes that MySQL holds: Redis holds {found}, MySQL {mysql}; nothing was copied, so that MySQL \
         keeps what it has"
    )
}

/// A newer token is another owner's, or MySQL is older than it was.
async fn newer(run: &Run<'_>, held: &Held, found: &str) -> PartitionReport {
    let (partition, token) = (held.lease.partition, held.lease.token);
    match run.context.sink.session().renew_lease(held.lease).await {
        Err(SinkError::LeaseLost) => {
            let error = "the lease was lost to another owner".to_owned();
            PartitionReport::untouched(partition, Outcome::Busy, error)
        }
        Ok(()) => PartitionReport::untouched(
            partition,
            Outcome::Refused,
            format!(
                "MySQL has lost writes that Redis knows of: Redis holds checkpoint {found}, MySQL gave out lease {token} \
                 only now; nothing was copied. Was it restored from a backup? See \"MySQL was restored\" in the README"
            ),
        ),
        Err(error) => PartitionReport::untouched(partition, Outcome::Failed, error.to_string()),
    }
}

async fn copy(run: &Run<'_>, store: &Store, held: &Held, holder: Holder) -> PartitionReport {
    let partition = held.lease.partition;
    let context = run.context;
    let writer = || Writer::new(&context.sink, held.lease, &run.id, context.vocabulary.clone());
    let stop = CancellationToken::new();
    let mut work = Work {
        holder,
        pipeline: Pipeline::new((0..CONNECTIONS).map(|_| writer()).collect()),
        rules: context.rules(),
        tally: Tally::default(),
        progress: run.progress,
        stop: stop.clone(),
    };
    let outcome = {
        let doing = do_it(&mut work, &run.extent, store);
        tokio::pin!(doing);
        loop {
            tokio::select! {
                outcome = &mut doing => break outcome,
                // The work sees the token between chunks; none is cut in the middle.
                () = either(run.stop, &held.lost), if !stop.is_cancelled() => stop.cancel(),
            }
        }
    };
    let Work { pipeline, mut tally, .. } = work;
    let (Committed { rows, rejected, kept }, retries) = pipeline.close().await;
    tally.rows_written = rows;
    tally.rejected = rejected;
    tally.drift += kept;
    tally.retries = retries;
    let (outcome, error) = match outcome {
        Ok(()) => (Outcome::Done, None),
        Err(RunError::Stopped) if run.stop.is_cancelled() => (Outcome::Partial, Some(RunError::Stopped.to_string())),
        Err(RunError::Stopped) => (Outcome::Failed, Some(SinkError::LeaseLost.to_string())),
        Err(error) => (Outcome::Failed, Some(error.to_string())),
    };
    let Partition { target_type, shard } = partition;
    PartitionReport { target_type, shard, outcome, error, tally }
}

async fn either(one: &CancellationToken, other: &CancellationToken) {
    tokio::select! {
        () = one.cancelled() => {}
        () = other.cancelled() => {}
    }
}

async fn do_it(work: &mut Work<'_>, extent: &Extent, store: &Store) -> Result<(), RunError> {
    let partition = work.holder.partition();
    work.run().await?;
    match *extent {
        Extent::All => work.rescan_all().await,
        Extent::Target(target_type, target) if store.keys().partition(target_type, target) == partition => {
            work.rescan(&[target]).await
        }
        Extent::Changed | Extent::Target(..) => Ok(()),
    }
}
