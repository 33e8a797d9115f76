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
    /// Redis has lost something that MySQL holds: a run sees to that first.
    #[error("{0}; a run sees to that first")]
    Lost(String),
    /// MySQL has lost something that Redis knows of: a person must see to that.
    #[error(
        "MySQL has lost writes that Redis knows of: Redis holds checkpoint {found}, MySQL gave out lease {token} only now. Was it \
         restored from a backup? See \"MySQL was restored\" in the README"
    )]
    Older { found: String, token: u64 },
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] RunError),
}

impl Left {
    /// Whether a server is away, so that there is no use in going on.
    pub(super) fn is_away(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        matches!(error, RunError::Sink(SinkError::Unreachable { .. }) | RunError::Store(StoreError::Unreachable { .. }))
    }
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
