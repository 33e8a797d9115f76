//! Count rows of a chunk: copied, raised, counted again, or moved by flips.

use std::collections::{BTreeMap, HashMap};

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::compare::{Held, Key, key};
use super::session::Conn;
use super::upsert::Onto;
use crate::model::{CountRow, CountValue, Id, RecordRow};

/// Targets in one list.
const LIST: usize = 500;

impl Conn {
    /// Writes the counts of a chunk, after its records.
    ///
    /// `flips` is how far each count moves by the records just written, for a layout in which they cannot be
    /// counted by target.
    pub(super) async fn write_chunk_counts(
        &mut self,
        target_type: u16,
        counts: &[CountRow],
        flips: Option<Flips>,
    ) -> Result<(), SinkError> {
        let (mut set, mut raise, mut recount) = (Vec::new(), Vec::new(), Vec::new());
        for &row in counts {
            match row.value {
                CountValue::Known(count) => set.push((row, count)),
                CountValue::AtLeast(count) => raise.push((row, count)),
                CountValue::Recompute => recount.push((row, 0)),
            }
        }
        if let Some(mut moves) = flips {
            // Also counts that the chunk does not ask for: a scan of many pages does so on its last one only.
            moves.retain(|_, (_, by)| *by != 0);
            for (row, _) in recount.drain(..) {
                moves.entry((row.target, row.interaction)).or_insert((row, 0));
            }
            for (row, _) in set.iter().chain(&raise) {
                moves.remove(&(row.target, row.interaction));
            }
            self.move_counts(target_type, moves).await?;
        }
        self.write_counts(target_type, &set, Onto::Set).await?;
        self.write_counts(target_type, &raise, Onto::Raise).await?;
        if recount.is_empty() {
            return Ok(());
        }
        // Locked first: whoever flips a state moves the count in the same transaction, so that what is counted after
        // the lock (this session reads what is committed) has been moved, and what is not will be.
        self.write_counts(target_type, &recount, Onto::Lock).await?;
        let active = self.count_active(target_type, &recount).await?;
        for (row, number) in &mut recount {
            *number = active.get(&(row.target.get(), row.interaction)).copied().unwrap_or_default();
        }
        self.write_counts(target_type, &recount, Onto::Set).await
    }

    /// Moves counts by flips. A row that has to be there before something is taken off it is made first.
    async fn move_counts(&mut self, target_type: u16, moves: Flips) -> Result<(), SinkError> {
        let (take, mut add): (Vec<_>, Vec<_>) = moves.into_values().partition(|(_, by)| *by < 0);
        let take: Vec<_> = take.into_iter().map(|(row, by)| (row, -by)).collect();
        add.extend(take.iter().map(|&(row, _)| (row, 0)));
        add.sort_unstable_by_key(|(row, _)| (row.target, row.interaction));
        self.write_counts(target_type, &add, Onto::Add).await?;
        self.write_counts(target_type, &take, Onto::Take).await
    }

    async fn count_active(
        &mut self,
        target_type: u16,
        rows: &[(CountRow, i64)],
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        let mut targets: HashMap<u16, Vec<String>> = HashMap::new();
        for (row, _) in rows {
            targets.entry(row.interaction).or_default().push(row.target.to_string());
        }
        let failed = self.failed();
        let mut active = HashMap::new();
        for (interaction, targets) in targets {
            for list in targets.chunks(LIST) {
                let text = format!(
                    "/* tallyd sync.count */ SELECT CAST(target_id AS SIGNED), COUNT(*) FROM interaction_record \
                     WHERE target_type = {target_type} AND interaction_type = {interaction} AND status = 1 \
                     AND target_id IN ({}) GROUP BY target_id",
                    list.join(",")
                );
                for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)? {
                    let target: i64 = row.try_get(0).map_err(&failed)?;
                    active.insert((target, interaction), row.try_get(1).map_err(&failed)?);
                }
            }
        }
        Ok(active)
    }
}

/// Counts, each with how far it moves.
pub(super) type Flips = BTreeMap<(Id, u16), (CountRow, i64)>;

/// How far each count moves when `rows` are written over `held`.
pub(super) fn flips(rows: &[RecordRow], held: &HashMap<Key, Held>) -> Flips {
    let mut flips = Flips::new();
    for row in rows {
        let &RecordRow { target, interaction, at_ms, .. } = row;
        let unmoved = (CountRow { target, interaction, value: CountValue::Recompute, at_ms, settled: true }, 0);
        let (count, by) = flips.entry((target, interaction)).or_insert(unmoved);
        count.at_ms = count.at_ms.max(at_ms);
        *by += Held::flip(held.get(&key(row)), row);
    }
    flips
}
