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
    /// Redis answers, and does nothing: it is out of memory, cannot save, is a replica, is loading its data, or its
    /// cluster is down. It counts as down.
    #[error("Redis at {address} does not do {what} now: {cause}")]
    Unwilling {
        /// Host and port, or the socket's path.
        address: String,
        /// What was tried.
        what: &'static str,
        /// The server's words.
        cause: String,
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

/// What a server says that answers but cannot be used now, however right the command is.
const UNWILLING: [&str; 9] =
    ["OOM", "MISCONF", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "BUSY"];

impl StoreError {
    /// Whether Redis is down, or as good as.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Unwilling { .. })
    }

    /// Whether these are the words of a server that cannot be used now, such as `OOM command not allowed …`.
    pub(super) fn is_unwilling(words: &str) -> bool {
        words.split([' ', ':']).next().is_some_and(|code| UNWILLING.contains(&code))
    }

    pub(super) fn of(address: &str, what: &'static str, error: &RedisError) -> Self {
        let cause = error.to_string();
        if error.code() == Some("FENCED") {
            return Self::Fenced { found: error.detail().unwrap_or("unreadable").to_owned() };
        }
        let connection = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
        let address = address.to_owned();
        if connection {
            Self::Unreachable { address, cause }
        } else if error.code().is_some_and(Self::is_unwilling) {
            Self::Unwilling { address, what, cause }
        } else {
            Self::Refused { address, what, cause }
        }
    }
}
