//! What a sync carries from one store to the other.

use super::Id;

/// One entry of the change hash: whose state of what changed, and when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Change {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// The user, or `None` for a counter.
    pub user: Option<Id>,
    /// Event time, Unix milliseconds.
    pub at_ms: i64,
}
