//! Looking up the record rows that a chunk is about to write.
//!
//! Statements here are text with numbers in them, not prepared ones: their shape is never the same twice.

use std::collections::HashMap;
use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::Conn;
use crate::model::RecordRow;

/// Users in one list, well below the length from which MariaDB turns a list into a join (1000).
const LIST: usize = 500;
/// Look-ups joined in one statement.
const UNION: usize = 100;
/// Bytes a list entry needs.
const ENTRY_BYTES: usize = 20;

/// target, interaction, user
pub(super) type Key = (i64, u16, i64);

/// A record row as MySQL holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) active: bool,
    pub(super) update_ms: i64,
}

pub(super) fn key(row: &RecordRow) -> Key {
    (row.target.get(), row.interaction, row.user.get())
}

impl Held {
    /// Whether `row`, found in a scan, says something else. An absent row and a cancelled state say the same.
    pub(super) fn differs(held: Option<&Self>, row: &RecordRow) -> bool {
        held.map_or(row.active, |held| held.active != row.active)
    }

    /// By how much the count moves when `row` is written over this one: the newer event time wins.
    pub(super) fn flip(held: Option<&Self>, row: &RecordRow) -> i64 {
        match held {
            None => i64::from(row.active),
            Some(held) if row.at_ms >= held.update_ms => i64::from(row.active) - i64::from(held.active),
            Some(_) => 0,
        }
    }
}

impl Conn {
    /// The rows of the same keys, as they are committed now; with `lock` they are locked, too.
    pub(super) async fn held_records(
        &mut self,
        target_type: u16,
        rows: &[RecordRow],
        lock: bool,
    ) -> Result<HashMap<Key, Held>, SinkError> {
        // No UNION where rows are locked: the clause belongs to one SELECT.
        let lists = if lock { 1 } else { UNION };
        let select = |target: i64, interaction: u16, users: &str| {
            format!(
                "SELECT CAST(target_id AS SIGNED) AS t, CAST(interaction_type AS SIGNED) AS i, \
                 CAST(user_id AS SIGNED) AS u, CAST(status AS SIGNED) AS s, \
                 TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time) DIV 1000 AS at FROM interaction_record \
                 WHERE target_type = {target_type} AND target_id = {target} AND interaction_type = {interaction} \
                 AND user_id IN ({users}){}",
                if lock { " FOR UPDATE" } else { "" }
            )
        };
        let failed = self.failed();
        let mut held = HashMap::new();
        for statement in self.statements("compare", rows, lists, select) {
            for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(statement))).await.map_err(&failed)? {
                let read = || -> Result<_, sqlx::Error> {
                    let interaction = u16::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
                    let key = (row.try_get(0)?, interaction, row.try_get(2)?);
                    Ok((key, Held { active: row.try_get::<i64, _>(3)? == 1, update_ms: row.try_get(4)? }))
                };
                let (key, row) = read().map_err(&failed)?;
                held.insert(key, row);
            }
        }
        Ok(held)
    }

    /// Which of these states have a write in the degraded journal that is not replayed yet.
    pub(super) async fn journaled(
        &mut self,
        target_type: u16,
        rows: &[RecordRow],
    ) -> Result<std::collections::HashSet<Key>, SinkError> {
        let select = |target: i64, interaction: u16, users: &str| {
            format!(
                "SELECT target_id AS t, CAST(interaction_type AS SIGNED) AS i, user_id AS u FROM degraded_write \
                 WHERE target_type = {target_type} AND target_id = {target} AND interaction_type = {interaction} \
                 AND user_id IN ({users})"
            )
        };
        let failed = self.failed();
        let mut found = std::collections::HashSet::new();
        for statement in self.statements("journal", rows, UNION, select) {
            for row in self.mysql.fetch_all(sqlx::raw_sql(AssertSqlSafe(statement))).await.map_err(&failed)? {
                let read = || -> Result<Key, sqlx::Error> {
                    let interaction = u16::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
                    Ok((row.try_get(0)?, interaction, row.try_get(2)?))
                };
                found.insert(read().map_err(&failed)?);
            }
        }
        Ok(found)
    }

    /// Joins look-ups for `rows` (those of a target and interaction together) into statements that fit a packet.
    fn statements(
        &self,
        caller: &str,
        rows: &[RecordRow],
        lists: usize,
        select: impl Fn(i64, u16, &str) -> String,
    ) -> Vec<String> {
        let list = LIST.min(self.max_packet.saturating_sub(1024) / ENTRY_BYTES).max(1);
        let limit = self.max_packet / 2;
        let mut statements: Vec<String> = Vec::new();
        let mut joined = lists;
        for group in rows.chunk_by(|a, b| (a.target, a.interaction) == (b.target, b.interaction)) {
            for piece in group.chunks(list) {
                let mut users = String::with_capacity(piece.len() * ENTRY_BYTES);
                for row in piece {
                    let comma = if users.is_empty() { "" } else { "," };
                    // Writing to a String cannot fail.
                    let _infallible = write!(users, "{comma}{}", row.user);
                }
                let select = select(group[0].target.get(), group[0].interaction, &users);
                match statements.last_mut() {
                    Some(open) if joined < lists && open.len() + select.len() < limit => {
                        open.push_str(" UNION ALL ");
                        open.push_str(&select);
                        joined += 1;
                    }
                    _ => {
                        statements.push(format!("/* tallyd sync.{caller} */ {select}"));
                        joined = 1;
                    }
                }
            }
        }
        statements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_follow_the_newer_event_time() {
        let id = |n: i64| n.try_into().unwrap();
        let row = |active, at_ms| RecordRow { target: id(1), interaction: 1, user: id(2), active, at_ms };
        let held = |active, update_ms| Held { active, update_ms };
        assert_eq!(Held::flip(None, &row(true, 5)), 1);
        assert_eq!(Held::flip(None, &row(false, 5)), 0);
        assert_eq!(Held::flip(Some(&held(true, 5)), &row(false, 5)), -1);
        assert_eq!(Held::flip(Some(&held(true, 5)), &row(false, 4)), 0, "a delayed write moves nothing");
        assert_eq!(Held::flip(Some(&held(true, 5)), &row(true, 9)), 0);
        assert!(!Held::differs(None, &row(false, 5)));
        assert!(Held::differs(None, &row(true, 5)));
        assert!(Held::differs(Some(&held(true, 5)), &row(false, 1)));
    }
}
