//! Answers from MySQL, for when Redis cannot give them.

use std::collections::{BTreeMap, HashMap};

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::compare::key;
use super::session::{Conn, Session};
use crate::model::{Id, RecordRow};

/// Targets in one list.
const LIST: usize = 500;

/// A question: interaction, target type, target, and the user whose state is asked for, too.
pub type Asked = (u16, u16, Id, Option<Id>);

impl Session {
    /// Counts and states as MySQL holds them, in order. What it has no row of is 0 and not active; the state is `None`
    /// where no user was asked for.
    pub async fn answer(&mut self, asked: Vec<Asked>) -> Result<Vec<(i64, Option<bool>)>, SinkError> {
        self.with(move |conn| Box::pin(async move { conn.answer(&asked).await })).await
    }
}

impl Conn {
    async fn answer(&mut self, asked: &[Asked]) -> Result<Vec<(i64, Option<bool>)>, SinkError> {
        let mut types: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (at, (_, target_type, ..)) in asked.iter().enumerate() {
            types.entry(*target_type).or_default().push(at);
        }
        let mut answers = vec![(0, None); asked.len()];
        for (target_type, places) in types {
            let mut targets: Vec<Id> = places.iter().map(|&at| asked[at].2).collect();
            targets.sort_unstable();
            targets.dedup();
            let counts = self.counts_in(target_type, &targets).await?;
            let state = |at: usize| {
                let (interaction, _, target, user) = asked[at];
                Some(RecordRow { target, interaction, user: user?, active: true, at_ms: 0 })
            };
            let mut states: Vec<RecordRow> = places.iter().filter_map(|&at| state(at)).collect();
            states.sort_unstable();
            states.dedup();
            let held = self.held_records(target_type, &states, false).await?;
            for at in places {
                let (interaction, _, target, _) = asked[at];
                let count = counts.get(&(target.get(), interaction)).copied().unwrap_or_default();
                let active = state(at).map(|row| held.get(&key(&row)).is_some_and(|held| held.active));
                answers[at] = (count, active);
            }
        }
        Ok(answers)
    }

    /// The count rows of these targets, by target and interaction.
    pub(super) async fn counts_in(
        &mut self,
        target_type: u16,
        targets: &[Id],
    ) -> Result<HashMap<(i64, u16), i64>, SinkError> {
        let failed = self.failed();
        let mut counts = HashMap::new();
        for list in targets.chunks(LIST) {
            let list: Vec<String> = list.iter().map(Id::to_string).collect();
            let text = format!(
                "/* tallyd answer */ SELECT CAST(target_id AS SIGNED), CAST(interaction_type AS SIGNED), \
                 CAST(count AS SIGNED) FROM interaction_count WHERE target_type = {target_type} AND target_id IN ({})",
                list.join(",")
            );
            for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(&failed)? {
                let read = || -> Result<((i64, u16), i64), sqlx::Error> {
                    let interaction = u16::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
                    Ok(((row.try_get(0)?, interaction), row.try_get(2)?))
                };
                let (key, count) = read().map_err(&failed)?;
                counts.insert(key, count);
            }
        }
        Ok(counts)
    }
}
