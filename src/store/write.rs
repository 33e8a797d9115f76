//! Recording state changes.

use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use super::{EventClock, Store, StoreError, script};
use crate::model::{Id, Partition};

/// One state to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteOp {
    /// Code of an interaction with states.
    pub interaction: u16,
    /// The target, of the partition that is written.
    pub target: Id,
    /// The user.
    pub user: Id,
    /// Whether the state becomes active.
    pub active: bool,
}

/// What became of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is recorded and marked.
    Recorded {
        /// Whether the state was another before.
        changed: bool,
        /// The count now; `None` where it is not known.
        count: Option<i64>,
    },
    /// Nothing was done: the target must be loaded first.
    NotLoaded,
    /// Nothing was done: the deadline had passed, in Redis' time, when the script ran.
    Expired,
    /// This operation alone failed, with Redis' words.
    Failed(String),
}

/// What a write does where the target is not loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unloaded {
    /// Nothing: it answers [`Written::NotLoaded`].
    Refuse,
    /// It is recorded on whatever is there; the count is not known until the target is loaded. Sound at any time.
    Accept,
}

impl Store {
    /// Records state changes of one partition, in order and atomically, within `patience`: a write that comes too
    /// late to be answered in that time is not done at all.
    ///
    /// Answers the event time (Unix milliseconds) and what became of each operation.
    pub async fn write(
        &self,
        partition: Partition,
        ops: &[WriteOp],
        unloaded: Unloaded,
        clock: &EventClock,
        patience: Duration,
    ) -> Result<(i64, Vec<Written>), StoreError> {
        let what = "the write script";
        let mut connection = self.connection.clone();
        let (deadline, floor) = self.times(clock, patience).await?;
        let mut invocation = script::WRITE.key(self.keys.dirty(partition));
        invocation.key(self.keys.changes(partition)).arg(deadline).arg(floor);
        invocation.arg(if unloaded == Unloaded::Accept { "accept" } else { "refuse" });
        for op in ops {
            let name = self.name(op.interaction);
            invocation
                .key(self.keys.state(name, partition.target_type, op.target))
                .key(self.keys.count(partition.target_type, op.target))
                .arg(name)
                .arg(op.target.get())
                .arg(op.user.get())
                .arg(if op.active { "1" } else { "0" });
            if unloaded == Unloaded::Accept {
                invocation.key(self.keys.load_lock(partition.target_type, op.target));
            }
        }
        let sent = Instant::now();
        let answer: RedisResult<Vec<Value>> = script::invoke(&invocation, &mut connection).await;
        let mut answer = answer.map_err(self.failed(what))?.into_iter();
        let mut time = || redis::from_redis_value::<i64>(answer.next().unwrap_or(Value::Nil));
        let (redis_ms, event_ms) =
            time().and_then(|redis_ms| Ok((redis_ms, time()?))).map_err(|e| self.failed(what)(e.into()))?;
        clock.saw(redis_ms, event_ms, sent);
        let written: Vec<Written> = answer.map(written).collect();
        // A server that is out of memory, say, is so for all of them.
        match written
            .iter()
            .find(|written| matches!(written, Written::Failed(words) if StoreError::is_unwilling(words)))
        {
            Some(Written::Failed(cause)) => {
                Err(StoreError::Unwilling { address: self.address.to_string(), what, cause: cause.clone() })
            }
            _ => Ok((event_ms, written)),
        }
    }

    /// The deadline, in Redis' time, of a call that began now, and the greatest event time that may have been given; both
    /// Unix ms.
    pub(super) async fn times(&self, clock: &EventClock, patience: Duration) -> Result<(i64, i64), StoreError> {
        let began = Instant::now();
        if clock.now().is_none() {
            let mut connection = self.connection.clone();
            let time: RedisResult<(i64, i64)> = redis::cmd("TIME").query_async(&mut connection).await;
            let (seconds, micros) = time.map_err(self.failed("TIME"))?;
            clock.saw(seconds * 1000 + micros / 1000, 0, began);
        }
        let (event_ms, redis_ms) = clock.now().unwrap_or_default();
        let patience_ms = patience.saturating_sub(began.elapsed()).as_millis();
        let patience_ms = i64::try_from(patience_ms).unwrap_or(i64::MAX);
        Ok((redis_ms.saturating_add(patience_ms), event_ms))
    }
}

fn written(answer: Value) -> Written {
    let words: Vec<Value> = redis::from_redis_value(answer).unwrap_or_default();
    let word = |at: usize| match words.get(at) {
        Some(Value::BulkString(word)) => std::str::from_utf8(word).ok(),
        _ => None,
    };
    match (word(0), word(1)) {
        (Some("not_loaded"), _) => Written::NotLoaded,
        (Some("expired"), _) => Written::Expired,
        (Some(word @ ("changed" | "same")), Some(count)) => {
            Written::Recorded { changed: word == "changed", count: count.parse().ok() }
        }
        (_, message) => Written::Failed(message.unwrap_or("an answer that is not understood").to_owned()),
    }
}
