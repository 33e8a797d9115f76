//! Degraded writes of many requests share transactions, so that MySQL takes as many as Redis did.
//!
//! One task commits them, in the order in which they came: while one transaction is under way, others gather for the
//! next. Within a process no two of them wait for each other's locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::breaker::UnderWay;
use crate::model::{Partition, RecordRow};
use crate::sink::{Degraded, Session, SinkError};
use crate::store::EventClock;
use crate::sync::Context;

/// Writes in one transaction at most, unless one request brings more: more would keep rows locked for long.
const WRITES: usize = 200;
/// Requests that wait at most.
const QUEUE: usize = 4096;
/// Somebody waits for the answer: MySQL is not waited for as long as a run would.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Writes of one request to one partition, in order.
struct Entry {
    partition: Partition,
    rows: Vec<RecordRow>,
    /// Nobody waits any longer.
    until: Instant,
    /// Until it is dropped, they may be committed.
    _under_way: UnderWay,
    answer: oneshot::Sender<Result<Vec<Degraded>, String>>,
}

/// Where requests hand over their writes. Clones share it.
#[derive(Clone)]
pub(super) struct GroupCommit {
    queue: mpsc::Sender<Entry>,
}

impl GroupCommit {
    /// And the task that commits, until it is dropped.
    pub(super) fn new(context: &Arc<Context>, clock: Arc<EventClock>) -> (Self, impl Future<Output = ()> + use<>) {
        let (queue, entries) = mpsc::channel(QUEUE);
        (Self { queue }, commit_all(context.clone(), clock, entries))
    }

    /// Sets states of one partition, in order. When this answers Ok, they are committed with their journal rows; after an
    /// error they may be.
    pub(super) async fn write(
        &self,
        partition: Partition,
        rows: Vec<RecordRow>,
        under_way: UnderWay,
    ) -> Result<Vec<Degraded>, String> {
        let (answer, committed) = oneshot::channel();
        let until = Instant::now() + PATIENCE;
        let entry = Entry { partition, rows, until, _under_way: under_way, answer };
        self.queue.try_send(entry).map_err(|_| "too many writes wait for MySQL".to_owned())?;
        match tokio::time::timeout_at(until.into(), committed).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("tallyd stops".to_owned()),
            Err(_) => Err(format!("MySQL did not answer within {} ms", PATIENCE.as_millis())),
        }
    }
}

async fn commit_all(context: Arc<Context>, clock: Arc<EventClock>, mut entries: mpsc::Receiver<Entry>) {
    let mut session = context.sink.session();
    while let Some(first) = entries.recv().await {
        let mut partitions: BTreeMap<Partition, Vec<Entry>> = BTreeMap::new();
        let (mut next, mut writes) = (Some(first), 0);
        while let Some(entry) = next {
            // Nobody waits for those that were given up.
            if !entry.answer.is_closed() {
                writes += entry.rows.len();
                partitions.entry(entry.partition).or_default().push(entry);
            }
            next = if writes < WRITES { entries.try_recv().ok() } else { None };
        }
        for (partition, entries) in partitions {
            Box::pin(commit(&context, &clock, &mut session, partition, entries)).await;
        }
    }
}

/// All in one transaction; where MySQL refuses one of them for itself, each in its own.
async fn commit(
    context: &Context,
    clock: &EventClock,
    session: &mut Session,
    partition: Partition,
    entries: Vec<Entry>,
) {
    let rows = entries.iter().flat_map(|entry| entry.rows.iter().copied()).collect();
    let Some(until) = entries.iter().map(|entry| entry.until).min() else { return };
    match in_time(context, Box::pin(session.degrade(partition, rows, clock.unseen_ms(), until))).await {
        Ok(degraded) => {
            let mut degraded = degraded.into_iter();
            for entry in entries {
                let own: Vec<Degraded> = degraded.by_ref().take(entry.rows.len()).collect();
                tell(clock, entry, Ok(own));
            }
        }
        Err(error) if error.is_of_a_row() && entries.len() > 1 => {
            for entry in entries {
                let rows = entry.rows.clone();
                let degrade = Box::pin(session.degrade(partition, rows, clock.unseen_ms(), entry.until));
                let outcome = in_time(context, degrade).await;
                tell(clock, entry, outcome.map_err(|error| error.to_string()));
            }
        }
        Err(error) => {
            for entry in entries {
                tell(clock, entry, Err(error.to_string()));
            }
        }
    }
}

fn tell(clock: &EventClock, entry: Entry, outcome: Result<Vec<Degraded>, String>) {
    for degraded in outcome.iter().flatten() {
        clock.gave(degraded.event_ms);
    }
    if entry.answer.send(outcome).is_err() {
        tracing::debug!("nobody waits any more for a degraded write that was tried");
    }
}

/// Waits for MySQL as long as a request does.
pub(super) async fn in_time<T>(
    context: &Context,
    work: impl Future<Output = Result<T, SinkError>>,
) -> Result<T, SinkError> {
    let limit = PATIENCE.min(context.config.mysql.timeout);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let address = context.config.mysql.address();
        Err(SinkError::Unreachable { address, cause: format!("no answer within {} ms", limit.as_millis()) })
    })
}
