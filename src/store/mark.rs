//! Marks as Redis holds them: fields of the change hash and members of the dirty set.

use crate::model::{Change, Id, Reason, Rejected, Vocabulary};

/// The last millisecond that a MySQL `DATETIME` can hold.
const LATEST_MS: i64 = 253_402_300_799_999;

/// A mark that cannot be read: its bytes, and what is to be said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMark {
    /// As Redis holds it.
    pub raw: Vec<u8>,
    /// What is set aside.
    pub rejected: Rejected,
}

impl BadMark {
    pub(super) fn new(raw: &[u8], reason: Reason, detail: String) -> Self {
        let mark = String::from_utf8_lossy(raw).into_owned();
        Self { raw: raw.to_vec(), rejected: Rejected { mark, reason, detail } }
    }
}

/// The field of a change: `<interaction>:<target>:<user>`, user `0` for a counter.
pub(super) fn field(vocabulary: &Vocabulary, change: &Change) -> String {
    let name = vocabulary.interaction_code(change.interaction).map_or("", |i| &i.name);
    let user = change.user.map_or(0, Id::get);
    format!("{name}:{}:{user}", change.target)
}

/// Reads one field and value of the change hash.
pub(super) fn parse_change(vocabulary: &Vocabulary, raw: &[u8], value: &[u8]) -> Result<Change, BadMark> {
    let bad = |reason, detail: &str| Err(BadMark::new(raw, reason, detail.to_owned()));
    let parts = std::str::from_utf8(raw).ok().and_then(|text| {
        let (rest, user) = text.rsplit_once(':')?;
        let (name, target) = rest.rsplit_once(':')?;
        Some((name, target.parse::<Id>().ok()?, user))
    });
    let Some((name, target, user)) = parts else {
        return bad(Reason::Malformed, "a change is <interaction>:<target id>:<user id>");
    };
    let Some(interaction) = vocabulary.interaction(name) else {
        return bad(Reason::UnknownInteraction, "no interaction of this name is configured");
    };
    let user = match (user, interaction.has_states()) {
        ("0", false) => None,
        (_, false) => return bad(Reason::Malformed, "a change of a counter has user 0"),
        (text, true) => match text.parse() {
            Ok(user) => Some(user),
            Err(_) => return bad(Reason::Malformed, "the user id is not an id"),
        },
    };
    let at_ms = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match at_ms {
        Some(at_ms) if (0..=LATEST_MS).contains(&at_ms) => {
            Ok(Change { target, interaction: interaction.code, user, at_ms })
        }
        _ => bad(Reason::BadTime, &format!("the event time is {:?}", String::from_utf8_lossy(value))),
    }
}

/// Reads a count.
pub(super) fn count(raw: &[u8]) -> Option<i64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

/// The count of a counter that cannot be copied. Those of states are counted again, and not set aside.
pub(super) fn bad_count(vocabulary: &Vocabulary, target: Id, interaction: u16, raw: &[u8]) -> Option<Rejected> {
    let counter = vocabulary.interaction_code(interaction).filter(|i| !i.has_states())?;
    let detail = format!("the count is {:?}, not a whole number from 0", String::from_utf8_lossy(raw));
    let rejected = Rejected { mark: format!("{}:{target}:0", counter.name), reason: Reason::BadCount, detail };
    count(raw).is_none_or(|count| count < 0).then_some(rejected)
}

/// Reads one member of the dirty set.
pub(super) fn parse_target(raw: &[u8]) -> Result<Id, BadMark> {
    let id = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok());
    id.ok_or_else(|| BadMark::new(raw, Reason::Malformed, "a dirty target is an id".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interaction, Kind, Scan};

    fn vocabulary() -> Vocabulary {
        let interaction = |name: &str, code, kind| Interaction { name: name.into(), code, kind, scan: Scan::Changed };
        let window = std::time::Duration::from_mins(5);
        let interactions = vec![interaction("like", 1, Kind::State), interaction("view", 4, Kind::Counter { window })];
        Vocabulary { targets: vec![], interactions }
    }

    #[test]
    fn a_change_reads_back_as_it_was_written() {
        let vocabulary = vocabulary();
        for text in ["like:10086:42", "view:9223372036854775807:0"] {
            let change = parse_change(&vocabulary, text.as_bytes(), b"1700000000123").unwrap();
            assert_eq!(field(&vocabulary, &change), text);
            assert_eq!(change.at_ms, 1_700_000_000_123);
        }
    }

    #[test]
    fn whatever_redis_holds_is_read_or_set_aside_with_its_reason() {
        let vocabulary = vocabulary();
        let cases: [(&[u8], &[u8], Reason); 9] = [
            (b"", b"1", Reason::Malformed),
            (b"like", b"1", Reason::Malformed),
            (b"like:0:1", b"1", Reason::Malformed),
            (b"like:1:0", b"1", Reason::Malformed),
            (b"like:1:x", b"1", Reason::Malformed),
            (b"view:1:42", b"1", Reason::Malformed),
            (b"\xff\xfe:1:2", b"1", Reason::Malformed),
            (b"dislike:1:2", b"1", Reason::UnknownInteraction),
            (b"like:1:2", b"253402300800000", Reason::BadTime),
        ];
        for (raw, value, reason) in cases {
            let bad = parse_change(&vocabulary, raw, value).unwrap_err();
            assert_eq!((bad.rejected.reason, bad.raw.as_slice()), (reason, raw));
        }
        assert_eq!(parse_change(&vocabulary, b"like:1:2", b"soon").unwrap_err().rejected.reason, Reason::BadTime);
        assert_eq!(parse_target(b"10086").unwrap().get(), 10086);
        assert_eq!(parse_target(b"-3").unwrap_err().rejected.reason, Reason::Malformed);
    }
}
