//! Drift: a disagreement that is not merely work in flight.

use crate::model::Id;

/// What differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The Redis count is another than its states, or rows, say.
    RedisCountOff,
    /// It is below zero.
    RedisCountNegative,
    /// The count row is another than the record rows say.
    CountRowOff,
    /// There is none, although Redis holds the target.
    CountRowMissing,
    /// A record row has another status than the state.
    RecordRowOff,
    /// An active state has no record row.
    RecordRowMissing,
    /// A complete hash lacks a field that has an active row.
    StateMissing,
    /// There is a count, and no hash to go with it.
    HashMissing,
    /// A state differs from its row, and nothing marks it: each side agrees with itself.
    MarkLost,
    /// Record rows of a target that has no count row.
    OrphanRow,
    /// A key, field or value in Redis that is not what the protocol makes it: told, never touched.
    Unreadable,
    /// Active rows whose users are no ids, so that Redis cannot hold them: told, never touched.
    RowWithoutUser,
    /// Rows of a target type or an interaction that is not configured: reported, never touched.
    Unconfigured,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::RedisCountOff,
        Self::RedisCountNegative,
        Self::CountRowOff,
        Self::CountRowMissing,
        Self::RecordRowOff,
        Self::RecordRowMissing,
        Self::StateMissing,
        Self::HashMissing,
        Self::MarkLost,
        Self::OrphanRow,
        Self::Unreadable,
        Self::RowWithoutUser,
        Self::Unconfigured,
    ];

    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RedisCountOff => "redis_count_off",
            Self::RedisCountNegative => "redis_count_negative",
            Self::CountRowOff => "count_row_off",
            Self::CountRowMissing => "count_row_missing",
            Self::RecordRowOff => "record_row_off",
            Self::RecordRowMissing => "record_row_missing",
            Self::StateMissing => "state_missing",
            Self::HashMissing => "hash_missing",
            Self::MarkLost => "mark_lost",
            Self::OrphanRow => "orphan_row",
            Self::Unreadable => "unreadable",
            Self::RowWithoutUser => "row_without_user",
            Self::Unconfigured => "unconfigured",
        }
    }

    /// The probable cause.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            Self::RedisCountOff => "another program wrote the count",
            Self::RedisCountNegative => "another program lowered the count",
            Self::CountRowOff => "another program changed the count row",
            Self::CountRowMissing => "the count row was deleted",
            Self::RecordRowOff => "another program changed the record row",
            Self::RecordRowMissing => "the record row was deleted",
            Self::StateMissing => "the field was deleted from its hash",
            Self::HashMissing => "the hash was evicted or deleted",
            Self::MarkLost => "the mark was lost before a run took it",
            Self::OrphanRow => "record rows were written without a count row",
            Self::Unreadable => "another program wrote what is no state or count",
            Self::RowWithoutUser => "another program wrote rows of user 0 or below",
            Self::Unconfigured => "the code is not configured",
        }
    }

    /// Where it is repaired.
    #[must_use]
    pub fn side(self) -> &'static str {
        match self {
            Self::RedisCountOff
            | Self::RedisCountNegative
            | Self::StateMissing
            | Self::HashMissing
            | Self::Unreadable => "redis",
            Self::CountRowOff
            | Self::CountRowMissing
            | Self::RecordRowOff
            | Self::RecordRowMissing
            | Self::MarkLost
            | Self::OrphanRow
            | Self::RowWithoutUser
            | Self::Unconfigured => "mysql",
        }
    }

    /// Whether it is told and never touched.
    #[must_use]
    pub fn is_only_told(self) -> bool {
        matches!(self, Self::Unreadable | Self::RowWithoutUser | Self::Unconfigured)
    }
}

/// One drift of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Code of the interaction.
    pub interaction: u16,
    /// The user; `None` where a count is concerned.
    pub user: Option<Id>,
    /// What differs.
    pub kind: Kind,
    /// What is there; `None` for nothing.
    pub before: Option<String>,
    /// What is right; `None` where it is to go, or is not known.
    pub after: Option<String>,
    /// The latest event time that the row may stand for, Unix ms; 0 without one.
    pub row_ms: i64,
    /// The count row, where the rows of a target cannot be counted and it is right although a record row is not: it stays.
    pub kept_count: Option<i64>,
}

impl Finding {
    pub(super) fn unreadable(interaction: u16) -> Self {
        Self { interaction, user: None, kind: Kind::Unreadable, before: None, after: None, row_ms: 0, kept_count: None }
    }

    /// How far off it is: above zero when there is too much.
    #[must_use]
    pub fn distance(&self) -> i64 {
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
        match (number(&self.before), number(&self.after)) {
            (Some(before), Some(after)) => before.saturating_sub(after),
            (None, Some(after)) => after.saturating_neg(),
            (Some(_) | None, None) => 0,
        }
    }

    /// Whether it is left alone. Where the rows of a target cannot be found, no hash is believed that a count row is too high: a
    /// field that was lost would lower it.
    #[must_use]
    pub fn is_left(&self, by_target: bool) -> bool {
        let lowers = self.user.is_none() && self.kind.side() == "mysql" && self.distance() > 0;
        self.kind.is_only_told() || (!by_target && lowers)
    }

    /// Whether it concerns the same place as another.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        (self.interaction, self.user, self.kind.side()) == (other.interaction, other.user, other.kind.side())
    }
}
