//! What a sync carries from one store to the other.

use std::fmt;

use super::{Checkpoint, Id};

/// One entry of the change hash: whose state of what changed, and when.
///
/// Its order is the key order of the record table within one target type.
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

/// A row for `interaction_record`, of the partition's target type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordRow {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// The user.
    pub user: Id,
    /// Whether the state is active (`status` 1) or cancelled (0).
    pub active: bool,
    /// Event time, Unix milliseconds; for a scanned state the Redis time before its page was read.
    pub at_ms: i64,
}

/// What becomes of a count row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountValue {
    /// Redis knows the count and its hash vouches for it.
    Known(i64),
    /// The count of a counter: it never falls.
    AtLeast(i64),
    /// Redis cannot be asked: count the record rows.
    Recompute,
}

/// A row for `interaction_count`, of the partition's target type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountRow {
    /// The target.
    pub target: Id,
    /// Code of the interaction.
    pub interaction: u16,
    /// The count, or how to get it.
    pub value: CountValue,
    /// The newest event time among the changes of this chunk, Unix milliseconds.
    pub at_ms: i64,
    /// Whether a known count holds nothing but what is committed with this chunk or was before: its target had no other
    /// change when it was read.
    pub settled: bool,
}

/// Why an entry is set aside instead of written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The state of a change is gone from its hash. Absence is never written.
    StateMissing,
    /// The state is neither `1` nor `0`, or its key is not a hash.
    BadState,
    /// The count of a counter is not a whole number from 0.
    BadCount,
    /// The event time is not a time that MySQL can hold.
    BadTime,
    /// The mark is not of the form that the protocol gives it.
    Malformed,
    /// The interaction is not configured.
    UnknownInteraction,
    /// MySQL refuses the row for itself.
    Refused,
}

impl Reason {
    /// The word in `sync_rejected.reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StateMissing => "state_missing",
            Self::BadState => "bad_state",
            Self::BadCount => "bad_count",
            Self::BadTime => "bad_time",
            Self::Malformed => "malformed",
            Self::UnknownInteraction => "unknown_interaction",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry that is set aside in `sync_rejected`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The mark as Redis held it: a field of `chg`, or a member of `dirty`.
    pub mark: String,
    /// Why.
    pub reason: Reason,
    /// What was found, for a person.
    pub detail: String,
}

/// Where the rows of a chunk come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The change hash: every row has an event time of its own.
    Changes,
    /// A full scan: rows are compared with MySQL first, and only those that differ are written.
    Scan,
}

/// What one transaction writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The step that was taken together with the reads.
    pub checkpoint: Checkpoint,
    /// Where `records` come from.
    pub source: Source,
    /// At most one row a key, in key order.
    pub records: Vec<RecordRow>,
    /// At most one row a key, in key order.
    pub counts: Vec<CountRow>,
    /// What is set aside.
    pub rejected: Vec<Rejected>,
}
