//! What can go wrong on the side of MySQL.

/// An error of the durable mirror. The caller branches on it: some are tried again, some concern one row alone.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// No connection, or it broke, or the answer did not come in time.
    #[error("MySQL at {address} cannot be reached: {cause}")]
    Unreachable {
        /// Host, port and database, or the socket's path.
        address: String,
        /// The library's words.
        cause: String,
    },
    /// The server refused a statement.
    #[error("MySQL at {address} answered error {number}: {message}")]
    Refused {
        /// Host, port and database, or the socket's path.
        address: String,
        /// The server's error number.
        number: u16,
        /// The SQLSTATE.
        state: String,
        /// The server's words.
        message: String,
    },
    /// The rows could be locked only when nobody waited for the write any more: nothing was committed.
    #[error("MySQL at {address} did not give the rows in time, so that nothing was committed")]
    Late {
        /// Host, port and database, or the socket's path.
        address: String,
    },
    /// The lease has another owner by now: nothing was committed.
    #[error("the lease has another owner by now, so that nothing was committed")]
    LeaseLost,
    /// The schema is not what this version needs: nothing can be synced until it is mended.
    #[error("{problem}; {fix}")]
    Schema {
        /// What is wrong with it.
        problem: String,
        /// What mends it.
        fix: String,
    },
    /// What should not happen: a mistake of this program, or a value that only it writes.
    #[error("{0}")]
    Internal(String),
}

impl SinkError {
    pub(super) fn of(address: &str, error: &sqlx::Error) -> Self {
        let address = address.to_owned();
        let Some(error) = error.as_database_error() else {
            return Self::Unreachable { address, cause: cause_of(error) };
        };
        let number = error
            .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
            .map_or(0, sqlx::mysql::MySqlDatabaseError::number);
        let state = error.code().unwrap_or_default().into_owned();
        Self::Refused { address, number, state, message: error.message().to_owned() }
    }

    /// Whether the whole transaction may succeed when it is tried again soon.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            // 1213 deadlock, 1205 lock wait timeout, 1020 row changed since it was read, 1040 and 1203 too many
            // connections, 1053 shutdown, 1927 connection killed, 4031 idle connection closed.
            Self::Refused { number, .. } => matches!(number, 1020 | 1040 | 1053 | 1203 | 1205 | 1213 | 1927 | 4031),
            Self::Late { .. } | Self::LeaseLost | Self::Schema { .. } | Self::Internal(_) => false,
        }
    }

    /// Whether the server refused a row for what it holds, so that others may go through without it: SQLSTATE
    /// classes 22 (data), 23 (constraints), 44 (check option), 45 (signals of triggers), and numbers that come
    /// without a class of their own: 1265, 1366 (values), 1526 (no partition for the value).
    #[must_use]
    pub fn is_of_a_row(&self) -> bool {
        match self {
            Self::Refused { number, state, .. } => {
                let class = state.get(..2).unwrap_or_default();
                matches!(class, "22" | "23" | "44" | "45") || matches!(number, 1265 | 1366 | 1526)
            }
            _ => false,
        }
    }

    /// Whether the server itself answered, so that the connection is still in step.
    pub(super) fn was_answered(&self) -> bool {
        !matches!(self, Self::Unreachable { .. })
    }
}

fn cause_of(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(number: u16, state: &str) -> SinkError {
        SinkError::Refused { address: "db".into(), number, state: state.into(), message: String::new() }
    }

    #[test]
    fn a_deadlock_is_tried_again_a_bad_row_is_set_aside_and_neither_is_anything_else() {
        for number in [1213, 1205] {
            assert!(refused(number, "40001").is_transient());
            assert!(!refused(number, "40001").is_of_a_row());
        }
        for (number, state) in [(1264, "22003"), (1452, "23000"), (1644, "45000"), (4025, "23000"), (1366, "HY000")] {
            assert!(refused(number, state).is_of_a_row(), "{number}");
            assert!(!refused(number, state).is_transient(), "{number}");
        }
        // A missing table, a missing privilege, a full disk, read-only: no row is to blame.
        for (number, state) in [(1146, "42S02"), (1142, "42000"), (1021, "HY000"), (1290, "HY000")] {
            assert!(!refused(number, state).is_of_a_row() && !refused(number, state).is_transient(), "{number}");
        }
    }
}
