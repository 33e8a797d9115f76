//! What MySQL holds, read past the proxy; and a watcher who sees that no row goes back.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{Connection, MySqlConnection};
use tokio::sync::{Mutex, MutexGuard};

use crate::record::{Key, Row};
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
}

impl Seen {
    /// The engine shows what was committed a moment before it is on disk: what was seen last may be gone.
    pub fn server_was_killed(&mut self) {
        self.latest = self.before.clone();
    }

    fn compare(&mut self, rows: Rows, tally: &Tally) {
        for (key, old) in &self.latest {
            let fault = match rows.get(key) {
                None => "is gone",
                Some(new) if new.update_ms < old.update_ms => "has an earlier time",
                Some(new) if new.active != old.active && new.update_ms == old.update_ms => "changed and kept its time",
                Some(_) => continue,
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

    fn rows(active: bool, update_ms: i64) -> Rows {
        BTreeMap::from([(Key { target_type: 1, target: 2, interaction: 1, user: 3 }, Row { active, update_ms })])
    }

    #[test]
    fn a_row_stays_or_changes_with_a_later_time() {
        for (new, clean) in [
            (rows(true, 10), true),
            (rows(true, 11), true),
            (rows(false, 11), true),
            (rows(false, 10), false),
            (rows(true, 9), false),
            (Rows::new(), false),
        ] {
            let (mut seen, tally) = (Seen::default(), Tally::new(1));
            seen.compare(rows(true, 10), &tally);
            seen.compare(new.clone(), &tally);
            assert_eq!(tally.clean(), clean, "{new:?}");
        }
    }
}
