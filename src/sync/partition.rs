//! One partition of a run: lease, check, restore if something was lost, work, release.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::lag::Lag;
use super::lease::{self, Held};
use super::pipeline::Pipeline;
use super::report::{Outcome, PartitionReport, Restored, Tally};
use super::restore::restore;
use super::run::{Extent, Run};
use super::work::{Verifying, Work};
use crate::model::{Checkpoint, Partition};
use crate::sink::{Committed, SinkError, Writer};
use crate::store::{Holder, Loss, LossKind, Store, StoreError, Verdict};

/// Transactions under way at once.
const CONNECTIONS: usize = 2;

/// How often a run begins again after a loss in the middle of it.
const AGAIN: usize = 2;

/// What became of one lease.
struct Attempt {
    report: PartitionReport,
    /// Whether the token of the lease was used.
    used: bool,
    /// Redis lost writes in the middle, and the lease is still ours.
    lost: bool,
}

impl Attempt {
    fn ended(report: PartitionReport) -> Self {
        Self { report, used: true, lost: false }
    }
}

/// Works on one partition, waiting for its lease until `deadline`. After a loss in the middle it begins again, under a
/// new lease.
pub(super) async fn sync(run: &Run<'_>, store: &Store, partition: Partition, deadline: Instant) -> PartitionReport {
    let mut attempt = attempt(run, store, partition, deadline).await;
    for _ in 0..AGAIN {
        if !attempt.lost {
            break;
        }
        tracing::warn!(%partition, "Redis lost writes in the middle of the run, which begins again");
        let earlier = attempt.report;
        attempt = self::attempt(run, store, partition, deadline).await;
        attempt.report.add_earlier(earlier);
    }
    attempt.report
}

async fn attempt(run: &Run<'_>, store: &Store, partition: Partition, deadline: Instant) -> Attempt {
    let context = run.context;
    let held = match lease::take(context, partition, deadline, run.stop).await {
        Ok(Ok(held)) => held,
        Ok(Err(owner)) => {
            let error = format!("the lease is held by {owner}");
            return Attempt::ended(PartitionReport::untouched(partition, Outcome::Busy, error));
        }
        Err(error) => {
            return Attempt::ended(PartitionReport::untouched(partition, Outcome::Failed, error.to_string()));
        }
    };
    let attempt = checked(run, store, &held).await;
    held.release(attempt.used).await;
    attempt
}

async fn checked(run: &Run<'_>, store: &Store, held: &Held) -> Attempt {
    let (partition, checkpoint) = (held.lease.partition, held.lease.checkpoint);
    match store.check(partition, checkpoint, held.lease.token).await {
        Ok(Verdict::Held(holder)) => copy(run, store, held, holder, None).await,
        Ok(Verdict::Lost(loss)) => restored(run, store, held, &loss).await,
        Ok(Verdict::Newer(found)) => Attempt { used: false, ..Attempt::ended(newer(run, held, &found).await) },
        Err(error) => Attempt::ended(PartitionReport::untouched(partition, Outcome::Failed, error.to_string())),
    }
}

/// What was lost, in words.
pub(crate) fn lost(loss: &Loss, mysql: Checkpoint) -> String {
    let found = if loss.found.is_empty() { "no checkpoint" } else { &loss.found };
    match loss.kind {
        LossKind::Interrupted => format!("a restore of this partition was begun and not ended (MySQL holds {mysql})"),
        LossKind::Missing | LossKind::Older => {
            format!("Redis has lost writes that MySQL holds: Redis holds {found}, MySQL {mysql}")
        }
    }
}

/// Restores, and goes on as after a good check.
async fn restored(run: &Run<'_>, store: &Store, held: &Held, loss: &Loss) -> Attempt {
    let (partition, mysql) = (held.lease.partition, held.lease.checkpoint);
    let stop = CancellationToken::new();
    let doing = Box::pin(restore(run, store, held.lease, loss, &stop));
    match until_stopped(run, held, &stop, doing).await {
        Ok((holder, restored)) => {
            let Restored { kind, from, to, dropped, kept, .. } = &restored;
            tracing::warn!(
                %partition, kind, from, to, %mysql, dropped, kept,
                "{}; what is pending was kept, the rest is loaded from MySQL when it is asked for", lost(loss, mysql)
            );
            copy(run, store, held, holder, Some(restored)).await
        }
        Err(error) => {
            let lost_again = is_lost(run, held, &error).await;
            let (outcome, error) = failed(run, &error);
            let error = format!("{}; the restore did not end: {error}", lost(loss, mysql));
            Attempt { lost: lost_again, ..Attempt::ended(PartitionReport::untouched(partition, outcome, error)) }
        }
    }
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

async fn copy(run: &Run<'_>, store: &Store, held: &Held, holder: Holder, restored: Option<Restored>) -> Attempt {
    let partition = held.lease.partition;
    let context = run.context;
    let writer = || Writer::new(&context.sink, held.lease, &run.id, context.vocabulary.clone());
    let stop = CancellationToken::new();
    let mut work = Work {
        holder,
        pipeline: Pipeline::new((0..CONNECTIONS).map(|_| writer()), run.progress.pulse().clone()),
        journaled: held.journaled,
        verifying: Verifying::AtTheEnd,
        rules: context.rules(),
        tally: Tally::default(),
        lag: Lag::default(),
        progress: run.progress,
        stop: stop.clone(),
    };
    let outcome = until_stopped(run, held, &stop, Box::pin(do_it(&mut work, &run.extent, store))).await;
    let Work { pipeline, mut tally, lag, .. } = work;
    let (Committed { rows, rejected, kept }, retries) = pipeline.close().await;
    tally.rows_written = rows;
    tally.rejected = rejected;
    tally.drift += kept;
    tally.retries = retries;
    let lost = match &outcome {
        Ok(()) => false,
        Err(error) => is_lost(run, held, error).await,
    };
    let (outcome, error) = match outcome {
        Ok(()) => (Outcome::Done, None),
        Err(error) => {
            let (outcome, error) = failed(run, &error);
            (outcome, Some(error))
        }
    };
    let Partition { target_type, shard } = partition;
    let report = PartitionReport { target_type, shard, outcome, error, restored, tally, lag };
    Attempt { lost, ..Attempt::ended(report) }
}

/// How work that ended early ended, and why.
fn failed(run: &Run<'_>, error: &RunError) -> (Outcome, String) {
    match error {
        RunError::Stopped if run.stop.is_cancelled() => (Outcome::Partial, error.to_string()),
        RunError::Stopped => (Outcome::Failed, SinkError::LeaseLost.to_string()),
        error => (Outcome::Failed, error.to_string()),
    }
}

/// Whether a holder was fenced although the lease is still his: then no other owner has moved the checkpoint, but Redis
/// has lost it.
async fn is_lost(run: &Run<'_>, held: &Held, error: &RunError) -> bool {
    let fenced = matches!(error, RunError::Store(StoreError::Fenced { .. }));
    if !fenced || run.stop.is_cancelled() {
        return false;
    }
    let mut session = run.context.sink.session();
    let ours = session.renew_lease(held.lease).await.is_ok();
    session.close().await;
    ours
}

/// Does the work, and cancels `stop` when the process is asked to stop or the lease is lost: the work sees that between
/// chunks, and none is cut in the middle.
async fn until_stopped<T>(
    run: &Run<'_>,
    held: &Held,
    stop: &CancellationToken,
    mut doing: impl Future<Output = T> + Unpin,
) -> T {
    loop {
        tokio::select! {
            outcome = &mut doing => break outcome,
            () = either(run.stop, &held.lost), if !stop.is_cancelled() => stop.cancel(),
        }
    }
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
