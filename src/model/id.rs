//! Ids of users and targets.

use std::fmt;
use std::str::FromStr;

/// A 64-bit id, `1 ..= 9223372036854775807`.
///
/// It prints and parses as plain decimal digits: no sign, no leading zero, so that an id has exactly one spelling
/// in a Redis key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(i64);

/// Why a text is not an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an id is a whole number from 1 to 9223372036854775807, without sign or leading zeros")]
pub struct InvalidId;

impl Id {
    /// The least there is.
    pub const MIN: Self = Self(1);

    /// The id as MySQL's signed `BIGINT` holds it.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Id {
    type Error = InvalidId;

    fn try_from(value: i64) -> Result<Self, InvalidId> {
        if value >= 1 { Ok(Self(value)) } else { Err(InvalidId) }
    }
}

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        let value = text.parse::<i64>().map_err(|_| InvalidId)?;
        if digits { Self::try_from(value) } else { Err(InvalidId) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_digit_and_refuses_what_is_not_an_id() {
        for good in ["1", "9007199254740993", "9223372036854775807"] {
            assert_eq!(good.parse::<Id>().unwrap().to_string(), good);
        }
        for bad in ["", "0", "-1", "+1", "01", "9223372036854775808", "1.0", "１", " 1", "1e3"] {
            assert_eq!(bad.parse::<Id>(), Err(InvalidId), "{bad:?}");
        }
    }
}
