//! Why a partition is left.

use crate::sink::SinkError;
use crate::store::StoreError;
use crate::sync::RunError;

/// Why the work on a partition ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Left {
    /// Another owner holds the lease for longer than is waited.
    #[error("the lease is held by {0}")]
    Busy(String),
    /// Redis has lost something that MySQL holds, or MySQL something that Redis knows of: a run sees to that first.
    #[error("{0}; a run sees to that first")]
    Lost(String),
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] RunError),
}

impl From<StoreError> for Left {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<SinkError> for Left {
    fn from(error: SinkError) -> Self {
        Self::Failed(error.into())
    }
}
