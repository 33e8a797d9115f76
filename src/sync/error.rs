//! Why the work on a partition ended early.

use crate::sink::SinkError;
use crate::store::StoreError;

/// An early end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Redis.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// MySQL.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The process is asked to stop.
    #[error("stopped on request")]
    Stopped,
    /// Something is in flight that this run has read and not acked.
    #[error("{targets} targets and {changes} changes are still in flight after everything was read; see sync_rejected")]
    Stuck {
        /// Targets in flight.
        targets: u64,
        /// Changes in flight.
        changes: u64,
    },
}
