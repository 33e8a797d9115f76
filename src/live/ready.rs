//! Whether writes can be accepted: what `/readyz` says, and what the service manager waits for.

use std::time::Duration;

use super::{Live, LiveError};
use crate::sink::SinkError;

/// How long the schema is waited for.
const PATIENCE: Duration = Duration::from_millis(800);

/// Who takes writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// Redis.
    Redis,
    /// MySQL in its place.
    Mysql,
}

impl Live {
    /// Who takes writes now. The reasons if nobody does: both servers are down, or the schema is old.
    pub async fn readiness(&self) -> Result<Ready, String> {
        let (redis, mysql) = tokio::join!(self.redis_takes_writes(), self.schema());
        match (redis, mysql) {
            (_, Mysql::Old(reason)) => Err(reason),
            (Err(redis), Mysql::Down(mysql)) => Err(format!("{redis}; {mysql}")),
            (Err(_), Mysql::Current) => Ok(Ready::Mysql),
            (Ok(()), _) => Ok(Ready::Redis),
        }
    }

    async fn redis_takes_writes(&self) -> Result<(), String> {
        let (number, store) = self.redis.link.store().await?;
        store.try_write().await.map_err(|error| LiveError::from(self.redis.failed(number, &error)).to_string())
    }

    async fn schema(&self) -> Mysql {
        let look = async {
            let mut session = self.context.sink.session();
            let found = session.require_schema().await;
            session.close().await;
            found
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(Ok(_)) => Mysql::Current,
            Ok(Err(error @ SinkError::Schema { .. })) => Mysql::Old(error.to_string()),
            Ok(Err(error)) => Mysql::Down(error.to_string()),
            Err(_) => Mysql::Down(format!("MySQL did not answer within {} ms", PATIENCE.as_millis())),
        }
    }
}

enum Mysql {
    Current,
    Old(String),
    Down(String),
}
