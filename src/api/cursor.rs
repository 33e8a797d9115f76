//! Cursors: positions in a list of what a user acted on.
//!
//! Base64url of 17 bytes: the target's id less one, its type, and the time in microseconds since 1970 as 56 bits. In
//! this form (almost) every text that matches the documented pattern is a position, so that the pattern is all there is
//! to know.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;

use crate::live::UserTarget;
use crate::model::Id;

const ID: usize = 8;
const TYPE: usize = 2;
const TIME: usize = 7;

/// The position after a target.
pub(super) fn write(target: &UserTarget) -> String {
    let micros = target.at.timestamp_micros().clamp(0, (1 << (8 * TIME)) - 1);
    let mut bytes = Vec::with_capacity(ID + TYPE + TIME);
    bytes.extend((target.target.get() - 1).to_be_bytes());
    bytes.extend(target.target_type.to_be_bytes());
    bytes.extend(&micros.to_be_bytes()[8 - TIME..]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What [`write`] wrote; `None` of any other text.
pub(super) fn read(text: &str) -> Option<UserTarget> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (id, rest) = bytes.split_first_chunk::<ID>()?;
    let (target_type, rest) = rest.split_first_chunk::<TYPE>()?;
    let time: [u8; TIME] = rest.try_into().ok()?;
    let mut micros = [0; 8];
    micros[8 - TIME..].copy_from_slice(&time);
    Some(UserTarget {
        target: Id::try_from(i64::from_be_bytes(*id).checked_add(1)?).ok()?,
        target_type: u16::from_be_bytes(*target_type),
        at: DateTime::from_timestamp_micros(i64::from_be_bytes(micros))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_the_way_there_and_back() {
        for (target, target_type, at) in [
            ("1", 1, "1970-01-01T00:00:00Z"),
            ("9223372036854775807", 65_535, "2026-03-01T12:00:00.123456Z"),
            ("9007199254740993", 2, "4253-05-31T22:20:37.927935Z"),
        ] {
            let target = UserTarget { target_type, target: target.parse().unwrap(), at: at.parse().unwrap() };
            let text = write(&target);
            assert_eq!((text.len(), read(&text)), (23, Some(target)), "{text}");
        }
    }

    #[test]
    fn what_matches_the_pattern_is_a_position_and_nothing_else_is() {
        for good in ["AAAAAAAAAAAAAAAAAAAAAAA", "f9999999999999999999998", "B_-_-_-_-_-_-_-_-_-_-_A"] {
            assert!(read(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "x",
            "AAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAA",
            "gAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAB",
            "AAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAA+AAAAAAAAAAA",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
