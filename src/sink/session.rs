//! Connections: made when needed, trusted only after a success.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Connection, Executor, Row};

use super::SinkError;
use super::layout::{Layout, RowKey};
use super::lease::LEASE_SECONDS;
use crate::config::{MysqlConfig, SslMode};

/// Locks are waited for this long, so that error 1205 comes before any time limit of ours and can be tried again.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A session that is silent for so long is ended by the server: a process that stands still, or that the network has
/// cut off, must not keep the row locks of its transaction for the hours that are the server's default. Its lease
/// has run out by then, and who takes the partition over tries each chunk again for longer than the rest.
const SILENCE: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 5);

/// A connection that was silent for so long is not used again: the server may have ended it, or be about to.
const STALE: Duration = Duration::from_secs(LEASE_SECONDS as u64);

/// How to reach MySQL. Clones share it; no connection is made before one is needed.
#[derive(Clone)]
pub struct Sink {
    options: Arc<MySqlConnectOptions>,
    address: Arc<str>,
    timeout: Duration,
    batch_rows: Arc<AtomicUsize>,
}

/// A connection of one's own.
///
/// It is kept only after work that the server has answered: dropping a query in the middle leaves a connection
/// out of step (sqlx issues 563, 2711), so after a time limit or a lost answer it is closed instead.
pub struct Session {
    sink: Sink,
    /// With when it was used last.
    connection: Option<(Conn, Instant)>,
}

/// A connection, and what was asked of the server when it was made.
pub(super) struct Conn {
    pub(super) mysql: MySqlConnection,
    /// `max_allowed_packet`, bytes.
    pub(super) max_packet: usize,
    pub(super) batch_rows: usize,
    /// The keys that are missing if it has none.
    pub(super) layout: Result<Layout, Vec<RowKey>>,
    /// Digits after the seconds in `interaction_record.update_time`, if the table is there.
    pub(super) time_digits: Option<i64>,
    address: Arc<str>,
}

impl Conn {
    pub(super) fn address(&self) -> Arc<str> {
        self.address.clone()
    }

    /// Turns a library error into ours.
    pub(super) fn failed(&self) -> impl Fn(sqlx::Error) -> SinkError + use<> {
        let address = self.address.clone();
        move |error| SinkError::of(&address, &error)
    }
}

impl Sink {
    /// Reads the configuration; `batch_rows` is the largest number of rows in one statement.
    #[must_use]
    pub fn new(config: &MysqlConfig, batch_rows: usize) -> Self {
        let mut options = MySqlConnectOptions::new()
            .host(&config.host)
            .port(config.port)
            .username(&config.user)
            .database(&config.database)
            .ssl_mode(match config.ssl_mode {
                SslMode::Disabled => MySqlSslMode::Disabled,
                SslMode::Preferred => MySqlSslMode::Preferred,
                SslMode::Required => MySqlSslMode::Required,
                SslMode::VerifyCa => MySqlSslMode::VerifyCa,
                SslMode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
            })
            .disable_statement_logging();
        if let Some(path) = &config.socket {
            options = options.socket(path);
        }
        if let Some(password) = &config.password {
            options = options.password(password.expose());
        }
        if let Some(path) = &config.ca_file {
            options = options.ssl_ca(path);
        }
        Self {
            options: Arc::new(options),
            address: config.address().into(),
            timeout: config.timeout,
            batch_rows: Arc::new(AtomicUsize::new(batch_rows.max(1))),
        }
    }

    /// The largest number of rows in one statement, for connections that are made from now on.
    pub fn set_batch_rows(&self, batch_rows: usize) {
        self.batch_rows.store(batch_rows.max(1), Ordering::Relaxed);
    }

    /// A session; it connects when it is first used.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { sink: self.clone(), connection: None }
    }

    async fn connect(&self) -> Result<Conn, SinkError> {
        let failed = |error: sqlx::Error| SinkError::of(&self.address, &error);
        let mut mysql = self.within(self.options.connect()).await?.map_err(failed)?;
        let set_up = async {
            // Every statement sees what is committed by then, no gap is locked, and a value that does not fit is
            // refused instead of bent.
            let text = format!(
                "/* tallyd connect */ SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
                 SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), innodb_lock_wait_timeout = {}, \
                 wait_timeout = {}",
                LOCK_WAIT.as_secs(),
                SILENCE.as_secs()
            );
            mysql.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await?;
            let packet = sqlx::query("/* tallyd connect */ SELECT CAST(@@max_allowed_packet AS SIGNED)");
            let packet: i64 = mysql.fetch_one(packet).await?.try_get(0)?;
            let layout = Layout::of(&mut mysql).await?;
            let digits = "/* tallyd connect */ SELECT CAST(datetime_precision AS SIGNED) FROM information_schema.columns \
                 WHERE table_schema = DATABASE() AND table_name = 'interaction_record' AND column_name = 'update_time'";
            let digits = mysql.fetch_optional(digits).await?.map(|row| row.try_get(0)).transpose()?;
            Ok((packet, layout, digits))
        };
        let (packet, layout, time_digits) = self.within(set_up).await?.map_err(failed)?;
        let max_packet = usize::try_from(packet).unwrap_or(usize::MAX);
        let batch_rows = self.batch_rows.load(Ordering::Relaxed);
        Ok(Conn { mysql, max_packet, batch_rows, layout, time_digits, address: self.address.clone() })
    }

    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, SinkError> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| SinkError::Unreachable {
            address: self.address.to_string(),
            cause: format!("no answer within {} ms (mysql.timeout_ms)", self.timeout.as_millis()),
        })
    }
}

impl Session {
    /// Does `work` on this session's connection, within `mysql.timeout_ms`. After an error nothing of it stays: an
    /// open transaction is rolled back, or its connection closed.
    pub(super) async fn with<T: Send>(
        &mut self,
        work: impl for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, SinkError>> + Send,
    ) -> Result<T, SinkError> {
        let mut conn = match self.connection.take() {
            Some((conn, used)) if used.elapsed() < STALE => conn,
            Some(_) | None => self.sink.connect().await?,
        };
        let outcome = self.sink.within(work(&mut conn)).await.flatten();
        match &outcome {
            Ok(_) => self.connection = Some((conn, Instant::now())),
            Err(error) if error.was_answered() => {
                let rollback = conn.mysql.execute("/* tallyd rollback */ ROLLBACK");
                if let Ok(Ok(_)) = self.sink.within(rollback).await {
                    self.connection = Some((conn, Instant::now()));
                }
            }
            Err(_) => drop(conn),
        }
        outcome
    }

    /// As [`Session::with`], without the time limit.
    pub(super) async fn unlimited<T: Send>(
        &mut self,
        work: impl for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, SinkError>> + Send,
    ) -> Result<T, SinkError> {
        let patient = Sink { timeout: Duration::from_secs(u64::from(u32::MAX)), ..self.sink.clone() };
        let sink = std::mem::replace(&mut self.sink, patient);
        let outcome = self.with(work).await;
        self.sink = sink;
        outcome
    }

    /// Ends the session politely.
    pub async fn close(mut self) {
        if let Some((conn, _)) = self.connection.take() {
            // The server ends it by itself when the farewell does not arrive.
            let _farewell = self.sink.within(conn.mysql.close()).await;
        }
    }
}
