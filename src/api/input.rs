//! What bodies hold.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A string or a number, as it was spelled: a number that went through a float would have lost digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spelled<'b>(pub(super) Cow<'b, str>);

impl<'de: 'b, 'b> Deserialize<'de> for Spelled<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        match text.as_bytes() {
            [b'"', .., b'"'] if !text.contains('\\') => Ok(Self(Cow::Borrowed(&text[1..text.len() - 1]))),
            [b'"', ..] => Ok(Self(Cow::Owned(serde_json::from_str(text).map_err(D::Error::custom)?))),
            [b'-' | b'0'..=b'9', ..] => Ok(Self(Cow::Borrowed(text))),
            _ => Err(D::Error::custom("invalid type: expected a string or an integer")),
        }
    }
}

/// For a field that may be absent, but not `null`.
pub(super) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_is_kept_and_other_types_are_refused() {
        let spelled = |json: &'static str| serde_json::from_slice::<Spelled>(json.as_bytes()).map(|spelled| spelled.0);
        for (json, text) in [
            ("9007199254740993", "9007199254740993"),
            ("9223372036854775808", "9223372036854775808"),
            ("\"9223372036854775807\"", "9223372036854775807"),
            ("\"\\u0034\\u0032\"", "42"),
            ("1.5", "1.5"),
            ("1e400", "1e400"),
            ("-1", "-1"),
            (" 7 ", "7"),
            ("\"\"", ""),
        ] {
            assert_eq!(spelled(json).unwrap(), text, "{json}");
        }
        for json in ["null", "true", "[1]", "{}", "01", "\"\\ud800\"", "\"", "+1"] {
            assert!(spelled(json).is_err(), "{json}");
        }
    }
}
