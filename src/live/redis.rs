//! The way to Redis: the connection, how long it is waited for, and the breaker that is told how it went.

use std::sync::Arc;
use std::time::Duration;

use super::breaker::Breaker;
use super::link::Link;
use super::{LiveError, Silent};
use crate::store::{EventClock, Store, StoreError};
use crate::sync::Context;

/// What everybody who calls Redis needs. Clones share it.
#[derive(Clone)]
pub(super) struct Redis {
    pub(super) context: Arc<Context>,
    pub(super) link: Link,
    pub(super) breaker: Breaker,
    pub(super) clock: Arc<EventClock>,
}

impl Redis {
    /// How long a request may wait for an answer.
    pub(super) fn patience(&self) -> Duration {
        self.context.config.redis.timeout
    }

    /// The connection and its number; one that cannot be had is a failed call.
    pub(super) async fn store(&self) -> Result<(u64, Store), Silent> {
        self.link.store().await.map_err(|error| {
            self.breaker.note(1, true);
            Silent::Away(error)
        })
    }

    /// Waits for a call on the connection of this number, no longer than a request may wait.
    pub(super) async fn answered<T>(
        &self,
        number: u64,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Silent> {
        let limit = self.patience();
        match tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(self.late())) {
            Ok(answer) => {
                self.breaker.note(1, false);
                Ok(answer)
            }
            Err(error) => Err(self.failed(number, &error)),
        }
    }

    /// That there was no answer.
    pub(super) fn late(&self) -> StoreError {
        let address = self.context.config.redis.url_redacted.clone();
        StoreError::Unreachable { address, cause: format!("no answer within {} ms", self.patience().as_millis()) }
    }

    /// Turns an error of a call on the connection of this number into ours.
    pub(super) fn failed(&self, number: u64, error: &StoreError) -> Silent {
        self.link.report(number, error);
        self.breaker.note(1, error.is_away());
        let told = error.to_string();
        if error.is_away() { Silent::Away(told) } else { Silent::Refused(LiveError::unavailable(told)) }
    }
}
