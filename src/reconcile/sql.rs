//! Statements that a person may apply: those that undo what was repaired in MySQL, and those that would repair it.

use std::collections::BTreeMap;

use crate::sink::DriftRow;

/// Statements that put MySQL back to what it held before the repairs among `rows`, the last first. Counts that moved along
/// with record rows are moved back.
#[must_use]
pub fn undo_sql(rows: &[DriftRow]) -> String {
    let repaired = rows.iter().rev().filter(|row| row.side == "mysql" && row.outcome == "repaired");
    statements(repaired, |row| (&row.after, &row.before))
}

/// Statements that would repair in MySQL what was found and not repaired, but for what is left because nothing says what would
/// be right.
#[must_use]
pub fn fix_sql(rows: &[DriftRow]) -> String {
    let wanted = |row: &&DriftRow| row.side == "mysql" && !["repaired", "left"].contains(&row.outcome.as_str());
    statements(rows.iter().filter(wanted), |row| (&row.before, &row.after))
}

/// What a statement changes: from what, to what.
type Change<'r> = (&'r Option<String>, &'r Option<String>);

fn statements<'r>(rows: impl Iterator<Item = &'r DriftRow>, change: impl Fn(&'r DriftRow) -> Change<'r>) -> String {
    let mut lines = Vec::new();
    let mut moved: BTreeMap<(u16, i64, u16), i64> = BTreeMap::new();
    for row in rows {
        let (from, to) = change(row);
        let target = (row.target_type, row.target_id, row.interaction_type);
        let at = format!("target_type = {} AND target_id = {} AND interaction_type = {}", target.0, target.1, target.2);
        let values = format!("{}, {}, {}", target.0, target.1, target.2);
        if let Some(user) = row.user_id {
            lines.push(record(&at, &values, user, from.as_deref().and_then(bit), to.as_deref().and_then(bit)));
            if row.kind == "mark_lost" {
                let active = |state: &Option<String>| i64::from(state.as_deref().and_then(bit) == Some(1));
                *moved.entry(target).or_default() += active(to) - active(from);
            }
        } else {
            lines.push(count(&at, &values, from.as_deref().and_then(number), to.as_deref().and_then(number)));
        }
    }
    for ((target_type, target_id, interaction_type), by) in moved.into_iter().filter(|(_, by)| *by != 0) {
        let (sign, by) = if by < 0 { ('-', -by) } else { ('+', by) };
        lines.push(format!(
            "UPDATE interaction_count SET count = count {sign} {by} WHERE target_type = {target_type} \
             AND target_id = {target_id} AND interaction_type = {interaction_type};"
        ));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("START TRANSACTION;\n{}\nCOMMIT;\n", lines.join("\n"))
}

/// Only what still is as it was left is changed.
fn record(at: &str, values: &str, user: i64, from: Option<i64>, to: Option<i64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => {
            format!("UPDATE interaction_record SET status = {to} WHERE {at} AND user_id = {user} AND status = {from};")
        }
        (Some(from), None) => {
            format!("DELETE FROM interaction_record WHERE {at} AND user_id = {user} AND status = {from};")
        }
        (None, to) => format!(
            "INSERT IGNORE INTO interaction_record (target_type, target_id, interaction_type, user_id, status, \
             create_time, update_time) VALUES ({values}, {user}, {}, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3));",
            to.unwrap_or_default()
        ),
    }
}

fn count(at: &str, values: &str, from: Option<i64>, to: Option<i64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => {
            format!("UPDATE interaction_count SET count = {to} WHERE {at} AND count = {from};")
        }
        (Some(from), None) => format!("DELETE FROM interaction_count WHERE {at} AND count = {from};"),
        (None, to) => format!(
            "INSERT IGNORE INTO interaction_count (target_type, target_id, interaction_type, count, update_time) \
             VALUES ({values}, {}, UTC_TIMESTAMP(3));",
            to.unwrap_or_default()
        ),
    }
}

/// Whatever a table holds, only numbers become part of a statement.
fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn bit(text: &str) -> Option<i64> {
    number(text).map(|status| i64::from(status == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, user_id: Option<i64>, before: Option<&str>, after: Option<&str>, outcome: &str) -> DriftRow {
        DriftRow {
            target_type: 1,
            target_id: 10086,
            interaction_type: 1,
            user_id,
            kind: kind.into(),
            cause: String::new(),
            side: if kind.starts_with("redis") { "redis" } else { "mysql" }.into(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            outcome: outcome.into(),
            found_at: chrono::DateTime::default(),
        }
    }

    #[test]
    fn undoing_takes_back_rows_and_the_counts_that_moved_with_them() {
        let rows = [
            row("mark_lost", Some(42), None, Some("1"), "repaired"),
            row("record_row_off", Some(43), Some("0"), Some("1"), "repaired"),
            row("count_row_off", None, Some("9"), Some("2"), "repaired"),
            row("redis_count_off", None, Some("9"), Some("2"), "repaired"),
            row("count_row_off", None, Some("7"), Some("2"), "failed"),
        ];
        let at = "target_type = 1 AND target_id = 10086 AND interaction_type = 1";
        assert_eq!(
            undo_sql(&rows),
            format!(
                "START TRANSACTION;\n\
                 UPDATE interaction_count SET count = 9 WHERE {at} AND count = 2;\n\
                 UPDATE interaction_record SET status = 0 WHERE {at} AND user_id = 43 AND status = 1;\n\
                 DELETE FROM interaction_record WHERE {at} AND user_id = 42 AND status = 1;\n\
                 UPDATE interaction_count SET count = count - 1 WHERE {at};\nCOMMIT;\n"
            )
        );
        let fix =
            format!("START TRANSACTION;\nUPDATE interaction_count SET count = 2 WHERE {at} AND count = 7;\nCOMMIT;\n");
        assert_eq!(fix_sql(&rows), fix);
    }

    #[test]
    fn nothing_but_numbers_becomes_part_of_a_statement() {
        let rows = [row("record_row_missing", Some(42), None, Some("1; DROP TABLE x"), "stopped")];
        assert!(fix_sql(&rows).contains("VALUES (1, 10086, 1, 42, 0,"), "{}", fix_sql(&rows));
        assert_eq!(undo_sql(&rows), "");
        let left = [
            row("unconfigured", None, Some("3"), None, "left"),
            row("row_without_user", None, Some("2"), None, "left"),
            row("count_row_off", None, Some("8"), Some("7"), "left"),
        ];
        assert_eq!(fix_sql(&left), "", "a count row of that very number would be deleted, or lowered without proof");
    }
}
