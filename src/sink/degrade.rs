//! Writes that go to MySQL at once, because Redis cannot take them.
//!
//! Each is one transaction of its record row, its count when the state flips, and a row of the journal, always: the
//! lease holder replays the journal into Redis once it is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use sqlx::{Executor, Row};

use super::SinkError;
use super::compare::{Held, Key, key};
use super::count::{Flips, flips};
use super::session::{Conn, Session};
use super::upsert::{ROW_BYTES, time};
use crate::model::{Id, Partition, RecordRow};

/// What became of a degraded write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Degraded {
    /// Whether the row said something else before.
    pub changed: bool,
    /// The count row afterwards; it does not know what Redis holds and MySQL does not have yet.
    pub count: i64,
    /// The event time it was given, Unix milliseconds.
    pub event_ms: i64,
}

/// Makes sure that the rows are there, and locks them. One that was not there is older than any event; a day later than
/// the epoch, for a `TIMESTAMP` does not begin with that.
const HOLD: (&str, &str, &str) = (
    "/* tallyd degrade */ INSERT INTO interaction_record \
     (target_type, target_id, interaction_type, user_id, status, create_time, update_time) VALUES ",
    "(?,?,?,?,0,?,'1970-01-02 00:00:00')",
    " ON DUPLICATE KEY UPDATE status = status",
);

const JOURNAL: (&str, &str, &str) = (
    "/* tallyd degrade */ INSERT INTO degraded_write \
     (target_type, shard, target_id, interaction_type, user_id, status, event_ms) VALUES ",
    "(?,?,?,?,?,?,?)",
    "",
);

/// Somebody waits for the answer: three more tries within a fraction of a second.
fn backoff() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default().with_min_delay(Duration::from_millis(10)).with_max_times(3).with_jitter().build()
}

impl Session {
    /// Sets the states of `writes` (all of one partition, in this order; their times do not matter). What may pass is
    /// tried again, within bounds.
    ///
    /// An event time is at least `earliest_ms` (MySQL's own time when that is not known) and newer than the row's, so
    /// that the write stands; where the table counts whole seconds, it may be the row's, for of equal times the later
    /// write stands, and a time that is moved on by every write would soon be that of a future.
    ///
    /// Nothing is done when the rows are locked after `until` only ([`SinkError::Late`]): who was told that his write
    /// failed may have written something else since, which must not be overridden. After [`SinkError::Unreachable`] the
    /// writes may have been made.
    pub async fn degrade(
        &mut self,
        partition: Partition,
        writes: Vec<RecordRow>,
        earliest_ms: Option<i64>,
        until: Instant,
    ) -> Result<Vec<Degraded>, SinkError> {
        let writes = Arc::new(writes);
        let mut delays = backoff();
        loop {
            let batch = writes.clone();
            let outcome = self
                .with(move |conn| Box::pin(async move { conn.degrade(partition, &batch, earliest_ms, until).await }))
                .await;
            match (outcome, delays.next()) {
                (Err(error), Some(delay)) if error.is_transient() => {
                    tracing::debug!(%error, "a degraded write is tried again");
                    tokio::time::sleep(delay).await;
                }
                (outcome, _) => return outcome,
            }
        }
    }
}

impl Conn {
    async fn degrade(
        &mut self,
        partition: Partition,
        writes: &[RecordRow],
        earliest_ms: Option<i64>,
        until: Instant,
    ) -> Result<Vec<Degraded>, SinkError> {
        let Partition { target_type, shard } = partition;
        let failed = self.failed();
        let layout = self.layout()?;
        let unit_ms = self.time_unit_ms();
        let (unit_ms, later_ms) = (unit_ms.unwrap_or(1), i64::from(unit_ms.is_none()));
        self.mysql.execute("/* tallyd degrade */ START TRANSACTION").await.map_err(&failed)?;
        let now_ms = match earliest_ms {
            Some(ms) => ms,
            None => self.now_ms().await?,
        };
        let now_ms = now_ms - now_ms % unit_ms;
        let mut rows: Vec<RecordRow> =
            writes.iter().map(|write| RecordRow { active: false, at_ms: now_ms, ..*write }).collect();
        rows.sort_unstable();
        rows.dedup();
        self.write_rows(&rows, HOLD, ROW_BYTES, |query, row| {
            let query = query.bind(target_type).bind(row.target.get()).bind(row.interaction).bind(row.user.get());
            query.bind(time(row.at_ms))
        })
        .await?;
        // Locked by now: nobody changes them before the commit.
        if Instant::now() >= until {
            return Err(SinkError::Late { address: self.address().to_string() });
        }
        let held = self.held_records(target_type, &rows, false).await?;
        let Applied { rows, by } = apply(writes, &held, now_ms, later_ms);
        self.write_records(target_type, &rows).await?;
        let counts = self.move_known_counts(target_type, &rows, flips(&rows, &held), layout.by_target).await?;
        self.write_rows(&rows_of(writes, &rows), JOURNAL, ROW_BYTES, |query, row| {
            let query = query.bind(target_type).bind(shard).bind(row.target.get()).bind(row.interaction);
            query.bind(row.user.get()).bind(row.active).bind(row.at_ms)
        })
        .await?;
        self.mysql.execute("/* tallyd degrade */ COMMIT").await.map_err(&failed)?;
        Ok(told(writes, &rows, &by, counts))
    }

    async fn now_ms(&mut self) -> Result<i64, SinkError> {
        let select = "/* tallyd degrade */ \
             SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)";
        let failed = self.failed();
        self.mysql.fetch_one(select).await.and_then(|row| row.try_get(0)).map_err(failed)
    }

    /// Moves the counts that flipped; one without a row is counted. Answers every count of the targets.
    async fn move_known_counts(
        &mut self,
        target_type: u16,
        rows: &[RecordRow],
        mut flips: Flips,
        by_target: bool,
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        let mut targets: Vec<Id> = rows.iter().map(|row| row.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let counts = self.counts_in(target_type, &targets).await?;
        flips.retain(|_, (_, by)| *by != 0);
        if flips.is_empty() {
            return Ok(counts);
        }
        let known = |row: &(Id, u16)| !by_target || counts.contains_key(&(row.0.get(), row.1));
        let (moved, missing): (Flips, Flips) = flips.into_iter().partition(|(row, _)| known(row));
        self.write_chunk_counts(target_type, &[], Some(moved)).await?;
        let missing: Vec<_> = missing.into_values().map(|(row, _)| row).collect();
        self.write_chunk_counts(target_type, &missing, None).await?;
        self.counts_in(target_type, &targets).await
    }
}

/// What writes come to.
struct Applied {
    /// The last state of each row.
    rows: Vec<RecordRow>,
    /// By how much each write moved its count.
    by: Vec<i64>,
}

fn apply(writes: &[RecordRow], held: &HashMap<Key, Held>, now_ms: i64, later_ms: i64) -> Applied {
    let mut states: HashMap<Key, RecordRow> = HashMap::new();
    let mut by = Vec::with_capacity(writes.len());
    for write in writes {
        let held = held.get(&key(write)).copied().unwrap_or(Held { active: false, update_ms: 0 });
        let at_ms = now_ms.max(held.update_ms.saturating_add(later_ms));
        let row = states.entry(key(write)).or_insert(RecordRow { active: held.active, at_ms, ..*write });
        by.push(i64::from(write.active) - i64::from(row.active));
        row.active = write.active;
    }
    let mut rows: Vec<RecordRow> = states.into_values().collect();
    rows.sort_unstable();
    Applied { rows, by }
}

/// Each write with the time of its row.
fn rows_of(writes: &[RecordRow], rows: &[RecordRow]) -> Vec<RecordRow> {
    let at: HashMap<Key, i64> = rows.iter().map(|row| (key(row), row.at_ms)).collect();
    writes.iter().map(|write| RecordRow { at_ms: at.get(&key(write)).copied().unwrap_or_default(), ..*write }).collect()
}

/// Each write with the count after it, told back from the last one.
fn told(writes: &[RecordRow], rows: &[RecordRow], by: &[i64], mut counts: HashMap<(i64, u16), i64>) -> Vec<Degraded> {
    let mut told: Vec<Degraded> = Vec::with_capacity(writes.len());
    for (write, by) in rows_of(writes, rows).iter().zip(by).rev() {
        let count = counts.entry((write.target.get(), write.interaction)).or_default();
        told.push(Degraded { changed: *by != 0, count: *count, event_ms: write.at_ms });
        *count -= by;
    }
    told.reverse();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(user: i64, active: bool) -> RecordRow {
        let id = |n: i64| n.try_into().unwrap();
        RecordRow { target: id(1), interaction: 1, user: id(user), active, at_ms: 0 }
    }

    #[test]
    fn writes_to_one_state_apply_in_order_and_are_newer_than_its_row() {
        let held = HashMap::from([(key(&write(2, true)), Held { active: true, update_ms: 900 })]);
        let writes = [write(2, true), write(3, true), write(2, false), write(3, true), write(2, true)];
        let Applied { rows, by } = apply(&writes, &held, 500, 1);
        assert_eq!(by, [0, 1, -1, 0, 1]);
        assert_eq!(
            rows.iter().map(|row| (row.user.get(), row.active, row.at_ms)).collect::<Vec<_>>(),
            [(2, true, 901), (3, true, 500)]
        );
        let counts = HashMap::from([((1, 1), 11)]);
        let told: Vec<_> = told(&writes, &rows, &by, counts).iter().map(|t| (t.changed, t.count, t.event_ms)).collect();
        assert_eq!(told, [(false, 10, 901), (true, 11, 500), (true, 10, 901), (false, 10, 500), (true, 11, 901)]);
    }

    #[test]
    fn a_table_that_counts_seconds_is_not_driven_into_the_future() {
        let held = HashMap::from([(key(&write(2, true)), Held { active: true, update_ms: 5_000 })]);
        let Applied { rows, .. } = apply(&[write(2, false)], &held, 5_000, 0);
        assert_eq!((rows[0].active, rows[0].at_ms), (false, 5_000));
    }
}
