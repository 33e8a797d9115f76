//! The schema: brought up to date by `tallyd migrate`, and looked at by everything else.

use std::collections::BTreeSet;

use sqlx::migrate::Migrator;
use sqlx::{Executor, Row};

use super::layout::RowKey;
use super::session::{Conn, Session};
use super::{Layout, SinkError};

/// The library's table of applied migrations.
const LEDGER: &str = "_sqlx_migrations";

/// A newer schema than ours is none of our business: migrations only add.
fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("sql/migrations");
    migrator.set_ignore_missing(true);
    migrator
}

impl Session {
    /// Applies the migrations that are missing, and answers their names. Waits for another `migrate` to end.
    ///
    /// It has no time limit of ours: an index on a large table takes as long as it takes.
    pub async fn migrate(&mut self) -> Result<Vec<String>, SinkError> {
        let before = self.found().await?.applied;
        self.unlimited(|conn| {
            Box::pin(async move {
                let address = conn.address();
                let outcome = migrator().run_direct(None, &mut conn.mysql, false).await;
                outcome.map_err(|error| SinkError::Schema {
                    problem: format!("migrating MySQL at {address} failed: {error}"),
                    fix: "mend that, and run `tallyd migrate` again".to_owned(),
                })
            })
        })
        .await?;
        Ok(migrator().iter().filter(|m| !before.contains(&m.version)).map(|m| m.description.to_string()).collect())
    }

    /// Fails with [`SinkError::Schema`] unless every migration of this version is applied and what it made is there,
    /// and answers the layout of the tables. A newer schema is accepted: migrations only add.
    pub async fn require_schema(&mut self) -> Result<Layout, SinkError> {
        let found = self.found().await?;
        let of = migrator().iter().count();
        match migrator().iter().filter(|m| !found.applied.contains(&m.version)).count() {
            0 => {}
            missing => {
                return Err(SinkError::Schema {
                    problem: format!("the schema is not current: {missing} of {of} migrations are missing"),
                    fix: "run `tallyd migrate`".to_owned(),
                });
            }
        }
        let gone: Vec<_> = made().into_iter().filter(|(table, _)| !found.tables.contains(table)).collect();
        if !gone.is_empty() {
            return Err(missing_tables(&gone));
        }
        self.with(|conn| Box::pin(async move { conn.layout() })).await
    }

    async fn found(&mut self) -> Result<Found, SinkError> {
        self.with(|conn| Box::pin(async move { conn.found().await })).await
    }
}

/// What is in the database.
struct Found {
    /// Versions of migrations.
    applied: BTreeSet<i64>,
    /// Those of the tables that the migrations make.
    tables: BTreeSet<String>,
}

/// Every table that the migrations make, with the file of the one that does. What they say is all there is to keep.
fn made() -> Vec<(String, String)> {
    let migrator = migrator();
    let tables = migrator.iter().flat_map(|migration| {
        let file = format!("{:04}_{}.sql", migration.version, migration.description.replace(' ', "_"));
        let lines = migration.sql.as_str().lines();
        let names = lines.filter_map(|line| line.strip_prefix("CREATE TABLE IF NOT EXISTS ")?.split([' ', '(']).next());
        names.map(move |name| (name.to_owned(), format!("sql/migrations/{file}"))).collect::<Vec<_>>()
    });
    tables.collect()
}

fn missing_tables(gone: &[(String, String)]) -> SinkError {
    let names: Vec<_> = gone.iter().map(|(table, _)| table.as_str()).collect();
    let names = names.join(", ");
    let and_yet = "missing although every migration is applied";
    if let [(_, file)] = gone {
        let fix = format!("restore it from a backup, or create it as in {file}");
        return SinkError::Schema { problem: format!("{names} is {and_yet}"), fix };
    }
    let create: Vec<_> = gone.iter().map(|(table, file)| format!("{table} as in {file}")).collect();
    SinkError::Schema {
        problem: format!("{names} are {and_yet}"),
        fix: format!("restore them from a backup, or create {}", create.join(", ")),
    }
}

fn missing_keys(missing: &[RowKey]) -> SinkError {
    let problems: Vec<_> = missing
        .iter()
        .map(|RowKey { table, columns }| format!("{table} has no unique key on ({})", columns.join(", ")))
        .collect();
    let fixes: Vec<_> = missing
        .iter()
        .map(|RowKey { table, columns }| format!("ALTER TABLE {table} ADD UNIQUE KEY ({})", columns.join(", ")))
        .collect();
    SinkError::Schema {
        problem: format!("{}, so that a row would be written twice", problems.join(", ")),
        fix: fixes.join("; "),
    }
}

impl Conn {
    pub(super) fn layout(&self) -> Result<Layout, SinkError> {
        self.layout.clone().map_err(|missing| missing_keys(&missing))
    }

    async fn found(&mut self) -> Result<Found, SinkError> {
        let failed = self.failed();
        let ours: Vec<_> = made().into_iter().map(|(table, _)| format!(", '{table}'")).collect();
        let select = format!(
            "/* tallyd schema */ SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name IN ('{LEDGER}'{})",
            ours.concat()
        );
        let rows = self.mysql.fetch_all(sqlx::AssertSqlSafe(select)).await.map_err(&failed)?;
        let tables = rows.iter().map(|row| row.try_get(0)).collect::<Result<BTreeSet<String>, _>>().map_err(&failed)?;
        if !tables.contains(LEDGER) {
            return Ok(Found { applied: BTreeSet::new(), tables });
        }
        let rows = self.mysql.fetch_all("/* tallyd schema */ SELECT version FROM _sqlx_migrations WHERE success").await;
        let applied = rows.map_err(&failed)?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        Ok(Found { applied: applied.map_err(failed)?, tables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_known_with_its_file() {
        let made = made();
        let file = |table: &str| made.iter().find(|(name, _)| name == table).map(|(_, file)| file.as_str());
        assert_eq!(file("interaction_record"), Some("sql/migrations/0001_records_and_counts.sql"));
        assert_eq!(file("degraded_write"), Some("sql/migrations/0002_syncing.sql"));
        let created: usize =
            migrator().iter().map(|migration| migration.sql.as_str().matches("CREATE TABLE").count()).sum();
        assert_eq!(made.len(), created, "a CREATE TABLE that made() cannot read");
    }
}
