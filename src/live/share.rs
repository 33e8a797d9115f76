//! Single writes of many requests share a call of the script: a hundred operations in one call cost Redis, and the
//! connection, much less than a hundred calls.
//!
//! Nobody waits for company: while calls are under way, whoever comes gathers for the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot};

use super::redis::Redis;
use super::{LiveError, Silent};
use crate::model::Partition;
use crate::store::{Unloaded, WriteOp, Written};

/// Calls under way at once: one is carried out while the next one waits in Redis, and the answers to another are told.
const CALLS: usize = 3;
/// Operations in one call at most: Redis is held for about two milliseconds.
const OPS: usize = 256;
/// Writes that wait at most: as many as requests are let in.
const QUEUE: usize = 1024;

/// One write, and who waits for it.
struct Entry {
    partition: Partition,
    op: WriteOp,
    /// Nobody waits any longer.
    until: Instant,
    answer: oneshot::Sender<Result<Written, Silent>>,
}

/// Where requests hand over single writes. Clones share it.
#[derive(Clone)]
pub(super) struct Share {
    queue: mpsc::Sender<Entry>,
}

impl Share {
    /// And the task that calls, until it is dropped.
    pub(super) fn new(redis: Redis) -> (Self, impl Future<Output = ()> + use<>) {
        let (queue, entries) = mpsc::channel(QUEUE);
        (Self { queue }, call_all(redis, entries))
    }

    /// Records one change, unless its target is not loaded. What is not answered within `patience` is not done later.
    pub(super) async fn write(&self, partition: Partition, op: WriteOp, patience: Duration) -> Result<Written, Silent> {
        let (answer, written) = oneshot::channel();
        let until = Instant::now() + patience;
        let refused = |why: &str| Silent::Refused(LiveError::unavailable(why.to_owned()));
        let entry = Entry { partition, op, until, answer };
        self.queue.try_send(entry).map_err(|_| refused("too many writes wait for Redis"))?;
        match tokio::time::timeout_at(until.into(), written).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(refused("tallyd stops")),
            Err(_) => Err(Silent::Away(format!("Redis did not answer within {} ms", patience.as_millis()))),
        }
    }
}

async fn call_all(redis: Redis, mut entries: mpsc::Receiver<Entry>) {
    let places = Arc::new(Semaphore::new(CALLS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let mut gathered = Vec::with_capacity(OPS);
        if entries.recv_many(&mut gathered, OPS).await == 0 {
            return;
        }
        let redis = redis.clone();
        tokio::spawn(async move {
            let mut partitions: BTreeMap<Partition, Vec<Entry>> = BTreeMap::new();
            for entry in gathered {
                partitions.entry(entry.partition).or_default().push(entry);
            }
            for (partition, entries) in partitions {
                call(&redis, partition, entries).await;
            }
            drop(place);
        });
    }
}

/// One call for writes of one partition, in the order in which they came.
async fn call(redis: &Redis, partition: Partition, entries: Vec<Entry>) {
    // Those who went another way by now must not be written; Redis was not there for them.
    let (late, entries): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.answer.is_closed());
    redis.breaker.note(late.len() as u64, true);
    let Some(until) = entries.iter().map(|entry| entry.until).min() else { return };
    let ops: Vec<WriteOp> = entries.iter().map(|entry| entry.op).collect();
    let outcome = match redis.store().await {
        Ok((number, store)) => {
            let patience = until.saturating_duration_since(Instant::now());
            let write = store.write(partition, &ops, Unloaded::Refuse, &redis.clock, patience);
            redis.answered(number, write).await
        }
        Err(silent) => Err(silent),
    };
    // One is noted already.
    redis.breaker.note(entries.len() as u64 - 1, matches!(outcome, Err(Silent::Away(_))));
    let outcomes: Vec<Result<Written, Silent>> = match outcome {
        Ok((_, written)) => written.into_iter().map(Ok).collect(),
        Err(silent) => vec![Err(silent); entries.len()],
    };
    for (entry, outcome) in entries.into_iter().zip(outcomes) {
        if entry.answer.send(outcome).is_err() {
            tracing::debug!("nobody waits any more for a write that was tried");
        }
    }
}
