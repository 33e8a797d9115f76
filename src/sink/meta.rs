//! Values that all processes share, by name: `tallyd_meta`.

use sqlx::{Executor, Row};

use super::SinkError;
use super::session::Session;

impl Session {
    /// The value kept under `name`.
    pub async fn meta(&mut self, name: &'static str) -> Result<Option<String>, SinkError> {
        let select = "/* tallyd meta */ SELECT value FROM tallyd_meta WHERE name = ?";
        self.with(move |conn| {
            Box::pin(async move {
                let row = conn.mysql.fetch_optional(sqlx::query(select).bind(name)).await;
                row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(conn.failed())
            })
        })
        .await
    }

    /// Keeps `value` under `name`, unless there is one already; answers the one that is kept.
    pub async fn keep_meta(&mut self, name: &'static str, value: String) -> Result<String, SinkError> {
        let insert = "/* tallyd meta */ INSERT IGNORE INTO tallyd_meta (name, value) VALUES (?, ?)";
        let ours = value.clone();
        self.with(move |conn| {
            Box::pin(async move {
                let kept = conn.mysql.execute(sqlx::query(insert).bind(name).bind(ours)).await;
                kept.map(|_| ()).map_err(conn.failed())
            })
        })
        .await?;
        Ok(self.meta(name).await?.unwrap_or(value))
    }

    /// Keeps `value` under `name`, whatever is there.
    pub async fn set_meta(&mut self, name: &'static str, value: String) -> Result<(), SinkError> {
        let insert = "/* tallyd meta */ INSERT INTO tallyd_meta (name, value) VALUES (?, ?) \
             ON DUPLICATE KEY UPDATE value = VALUES(value)";
        self.with(move |conn| {
            Box::pin(async move {
                let kept = conn.mysql.execute(sqlx::query(insert).bind(name).bind(value)).await;
                kept.map(|_| ()).map_err(conn.failed())
            })
        })
        .await
    }

    /// Adds to the number kept under `name`.
    pub async fn add_meta(&mut self, name: &'static str, more: u64) -> Result<(), SinkError> {
        let add = "/* tallyd meta */ INSERT INTO tallyd_meta (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE \
             value = CAST(value AS UNSIGNED) + CAST(VALUES(value) AS UNSIGNED)";
        self.with(move |conn| {
            Box::pin(async move {
                let kept = conn.mysql.execute(sqlx::query(add).bind(name).bind(more.to_string())).await;
                kept.map(|_| ()).map_err(conn.failed())
            })
        })
        .await
    }

    /// Keeps nothing under `name`.
    pub async fn forget_meta(&mut self, name: &'static str) -> Result<(), SinkError> {
        let delete = "/* tallyd meta */ DELETE FROM tallyd_meta WHERE name = ?";
        self.with(move |conn| {
            Box::pin(async move {
                let gone = conn.mysql.execute(sqlx::query(delete).bind(name)).await;
                gone.map(|_| ()).map_err(conn.failed())
            })
        })
        .await
    }
}
