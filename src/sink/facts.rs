//! What MySQL says of itself and of the partitions.

use std::collections::HashMap;

use sqlx::{Executor, Row};

use super::SinkError;
use super::layout::Layout;
use super::session::Session;
use crate::model::Partition;

/// A row of `sync_partition`, as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionRow {
    /// The partition.
    pub partition: Partition,
    /// `<lease token>.<step>`
    pub checkpoint: String,
    /// The owner of a lease that has not run out.
    pub lease_owner: Option<String>,
    /// The greatest event time committed, Unix milliseconds; 0 before the first.
    pub last_event_ms: i64,
}

/// What the server says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFacts {
    /// `VERSION()`.
    pub version: String,
    /// `max_allowed_packet`, bytes.
    pub max_packet: i64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Its time, Unix milliseconds.
    pub now_ms: i64,
    /// The TLS cipher of this connection, empty without.
    pub cipher: String,
    /// `binlog_format` when the binary log is on, else empty.
    pub binlog_format: String,
    /// `innodb_flush_log_at_trx_commit`: 1 when a commit is on disk before it is answered.
    pub flush_log: Option<i64>,
    /// `sync_binlog` when the binary log is on: 1 when that is on disk before a commit is answered.
    pub sync_binlog: Option<i64>,
    /// `max_connections`.
    pub max_connections: Option<i64>,
    /// `max_user_connections` of this user; 0 without a limit.
    pub max_user_connections: Option<i64>,
    /// Digits after the seconds in `interaction_record.update_time`, if the table is there.
    pub time_digits: Option<i64>,
    /// The layout, unless a table or its unique key is missing.
    pub layout: Option<Layout>,
}

impl Session {
    /// Every partition that ever had an owner.
    pub async fn partitions(&mut self) -> Result<Vec<PartitionRow>, SinkError> {
        let select = "/* tallyd status */ SELECT target_type, shard, checkpoint, \
             IF(lease_until > UTC_TIMESTAMP(3), lease_owner, NULL), last_event_ms FROM sync_partition ORDER BY target_type, shard";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(select).await.map_err(&failed)?;
                let read = |row: &sqlx::mysql::MySqlRow| -> Result<PartitionRow, sqlx::Error> {
                    let partition = Partition { target_type: row.try_get(0)?, shard: row.try_get(1)? };
                    Ok(PartitionRow {
                        partition,
                        checkpoint: row.try_get(2)?,
                        lease_owner: row.try_get(3)?,
                        last_event_ms: row.try_get(4)?,
                    })
                };
                rows.iter().map(|row| read(row).map_err(&failed)).collect()
            })
        })
        .await
    }

    /// How many degraded writes are not replayed yet, and how many are. The latter is kept in `tallyd_meta`, moved in
    /// the transaction that takes them out of the journal.
    pub async fn journal_balance(&mut self) -> Result<(u64, u64), SinkError> {
        let select = "/* tallyd status */ SELECT CAST((SELECT COUNT(*) FROM degraded_write) AS UNSIGNED), \
             CAST(COALESCE((SELECT value FROM tallyd_meta WHERE name = 'degraded.replayed_total'), 0) AS UNSIGNED)";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_one(select).await;
                row.and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?))).map_err(failed)
            })
        })
        .await
    }

    /// `VERSION()`, and whether the server is read-only.
    pub async fn version(&mut self) -> Result<(String, bool), SinkError> {
        let select = "/* tallyd status */ SELECT VERSION(), CAST(@@global.read_only AS SIGNED)";
        self.with(move |conn| {
            Box::pin(async move {
                let row = conn.mysql.fetch_one(select).await;
                let read = row.and_then(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? != 0)));
                read.map_err(conn.failed())
            })
        })
        .await
    }

    /// What the server says of itself.
    pub async fn server_facts(&mut self) -> Result<ServerFacts, SinkError> {
        let select = "/* tallyd check */ SELECT VERSION(), CAST(@@max_allowed_packet AS SIGNED), \
             CAST(@@global.read_only AS SIGNED), \
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";
        let variables = "/* tallyd check */ SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', \
             'innodb_flush_log_at_trx_commit', 'sync_binlog', 'max_connections', 'max_user_connections')";
        let cipher = "/* tallyd check */ SHOW SESSION STATUS LIKE 'Ssl_cipher'";
        self.with(move |conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let row = conn.mysql.fetch_one(select).await.map_err(&failed)?;
                let cipher = conn.mysql.fetch_optional(cipher).await.map_err(&failed)?;
                let variables = conn.mysql.fetch_all(variables).await.map_err(&failed)?;
                let (layout, time_digits) = (conn.layout.clone().ok(), conn.time_digits);
                let read = || -> Result<ServerFacts, sqlx::Error> {
                    let variables = variables.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
                    let mut variables: HashMap<String, String> = variables.collect::<Result<_, sqlx::Error>>()?;
                    let binlog_on = variables.get("log_bin").is_some_and(|value| value == "ON");
                    let binlog_format = variables.remove("binlog_format").filter(|_| binlog_on).unwrap_or_default();
                    let number = |name| variables.get(name).and_then(|value| value.parse().ok());
                    Ok(ServerFacts {
                        version: row.try_get(0)?,
                        max_packet: row.try_get(1)?,
                        read_only: row.try_get::<i64, _>(2)? != 0,
                        now_ms: row.try_get(3)?,
                        cipher: cipher.map(|row| row.try_get(1)).transpose()?.unwrap_or_default(),
                        binlog_format,
                        flush_log: number("innodb_flush_log_at_trx_commit"),
                        sync_binlog: number("sync_binlog").filter(|_| binlog_on),
                        max_connections: number("max_connections"),
                        max_user_connections: number("max_user_connections"),
                        time_digits,
                        layout,
                    })
                };
                read().map_err(failed)
            })
        })
        .await
    }
}
