//! Which layout the tables have.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Executor, MySqlConnection, Row};

/// The columns that tell a row of a table, which a unique key has to be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowKey {
    pub(super) table: &'static str,
    pub(super) columns: &'static [&'static str],
}

const RECORDS: RowKey =
    RowKey { table: "interaction_record", columns: &["target_type", "target_id", "interaction_type", "user_id"] };
const COUNTS: RowKey =
    RowKey { table: "interaction_count", columns: &["target_type", "target_id", "interaction_type"] };

/// What the indexes of `interaction_record` allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Whether an index finds the rows of a target. The older layout lacks it: there a look-up by target scans the
    /// table, so that counts are moved by flips instead of counted.
    pub by_target: bool,
    /// Whether the unique key is led by `user_id`: rows are written in its order.
    pub user_first: bool,
}

impl Layout {
    /// Asks the server. The keys that are missing, if any is, be it with its table.
    pub(super) async fn of(mysql: &mut MySqlConnection) -> Result<Result<Self, Vec<RowKey>>, sqlx::Error> {
        let rows = mysql
            .fetch_all(
                "/* tallyd layout */ SELECT CAST(table_name AS CHAR), CAST(index_name AS CHAR), \
                 CAST(non_unique AS SIGNED), CAST(column_name AS CHAR) FROM information_schema.statistics \
                 WHERE table_schema = DATABASE() AND table_name IN ('interaction_record', 'interaction_count') \
                 ORDER BY table_name, index_name, seq_in_index",
            )
            .await?;
        let mut indexes: Indexes = BTreeMap::new();
        for row in rows {
            let (table, index): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let (non_unique, column): (i64, String) = (row.try_get(2)?, row.try_get(3)?);
            indexes.entry((table, index)).or_insert((non_unique == 0, vec![])).1.push(column.to_lowercase());
        }
        Ok(Self::from_indexes(&indexes))
    }

    fn from_indexes(indexes: &Indexes) -> Result<Self, Vec<RowKey>> {
        let of = |table: &'static str| indexes.iter().filter(move |((t, _), _)| t == table).map(|(_, index)| index);
        let is = |columns: &[String], key: &[&str]| {
            columns.len() == key.len()
                && columns.iter().map(String::as_str).collect::<BTreeSet<_>>() == key.iter().copied().collect()
        };
        let keys = |key: &RowKey| of(key.table).filter(|(unique, columns)| *unique && is(columns, key.columns));
        let missing: Vec<_> = [RECORDS, COUNTS].into_iter().filter(|key| keys(key).next().is_none()).collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let user_first = keys(&RECORDS).all(|(_, columns)| columns.first().is_some_and(|column| column == "user_id"));
        let by_target = of(RECORDS.table)
            .any(|(_, columns)| columns.get(..2).is_some_and(|lead| is(lead, &["target_type", "target_id"])));
        Ok(Self { by_target, user_first })
    }
}

/// (table, index) → whether it is unique, and its columns in order.
type Indexes = BTreeMap<(String, String), (bool, Vec<String>)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(record: &[(bool, &[&str])], count: &[(bool, &[&str])]) -> Result<Layout, Vec<RowKey>> {
        let tables = [(RECORDS.table, record), (COUNTS.table, count)];
        let all = tables.iter().flat_map(|(table, indexes)| {
            indexes.iter().enumerate().map(|(n, (unique, columns))| {
                let columns = columns.iter().map(ToString::to_string).collect();
                (((*table).to_owned(), n.to_string()), (*unique, columns))
            })
        });
        Layout::from_indexes(&all.collect())
    }

    #[test]
    fn the_older_layout_is_told_from_ours_and_from_what_cannot_be_written_to() {
        let count: &[(bool, &[&str])] = &[(true, COUNTS.columns)];
        let ours = layout(&[(true, RECORDS.columns), (false, &["user_id", "interaction_type"])], count);
        assert_eq!(ours, Ok(Layout { by_target: true, user_first: false }));
        let old_key: &[&str] = &["user_id", "target_type", "target_id", "interaction_type"];
        let old = layout(&[(true, &["id"]), (true, old_key)], count);
        assert_eq!(old, Ok(Layout { by_target: false, user_first: true }));
        let helped = layout(&[(true, &["id"]), (true, old_key), (false, &["target_id", "target_type"])], count);
        assert_eq!(helped, Ok(Layout { by_target: true, user_first: true }));
        assert_eq!(
            layout(&[(true, &["id"]), (false, old_key)], count),
            Err(vec![RECORDS]),
            "nothing keeps rows unique"
        );
        assert_eq!(layout(&[(true, RECORDS.columns)], &[]), Err(vec![COUNTS]));
        assert_eq!(layout(&[], &[]), Err(vec![RECORDS, COUNTS]));
    }
}
