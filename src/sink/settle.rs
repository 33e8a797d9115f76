//! Counts that may know of changes which the record rows do not have yet.
//!
//! A count is copied from Redis with the changes of a chunk, and holds whatever was written until it was read. What was
//! not of this chunk is still to come; until then the row is noted as unsettled. When Redis loses what was to come, the
//! restore counts the record rows of what is noted.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::commit::{Writer, backoff};
use super::lease::Lease;
use super::session::Conn;
use super::upsert::{ROW_BYTES, UNSETTLED};
use crate::model::{Checkpoint, CountRow, CountValue, Id};

/// Targets in one list, and counts settled in one transaction.
const LIST: usize = 500;

impl Writer {
    /// Counts the record rows of unsettled counts of the partition again, some hundreds of them. Answers whether there may be
    /// more. [`SinkError::LeaseLost`] means that nothing was changed.
    ///
    /// In the older layout rows cannot be counted by target: there they stay as they are.
    pub async fn settle_counts(&mut self) -> Result<bool, SinkError> {
        let mut delays = backoff();
        loop {
            let lease = self.lease;
            let settled = self.session.with(move |conn| Box::pin(async move { conn.settle(lease).await }));
            match settled.await {
                Err(error) if self.tries_again(&error, &mut delays).await => {}
                outcome => return outcome,
            }
        }
    }
}

impl Conn {
    async fn settle(&mut self, lease: Lease) -> Result<bool, SinkError> {
        let (target_type, shard) = (lease.partition.target_type, lease.partition.shard);
        if !self.layout()?.by_target {
            return Ok(false);
        }
        let failed = self.failed();
        let text = format!(
            "/* tallyd settle */ SELECT CAST(target_id AS SIGNED), CAST(interaction_type AS SIGNED) FROM unsettled_count \
             WHERE target_type = {target_type} AND shard = {shard} ORDER BY target_id, interaction_type LIMIT {LIST}"
        );
        let mut counts = Vec::new();
        for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)? {
            let (target, interaction): (i64, i64) =
                (row.try_get(0).map_err(&failed)?, row.try_get(1).map_err(&failed)?);
            // Only ids are ever noted.
            if let (Ok(target), Ok(interaction)) = (Id::try_from(target), u16::try_from(interaction)) {
                counts.push(CountRow { target, interaction, value: CountValue::Recompute, at_ms: 0, settled: true });
            }
        }
        if counts.is_empty() {
            return Ok(false);
        }
        self.mysql.execute("/* tallyd settle */ START TRANSACTION").await.map_err(&failed)?;
        self.write_chunk_counts(target_type, &counts, None).await?;
        self.note_settled(lease, &counts).await?;
        // The lease is required, and the checkpoint stays.
        self.store_checkpoint(lease, Checkpoint::default(), 0).await?;
        self.mysql.execute("/* tallyd settle */ COMMIT").await.map_err(&failed)?;
        Ok(counts.len() == LIST)
    }

    /// Notes which of the counts just written may be ahead of the record rows, and which are not any more.
    pub(super) async fn note_settled(&mut self, lease: Lease, counts: &[CountRow]) -> Result<(), SinkError> {
        let (target_type, shard) = (lease.partition.target_type, lease.partition.shard);
        let counted = self.layout()?.by_target;
        let mut settled: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        let mut unsettled = Vec::new();
        for row in counts {
            match row.value {
                CountValue::Known(_) if !row.settled => unsettled.push(*row),
                CountValue::Recompute if !counted => {}
                CountValue::Known(_) | CountValue::Recompute => {
                    settled.entry(row.interaction).or_default().push(row.target.to_string());
                }
                CountValue::AtLeast(_) => {}
            }
        }
        self.write_rows(&unsettled, UNSETTLED, ROW_BYTES, |query, row| {
            query.bind(target_type).bind(row.target.get()).bind(row.interaction).bind(shard)
        })
        .await?;
        let failed = self.failed();
        for (interaction, targets) in settled {
            for list in targets.chunks(LIST) {
                let text = format!(
                    "/* tallyd settle */ DELETE FROM unsettled_count WHERE target_type = {target_type} \
                     AND interaction_type = {interaction} AND target_id IN ({})",
                    list.join(",")
                );
                self.mysql.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)?;
            }
        }
        Ok(())
    }
}
