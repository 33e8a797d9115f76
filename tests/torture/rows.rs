//! What MySQL holds, read past the proxy; and a watcher who sees that no row goes back.
//!
//! The time of a row never falls. Its status changes with a later time, or keeps its time when a later write made it
//! so: a run that was interrupted after its commit reads the same mark again, and the state that is there by then.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{Connection, MySqlConnection};
use tokio::sync::{Mutex, MutexGuard};

use crate::record::{Key, Record, Row};
use crate::support::DatabaseAt;
use crate::tally::{Tally, Wrong};

/// The watcher does not wait longer for a server that may be stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Records by state.
pub type Rows = BTreeMap<Key, Row>;
/// Counts by target type, target and interaction.
pub type Counts = BTreeMap<(u16, i64, u16), i64>;

pub async fn records(db: &DatabaseAt) -> sqlx::Result<Rows> {
    let mut connection = MySqlConnection::connect(&db.url).await?;
    let rows: Vec<(u16, i64, u16, i64, i8, i64)> = sqlx::query_as(
        "SELECT target_type, target_id, interaction_type, user_id, status, \
         TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time) DIV 1000 FROM interaction_record",
    )
    .fetch_all(&mut connection)
    .await?;
    connection.close().await?;
    let row = |(target_type, target, interaction, user, status, update_ms)| {
        (Key { target_type, target, interaction, user }, Row { active: status == 1, update_ms })
    };
    Ok(rows.into_iter().map(row).collect())
}

pub async fn counts(db: &DatabaseAt) -> sqlx::Result<Counts> {
    let mut connection = MySqlConnection::connect(&db.url).await?;
    let rows: Vec<(u16, i64, u16, i64)> =
        sqlx::query_as("SELECT target_type, target_id, interaction_type, count FROM interaction_count")
            .fetch_all(&mut connection)
            .await?;
    connection.close().await?;
    let row = |(target_type, target, interaction, count)| ((target_type, target, interaction), count);
    Ok(rows.into_iter().map(row).collect())
}

/// Remembers the rows that it saw last.
#[derive(Default)]
pub struct Watcher {
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub struct Seen {
    latest: Rows,
    before: Rows,
    /// Rows whose status changed while their time stayed, as they were before; to be justified by the record.
    turned: Vec<(Key, Row)>,
}

impl Seen {
    /// The engine shows what was committed a moment before it is on disk: what was seen last may be gone.
    pub fn server_was_killed(&mut self) {
        self.latest = self.before.clone();
    }

    /// Says which rows turned around without a later write. The record must be complete.
    pub fn justify(&mut self, record: &Record, tally: &Tally) {
        for (key, old) in self.turned.drain(..).filter(|(key, old)| !record.may_turn(*key, *old)) {
            let what = format!("the row of {key} turned and kept its time: {old:?}{}", record.history(key));
            tally.wrong(Wrong::Backwards, &what);
        }
    }

    fn compare(&mut self, rows: Rows, tally: &Tally) {
        for (key, old) in &self.latest {
            let fault = match rows.get(key) {
                None => "is gone",
                Some(new) if new.update_ms < old.update_ms => "has an earlier time",
                Some(new) => {
                    if new.active != old.active && new.update_ms == old.update_ms {
                        self.turned.push((*key, *old));
                    }
                    continue;
                }
            };
            tally.wrong(Wrong::Backwards, &format!("the row of {key} {fault}: {old:?}, then {:?}", rows.get(key)));
        }
        self.before = std::mem::replace(&mut self.latest, rows);
    }
}

impl Watcher {
    /// Looks once; not at a server that does not answer.
    pub async fn sample(&self, db: &DatabaseAt, tally: &Tally) {
        let mut seen = self.seen.lock().await;
        if let Ok(Ok(rows)) = tokio::time::timeout(PATIENCE, records(db)).await {
            seen.compare(rows, tally);
            tally.sampled();
        }
    }

    /// Nothing is looked at as long as this is held.
    pub async fn hold(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Attempt;

    fn rows(active: bool, update_ms: i64) -> Rows {
        BTreeMap::from([(Key { target_type: 1, target: 2, interaction: 1, user: 3 }, Row { active, update_ms })])
    }

    #[test]
    fn a_row_stays_or_changes_with_a_later_time() {
        for (new, clean) in [
            (rows(true, 10), true),
            (rows(true, 11), true),
            (rows(false, 11), true),
            (rows(true, 9), false),
            (Rows::new(), false),
        ] {
            let (mut seen, tally) = (Seen::default(), Tally::new(1));
            seen.compare(rows(true, 10), &tally);
            seen.compare(new.clone(), &tally);
            assert_eq!(tally.clean(), clean, "{new:?}");
        }
    }

    #[test]
    fn a_row_turns_at_its_time_only_for_a_later_write() {
        let (key, value) = (Key { target_type: 1, target: 2, interaction: 1, user: 3 }, false);
        for (ended_ms, clean) in [(9, false), (10, true), (20, true)] {
            let (mut seen, tally, mut record) = (Seen::default(), Tally::new(1), Record::default());
            record.wrote(key, Attempt { value, sent_ms: 8, ended_ms, acknowledged: true });
            seen.compare(rows(true, 10), &tally);
            seen.compare(rows(value, 10), &tally);
            seen.justify(&record, &tally);
            assert_eq!(tally.clean(), clean, "{ended_ms}");
        }
    }
}
