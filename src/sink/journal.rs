//! The journal of degraded writes, from the side of the lease holder who replays it.
//!
//! Whoever wrote to it wrote the record row in the same transaction, so that a row of the journal says no more than
//! which state to look at.

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::commit::{Writer, backoff};
use super::compare::{Key, key};
use super::lease::Lease;
use super::session::{Conn, Session};
use crate::failpoint;
use crate::model::{Checkpoint, Id, Partition, RecordRow, Vocabulary};

/// Rows of the journal replayed together.
const BATCH: usize = 1000;
/// Bytes an id needs in a list.
const ID_BYTES: usize = 21;

/// Some rows of the journal, and what they are about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Journaled {
    /// Their ids.
    pub ids: Vec<u64>,
    /// The states they are about, each once, in key order, as their record rows are now; `at_ms` is the latest time
    /// that a row may stand for.
    pub states: Vec<RecordRow>,
    /// How many states have no record row.
    pub gone: u64,
}

/// A list for SQL of the codes of interactions with states; those of others are none of ours.
fn interactions(vocabulary: &Vocabulary) -> String {
    let codes = vocabulary.interactions.iter().filter(|i| i.has_states()).map(|i| i.code.to_string());
    list(codes)
}

fn list(codes: impl Iterator<Item = String>) -> String {
    // No code is NULL.
    ["NULL".to_owned()].into_iter().chain(codes).collect::<Vec<_>>().join(",")
}

impl Session {
    /// Whether the journal has a row that a run would replay.
    pub async fn journal_waits(&mut self, vocabulary: &Vocabulary, shards: u16) -> Result<bool, SinkError> {
        let types = list(vocabulary.targets.iter().map(|target| target.code.to_string()));
        self.any_journaled(format!("target_type IN ({types}) AND shard < {shards}"), vocabulary).await
    }

    /// Whether it has one of this partition.
    pub async fn journal_waits_of(
        &mut self,
        Partition { target_type, shard }: Partition,
        vocabulary: &Vocabulary,
    ) -> Result<bool, SinkError> {
        self.any_journaled(format!("target_type = {target_type} AND shard = {shard}"), vocabulary).await
    }

    async fn any_journaled(&mut self, of: String, vocabulary: &Vocabulary) -> Result<bool, SinkError> {
        let text = format!(
            "/* tallyd journal.look */ SELECT 1 FROM degraded_write WHERE {of} AND interaction_type IN ({}) LIMIT 1",
            interactions(vocabulary)
        );
        self.with(move |conn| {
            Box::pin(async move {
                let row = conn.mysql.fetch_optional(sqlx::raw_sql(AssertSqlSafe(text))).await;
                row.map(|row| row.is_some()).map_err(conn.failed())
            })
        })
        .await
    }
}

impl Writer {
    /// How many rows of the partition's journal wait.
    pub async fn journal_length(&mut self) -> Result<u64, SinkError> {
        let Partition { target_type, shard } = self.lease.partition;
        let text = format!(
            "/* tallyd journal.look */ SELECT CAST(COUNT(*) AS UNSIGNED) FROM degraded_write \
             WHERE target_type = {target_type} AND shard = {shard} AND interaction_type IN ({})",
            interactions(&self.vocabulary)
        );
        self.session
            .with(move |conn| {
                Box::pin(async move {
                    let row = conn.mysql.fetch_one(sqlx::raw_sql(AssertSqlSafe(text))).await;
                    row.and_then(|row| row.try_get(0)).map_err(conn.failed())
                })
            })
            .await
    }

    /// The oldest rows of the partition's journal, a thousand or so, and what MySQL holds of their states now.
    pub async fn journaled(&mut self) -> Result<Journaled, SinkError> {
        let mut delays = backoff();
        loop {
            let (partition, interactions) = (self.lease.partition, interactions(&self.vocabulary));
            let read =
                self.session.with(move |conn| Box::pin(async move { conn.read(partition, &interactions).await }));
            match read.await {
                Err(error) if self.tries_again(&error, &mut delays).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Takes replayed rows out of the journal, and stores the checkpoint that vouches for it. Answers how many there
    /// were: none when it is done a second time. [`SinkError::LeaseLost`] means that nothing was changed.
    pub async fn replayed(&mut self, ids: &[u64], checkpoint: Checkpoint) -> Result<u64, SinkError> {
        let mut delays = backoff();
        loop {
            let (lease, ids) = (self.lease, ids.to_vec());
            let done =
                self.session.with(move |conn| Box::pin(async move { conn.forget(lease, &ids, checkpoint).await }));
            match done.await {
                Err(error) if self.tries_again(&error, &mut delays).await => {}
                outcome => {
                    failpoint::hit("after_commit");
                    return outcome;
                }
            }
        }
    }
}

impl Conn {
    async fn read(
        &mut self,
        Partition { target_type, shard }: Partition,
        interactions: &str,
    ) -> Result<Journaled, SinkError> {
        let text = format!(
            "/* tallyd journal.read */ SELECT CAST(id AS UNSIGNED), CAST(target_id AS SIGNED), \
             CAST(interaction_type AS SIGNED), CAST(user_id AS SIGNED) FROM degraded_write \
             WHERE target_type = {target_type} AND shard = {shard} AND interaction_type IN ({interactions}) \
             ORDER BY id LIMIT {BATCH}"
        );
        let failed = self.failed();
        let (mut ids, mut keys) = (Vec::new(), Vec::new());
        for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)? {
            let read = || -> Result<(u64, Key), sqlx::Error> {
                let interaction = u16::try_from(row.try_get::<i64, _>(2)?).unwrap_or_default();
                Ok((row.try_get(0)?, (row.try_get(1)?, interaction, row.try_get(3)?)))
            };
            let (id, key) = read().map_err(&failed)?;
            ids.push(id);
            keys.push(key);
        }
        keys.sort_unstable();
        keys.dedup();
        let asked: Vec<RecordRow> = keys.iter().filter_map(|&key| row_of(key)).collect();
        let held = self.held_records(target_type, &asked, false).await?;
        let now = |row: &RecordRow| {
            let held = held.get(&key(row))?;
            Some(RecordRow { active: held.active, at_ms: self.latest_ms(held), ..*row })
        };
        let states: Vec<RecordRow> = asked.iter().filter_map(now).collect();
        let gone = (keys.len() - states.len()) as u64;
        Ok(Journaled { ids, states, gone })
    }

    async fn forget(&mut self, lease: Lease, ids: &[u64], checkpoint: Checkpoint) -> Result<u64, SinkError> {
        let failed = self.failed();
        self.mysql.execute("/* tallyd journal.replayed */ START TRANSACTION").await.map_err(&failed)?;
        let mut gone = 0;
        for ids in ids.chunks((self.max_packet.saturating_sub(1024) / ID_BYTES).max(1)) {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text =
                format!("/* tallyd journal.replayed */ DELETE FROM degraded_write WHERE id IN ({})", ids.join(","));
            gone += self.mysql.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)?.rows_affected();
        }
        if gone > 0 {
            let add = "/* tallyd journal.replayed */ INSERT INTO tallyd_meta (name, value) \
                 VALUES ('degraded.replayed_total', ?) ON DUPLICATE KEY UPDATE \
                 value = CAST(value AS UNSIGNED) + CAST(VALUES(value) AS UNSIGNED)";
            self.mysql.execute(sqlx::query(add).bind(gone.to_string())).await.map_err(&failed)?;
        }
        self.store_checkpoint(lease, checkpoint, 0).await?;
        self.mysql.execute("/* tallyd journal.replayed */ COMMIT").await.map_err(&failed)?;
        Ok(gone)
    }
}

/// What to ask for; `None` for ids that are none.
fn row_of((target, interaction, user): Key) -> Option<RecordRow> {
    let (target, user) = (Id::try_from(target).ok()?, Id::try_from(user).ok()?);
    Some(RecordRow { target, interaction, user, active: false, at_ms: 0 })
}
