//! One chunk, one transaction.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use sqlx::Executor;

use super::SinkError;
use super::compare::{Held, key};
use super::count::flips;
use super::halves::{Halves, halves};
use super::lease::Lease;
use super::session::{Conn, Session, Sink};
use crate::failpoint;
use crate::model::{Checkpoint, Chunk, Reason, RecordRow, Rejected, Source, Vocabulary};

/// What a commit did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Committed {
    /// Record rows and count rows sent.
    pub rows: u64,
    /// Entries set aside.
    pub rejected: u64,
    /// Record rows that say something else than a scan, and stay: their event time is later than the scan.
    pub kept: u64,
}

impl Committed {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        let Self { rows, rejected, kept } = other;
        self.rows += rows;
        self.rejected += rejected;
        self.kept += kept;
    }
}

/// Commits the chunks of one run, over a connection of its own.
pub struct Writer {
    pub(super) session: Session,
    pub(super) lease: Lease,
    run_id: String,
    pub(super) vocabulary: Arc<Vocabulary>,
    retries: u64,
}

/// Deadlocks and lost connections are over soon or not at all: five more tries within about three seconds.
pub(super) fn backoff() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(Duration::from_secs(1))
        .with_max_times(5)
        .with_jitter()
        .build()
}

impl Writer {
    /// A writer for the holder of `lease`.
    #[must_use]
    pub fn new(sink: &Sink, lease: Lease, run_id: &str, vocabulary: Arc<Vocabulary>) -> Self {
        Self { session: sink.session(), lease, run_id: run_id.to_owned(), vocabulary, retries: 0 }
    }

    /// Commits a chunk, together with its checkpoint. Doing it twice leaves the same data as doing it once.
    ///
    /// What may pass is tried again, within bounds. A row that MySQL refuses for itself is found by halving, set
    /// aside with the reason, and the rest goes through. [`SinkError::LeaseLost`] means that nothing was written.
    pub async fn commit(&mut self, chunk: Chunk) -> Result<Committed, SinkError> {
        let mut total = Committed::default();
        let mut parts = vec![Arc::new(chunk)];
        while let Some(part) = parts.pop() {
            match self.commit_whole(&part).await {
                Ok((rows, kept)) => {
                    total.add(Committed { rows, rejected: part.rejected.len() as u64, kept });
                    self.tell_kept(kept);
                }
                Err(error) if error.is_of_a_row() => match halves(Arc::unwrap_or_clone(part)) {
                    Halves::Two(first, second) => parts.extend([Arc::new(second), Arc::new(first)]),
                    Halves::One(part) => parts.push(Arc::new(self.set_aside(part, &error))),
                    Halves::None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        failpoint::hit("after_commit");
        Ok(total)
    }

    /// The record rows of a scan that a commit would send.
    pub async fn differing(&mut self, rows: Vec<RecordRow>) -> Result<Vec<RecordRow>, SinkError> {
        match self.try_differing(rows.clone()).await {
            // The server may have ended a session that had nothing to do for long.
            Err(error) if error.is_transient() => self.try_differing(rows).await,
            outcome => outcome,
        }
    }

    async fn try_differing(&mut self, rows: Vec<RecordRow>) -> Result<Vec<RecordRow>, SinkError> {
        let target_type = self.lease.partition.target_type;
        self.session
            .with(move |conn| {
                Box::pin(async move {
                    let (mut differing, _) = conn.differing(target_type, &rows).await?;
                    let journaled = conn.journaled(target_type, &differing).await?;
                    differing.retain(|row| !journaled.contains(&key(row)));
                    Ok(differing)
                })
            })
            .await
    }

    /// Ends the writer's connection. Answers how many transactions it tried again, those included that failed for
    /// good.
    pub async fn close(self) -> u64 {
        self.session.close().await;
        self.retries
    }

    fn tell_kept(&self, kept: u64) {
        if kept > 0 {
            let partition = self.lease.partition;
            tracing::warn!(%partition, kept, "record rows differ from their scanned states, and stay: they are later");
        }
    }

    async fn commit_whole(&mut self, part: &Arc<Chunk>) -> Result<(u64, u64), SinkError> {
        let mut delays = backoff();
        loop {
            let (lease, run_id, chunk) = (self.lease, self.run_id.clone(), part.clone());
            let outcome = self
                .session
                .with(move |conn| Box::pin(async move { conn.transact(lease, &run_id, &chunk).await }))
                .await;
            match outcome {
                Err(error) if self.tries_again(&error, &mut delays).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Whether a transaction that failed so is tried again; waits until it is time to.
    pub(super) async fn tries_again(
        &mut self,
        error: &SinkError,
        delays: &mut (impl Iterator<Item = Duration> + Send),
    ) -> bool {
        if !error.is_transient() {
            return false;
        }
        let Some(delay) = delays.next() else { return false };
        self.retries += 1;
        tracing::debug!(%error, partition = %self.lease.partition, "transaction is tried again");
        tokio::time::sleep(delay).await;
        true
    }

    /// Turns the only row of a part into one that is set aside.
    fn set_aside(&self, mut part: Chunk, error: &SinkError) -> Chunk {
        let name = |code| self.vocabulary.interaction_code(code).map_or("", |i| &i.name);
        let record = part.records.pop().map(|row| {
            let mark = format!("{}:{}:{}", name(row.interaction), row.target, row.user);
            (mark, format!("state {} of {} ms: {error}", u8::from(row.active), row.at_ms))
        });
        let count = (record.is_none() && !part.counts.is_empty()).then(|| part.counts.remove(0)).map(|row| {
            let mark = format!("{}:{}:count", name(row.interaction), row.target);
            (mark, format!("count {:?} of {} ms: {error}", row.value, row.at_ms))
        });
        let rejected = record.into_iter().chain(count);
        part.rejected.extend(rejected.map(|(mark, detail)| Rejected { mark, reason: Reason::Refused, detail }));
        part
    }
}

impl Conn {
    /// The rows of a scan that say something else than MySQL, and how many more do, but are older than what is there.
    async fn differing(&mut self, target_type: u16, rows: &[RecordRow]) -> Result<(Vec<RecordRow>, u64), SinkError> {
        let held = self.held_records(target_type, rows, false).await?;
        let differing = rows.iter().filter(|row| Held::differs(held.get(&key(row)), row)).copied();
        let later = |row: &RecordRow| held.get(&key(row)).is_some_and(|held| held.update_ms > row.at_ms);
        let (kept, newer): (Vec<RecordRow>, Vec<RecordRow>) = differing.partition(later);
        Ok((newer, kept.len() as u64))
    }

    /// What `update_time` counts in, where that is more than a millisecond. Event times are cut to it before they are
    /// compared or stored: MySQL rounds and MariaDB cuts, and what is rounded up would be newer than what comes next.
    pub(super) fn time_unit_ms(&self) -> Option<i64> {
        let missing = (3 - self.time_digits?).try_into().ok().filter(|&digits: &u32| digits > 0)?;
        Some(10_i64.pow(missing))
    }

    /// The latest event time that a row may stand for.
    pub(super) fn latest_ms(&self, held: &Held) -> i64 {
        held.update_ms + self.time_unit_ms().map_or(0, |unit| unit - 1)
    }

    /// Answers how many rows were sent, and how many differ and stay.
    async fn transact(&mut self, lease: Lease, run_id: &str, chunk: &Chunk) -> Result<(u64, u64), SinkError> {
        let failed = self.failed();
        let layout = self.layout()?;
        let target_type = lease.partition.target_type;
        let (mut records, kept) = match chunk.source {
            Source::Changes => (Cow::Borrowed(&chunk.records), 0),
            Source::Scan => {
                let (records, kept) = self.differing(target_type, &chunk.records).await?;
                (Cow::Owned(records), kept)
            }
        };
        self.mysql.execute("/* tallyd sync.commit */ START TRANSACTION").await.map_err(&failed)?;
        if let Some(unit) = self.time_unit_ms() {
            for row in records.to_mut() {
                row.at_ms -= row.at_ms % unit;
            }
        }
        let held = if layout.by_target { None } else { Some(self.held_records(target_type, &records, true).await?) };
        if layout.user_first {
            records.to_mut().sort_unstable_by_key(|row| (row.user, row.target, row.interaction));
        }
        self.write_records(target_type, &records).await?;
        if chunk.source == Source::Scan && !records.is_empty() {
            // A scanned state has no event time of its own. The rows are locked by now, so whoever wrote one to the
            // journal has committed and is seen here, or waits and will find ours.
            let journaled = self.journaled(target_type, &chunk.records).await?;
            if records.iter().any(|row| journaled.contains(&key(row))) {
                self.mysql.execute("/* tallyd sync.commit */ ROLLBACK").await.map_err(&failed)?;
                let mut rest = chunk.clone();
                rest.records.retain(|row| !journaled.contains(&key(row)));
                return Box::pin(self.transact(lease, run_id, &rest)).await;
            }
        }
        let flips = held.map(|held| flips(&records, &held));
        self.write_chunk_counts(target_type, &chunk.counts, flips).await?;
        self.note_settled(lease, &chunk.counts).await?;
        self.write_rejected(target_type, &chunk.rejected, run_id).await?;
        let last_event_ms = match chunk.source {
            Source::Changes => chunk.records.iter().map(|row| row.at_ms).max().unwrap_or_default(),
            Source::Scan => 0,
        };
        self.store_checkpoint(lease, chunk.checkpoint, last_event_ms).await?;
        self.mysql.execute("/* tallyd sync.commit */ COMMIT").await.map_err(&failed)?;
        Ok(((records.len() + chunk.counts.len()) as u64, kept))
    }

    /// The last statement of every transaction. Two connections may commit at once: the checkpoint only advances.
    pub(super) async fn store_checkpoint(
        &mut self,
        lease: Lease,
        to: Checkpoint,
        last_event_ms: i64,
    ) -> Result<(), SinkError> {
        let text = "/* tallyd sync.commit */ UPDATE sync_partition SET \
             checkpoint = IF(CAST(SUBSTRING_INDEX(checkpoint, '.', 1) AS UNSIGNED) < ? \
                OR CAST(SUBSTRING_INDEX(checkpoint, '.', -1) AS UNSIGNED) < ?, ?, checkpoint), \
             last_event_ms = GREATEST(last_event_ms, ?) \
             WHERE target_type = ? AND shard = ? AND lease_token = ?";
        let failed = self.failed();
        let update = sqlx::query(text).bind(to.token).bind(to.step).bind(to.to_string()).bind(last_event_ms);
        let update = update.bind(lease.partition.target_type).bind(lease.partition.shard).bind(lease.token);
        // The protocol counts rows matched, not rows changed.
        let matched = self.mysql.execute(update).await.map_err(&failed)?.rows_affected();
        if matched == 0 { Err(SinkError::LeaseLost) } else { Ok(()) }
    }
}
