//! The statements that write records, counts and what is set aside.

use chrono::{DateTime, NaiveDateTime};
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, MySql};

use super::SinkError;
use super::session::Conn;
use super::sizing::{pieces, rows_per_statement};
use crate::model::{CountRow, RecordRow, Rejected};

/// What a row needs at most in a statement: its placeholders in the text, or its values and their types.
pub(super) const ROW_BYTES: usize = 96;
/// `mark` and `detail` as they are stored, four bytes a character.
const REJECTED_BYTES: usize = 4 * (MARK_CHARS + DETAIL_CHARS) + 128;
const MARK_CHARS: usize = 255;
const DETAIL_CHARS: usize = 1000;

/// The newer event time wins, so that a delayed batch cannot undo a later direct write. `create_time` is the first
/// time and stays. Assignments are made from left to right: `status` still sees the old `update_time`.
const RECORD: (&str, &str) = (
    "/* tallyd sync.commit */ INSERT INTO interaction_record \
     (target_type, target_id, interaction_type, user_id, status, update_time, create_time) VALUES ",
    " ON DUPLICATE KEY UPDATE status = IF(VALUES(update_time) >= update_time, VALUES(status), status), \
     update_time = GREATEST(update_time, VALUES(update_time))",
);

const COUNT: &str = "/* tallyd sync.commit */ INSERT INTO interaction_count \
     (target_type, target_id, interaction_type, count, update_time) VALUES ";

/// The last one stands.
const SET_COUNT: &str = " ON DUPLICATE KEY UPDATE update_time = \
     IF(VALUES(count) <> count, GREATEST(update_time, VALUES(update_time)), update_time), count = VALUES(count)";

/// A counter never falls: what is lower was counted by a Redis that had lost it.
const RAISE_COUNT: &str = " ON DUPLICATE KEY UPDATE update_time = \
     IF(VALUES(count) > count, GREATEST(update_time, VALUES(update_time)), update_time), \
     count = GREATEST(count, VALUES(count))";

/// Adds how many states became active. No number in it is negative: the column may be unsigned.
const ADD_COUNT: &str = " ON DUPLICATE KEY UPDATE update_time = \
     IF(VALUES(count) > 0, GREATEST(update_time, VALUES(update_time)), update_time), count = count + VALUES(count)";

/// Takes off how many states were cancelled, of a row that is there; not below 0.
const TAKE_COUNT: &str = " ON DUPLICATE KEY UPDATE update_time = GREATEST(update_time, VALUES(update_time)), \
     count = count - LEAST(count, VALUES(count))";

/// Makes sure of the row and locks it.
const LOCK_COUNT: &str = " ON DUPLICATE KEY UPDATE count = count";

/// A count that may be ahead of the record rows.
pub(super) const UNSETTLED: (&str, &str, &str) = (
    "/* tallyd sync.commit */ INSERT INTO unsettled_count (target_type, target_id, interaction_type, shard) VALUES ",
    "(?,?,?,?)",
    " ON DUPLICATE KEY UPDATE shard = VALUES(shard)",
);

const REJECTED: (&str, &str) = (
    "/* tallyd sync.commit */ INSERT INTO sync_rejected \
     (target_type, mark, reason, detail, run_id, first_seen, last_seen) VALUES ",
    " ON DUPLICATE KEY UPDATE detail = VALUES(detail), run_id = VALUES(run_id), last_seen = VALUES(last_seen)",
);

/// How a count statement treats a row that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Onto {
    Set,
    Raise,
    Add,
    Take,
    Lock,
}

type Statement = Query<'static, MySql, MySqlArguments>;

/// A time in UTC as `DATETIME`: as `DateTime<Utc>` it would be sent as `TIMESTAMP`, which `MariaDB` takes for NULL from
/// 2038 on.
pub(super) fn time(ms: i64) -> NaiveDateTime {
    DateTime::from_timestamp_millis(ms).unwrap_or_default().naive_utc()
}

fn text(head: &str, row: &str, rows: usize, tail: &str) -> AssertSqlSafe<String> {
    let mut text = String::with_capacity(head.len() + rows * (row.len() + 1) + tail.len());
    text.push_str(head);
    for n in 0..rows {
        if n > 0 {
            text.push(',');
        }
        text.push_str(row);
    }
    text.push_str(tail);
    // Only constants and placeholders.
    AssertSqlSafe(text)
}

impl Conn {
    pub(super) async fn write_rows<T>(
        &mut self,
        rows: &[T],
        (head, row, tail): (&str, &str, &str),
        row_bytes: usize,
        bind: impl Fn(Statement, &T) -> Statement,
    ) -> Result<(), SinkError> {
        let failed = self.failed();
        let placeholders = row.matches('?').count();
        let full = rows_per_statement(self.batch_rows, placeholders, row_bytes, self.max_packet);
        for piece in pieces(rows, full) {
            let statement = sqlx::query(text(head, row, piece.len(), tail));
            let statement = piece.iter().fold(statement, &bind);
            self.mysql.execute(statement).await.map_err(&failed)?;
        }
        Ok(())
    }

    pub(super) async fn write_records(&mut self, target_type: u16, rows: &[RecordRow]) -> Result<(), SinkError> {
        // What is the same is not sent twice: binding is a good part of what a row costs the server.
        let row = format!("({target_type},?,?,?,?,?,update_time)");
        self.write_rows(rows, (RECORD.0, &row, RECORD.1), ROW_BYTES, |query, row| {
            let query = query.bind(row.target.get()).bind(row.interaction).bind(row.user.get());
            query.bind(row.active).bind(time(row.at_ms))
        })
        .await
    }

    /// Writes counts: for each row the number to set, raise to, add or take off; none is negative.
    pub(super) async fn write_counts(
        &mut self,
        target_type: u16,
        rows: &[(CountRow, i64)],
        onto: Onto,
    ) -> Result<(), SinkError> {
        let tail = match onto {
            Onto::Set => SET_COUNT,
            Onto::Raise => RAISE_COUNT,
            Onto::Add => ADD_COUNT,
            Onto::Take => TAKE_COUNT,
            Onto::Lock => LOCK_COUNT,
        };
        self.write_rows(rows, (COUNT, "(?,?,?,?,?)", tail), ROW_BYTES, |query, (row, number)| {
            let query = query.bind(target_type).bind(row.target.get()).bind(row.interaction);
            query.bind(*number).bind(time(row.at_ms))
        })
        .await
    }

    pub(super) async fn write_rejected(
        &mut self,
        target_type: u16,
        rows: &[Rejected],
        run_id: &str,
    ) -> Result<(), SinkError> {
        let statement = (REJECTED.0, "(?,?,?,?,?,UTC_TIMESTAMP(3),UTC_TIMESTAMP(3))", REJECTED.1);
        let run_id = run_id.to_owned();
        self.write_rows(rows, statement, REJECTED_BYTES, move |query, row| {
            let mark: String = row.mark.chars().take(MARK_CHARS).collect();
            let detail: String = row.detail.chars().take(DETAIL_CHARS).collect();
            query.bind(target_type).bind(mark).bind(row.reason.as_str()).bind(detail).bind(run_id.clone())
        })
        .await
    }
}
