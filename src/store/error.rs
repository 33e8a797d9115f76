//! What can go wrong on the side of Redis.

use redis::RedisError;

/// An error of the live store. The caller branches on it: a fenced holder stops, anything else fails the run.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection, or it broke, or the answer did not come in time.
    #[error("Redis at {address} cannot be reached: {cause}")]
    Unreachable {
        /// Host and port, or the socket's path.
        address: String,
        /// The library's words.
        cause: String,
    },
    /// The checkpoint is not what this holder last set: another owner is at work, or Redis lost writes.
    #[error(
        "the checkpoint in Redis is {found}, not what this run last set: another owner took over, or Redis lost writes"
    )]
    Fenced {
        /// What `ckpt` holds now.
        found: String,
    },
    /// Redis refused a command, or a key has another type than the protocol gives it.
    #[error("Redis at {address} refused {what}: {cause}")]
    Refused {
        /// Host and port, or the socket's path.
        address: String,
        /// What was tried.
        what: &'static str,
        /// The server's words.
        cause: String,
    },
}

impl StoreError {
    pub(super) fn of(address: &str, what: &'static str, error: &RedisError) -> Self {
        let cause = error.to_string();
        if error.code() == Some("FENCED") {
            return Self::Fenced { found: error.detail().unwrap_or("unreadable").to_owned() };
        }
        let connection = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
        let address = address.to_owned();
        if connection { Self::Unreachable { address, cause } } else { Self::Refused { address, what, cause } }
    }
}
