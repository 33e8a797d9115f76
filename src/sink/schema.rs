//! The schema: brought up to date by `tallyd migrate`, and looked at by everything else.

use std::collections::BTreeSet;

use sqlx::migrate::Migrator;
use sqlx::{Executor, Row};

use super::session::{Conn, Session};
use super::{Layout, SinkError};

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
        let before = self.applied().await?;
        self.unlimited(|conn| {
            Box::pin(async move {
                let address = conn.address();
                let outcome = migrator().run_direct(None, &mut conn.mysql, false).await;
                outcome.map_err(|error| SinkError::Schema(format!("migrating MySQL at {address} failed: {error}")))
            })
        })
        .await?;
        Ok(migrator().iter().filter(|m| !before.contains(&m.version)).map(|m| m.description.to_string()).collect())
    }

    /// Fails with [`SinkError::Schema`] unless every migration of this version is applied, and answers the layout of
    /// the tables. A newer schema is accepted: migrations only add.
    pub async fn require_schema(&mut self) -> Result<Layout, SinkError> {
        let applied = self.applied().await?;
        let missing = migrator().iter().filter(|m| !applied.contains(&m.version)).count();
        if missing > 0 {
            return Err(SinkError::Schema(format!(
                "the schema is not current: {missing} of {} migrations are missing; run `tallyd migrate`",
                migrator().iter().count()
            )));
        }
        self.with(|conn| Box::pin(async move { conn.layout() })).await
    }

    async fn applied(&mut self) -> Result<BTreeSet<i64>, SinkError> {
        self.with(|conn| Box::pin(async move { conn.applied().await })).await
    }
}

impl Conn {
    pub(super) fn layout(&self) -> Result<Layout, SinkError> {
        self.layout.ok_or_else(|| {
            SinkError::Schema(
                "interaction_record or interaction_count is missing, or has no unique key on the columns that tell a \
                 row: run `tallyd migrate`, or add the key"
                    .to_owned(),
            )
        })
    }

    async fn applied(&mut self) -> Result<BTreeSet<i64>, SinkError> {
        let failed = self.failed();
        let exists = "/* tallyd schema */ SELECT COUNT(*) FROM information_schema.tables \
                      WHERE table_schema = DATABASE() AND table_name = '_sqlx_migrations'";
        let exists: i64 = self.mysql.fetch_one(exists).await.and_then(|row| row.try_get(0)).map_err(&failed)?;
        if exists == 0 {
            return Ok(BTreeSet::new());
        }
        let rows = self.mysql.fetch_all("/* tallyd schema */ SELECT version FROM _sqlx_migrations WHERE success").await;
        rows.map_err(&failed)?.iter().map(|row| row.try_get(0).map_err(&failed)).collect()
    }
}
