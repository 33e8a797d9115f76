//! What a state hash says of its own completeness, and what that makes of its count.

use crate::model::CountValue;

/// What a state hash says of its own completeness, in field `0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Every user who ever acted is there.
    Full,
    /// Single users were loaded.
    Partial,
    /// It says nothing: another program's hash, or what is left of one.
    Unknown,
}

impl Kept {
    pub(super) fn of(field: Option<&[u8]>) -> Self {
        match field {
            Some(b"full") => Self::Full,
            Some(b"partial") => Self::Partial,
            _ => Self::Unknown,
        }
    }
}

/// What to do with a count row; `kept` is `None` for a counter. A count is copied only when it is known, not
/// negative, and its hash vouches for it.
pub(super) fn count_value(kept: Option<Kept>, count: Option<i64>) -> Option<CountValue> {
    match (kept, count) {
        (None, Some(count)) if count >= 0 => Some(CountValue::AtLeast(count)),
        (None, _) => None,
        (Some(Kept::Full | Kept::Partial), Some(count)) if count >= 0 => Some(CountValue::Known(count)),
        (Some(_), _) => Some(CountValue::Recompute),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_copied_only_when_known_not_negative_and_vouched_for() {
        for kept in [Kept::Full, Kept::Partial] {
            assert_eq!(count_value(Some(kept), Some(0)), Some(CountValue::Known(0)));
            assert_eq!(count_value(Some(kept), Some(-1)), Some(CountValue::Recompute));
            assert_eq!(count_value(Some(kept), None), Some(CountValue::Recompute));
        }
        assert_eq!(count_value(Some(Kept::Unknown), Some(7)), Some(CountValue::Recompute));
        assert_eq!(count_value(None, Some(7)), Some(CountValue::AtLeast(7)));
        assert_eq!(count_value(None, Some(-7)), None);
        assert_eq!(count_value(None, None), None);
    }
}
