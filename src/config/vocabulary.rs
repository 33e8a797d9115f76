//! `[[target]]` and `[[interaction]]`.

use super::error::Problem;
use super::fields;
use super::number::Whole;
use super::raw;
use crate::model::{Interaction, Kind, Scan, TargetType, Vocabulary};

/// Words that begin keys or paths of their own.
const RESERVED: [&str; 10] = ["cnt", "dirty", "chg", "ckpt", "restoring", "lock", "users", "targets", "batch", "query"];

/// How long a viewer is not counted again, unless said.
const WINDOW_SECONDS: Whole = Whole(300);

/// The longest such time: a year.
const LONGEST_WINDOW: i64 = 366 * 86_400;

pub(super) fn resolve(targets: &[raw::Target], interactions: &[raw::Interaction]) -> Result<Vocabulary, Problem> {
    let targets = targets.iter().enumerate().map(|(index, raw)| target(&format!("target[{index}]"), raw));
    let interactions =
        interactions.iter().enumerate().map(|(index, raw)| interaction(&format!("interaction[{index}]"), raw));
    let vocabulary = Vocabulary {
        targets: targets.collect::<Result<_, _>>()?,
        interactions: interactions.collect::<Result<_, _>>()?,
    };
    unique("target", vocabulary.targets.iter().map(|target| (target.name.as_str(), target.code)))?;
    unique("interaction", vocabulary.interactions.iter().map(|kind| (kind.name.as_str(), kind.code)))?;
    Ok(vocabulary)
}

fn target(field: &str, raw: &raw::Target) -> Result<TargetType, Problem> {
    let code = fields::within(&format!("{field}.code"), raw.code, 1..=i64::from(u16::MAX))?;
    Ok(TargetType { name: name(field, &raw.name)?, code })
}

fn interaction(field: &str, raw: &raw::Interaction) -> Result<Interaction, Problem> {
    let name = name(field, &raw.name)?;
    if RESERVED.contains(&name.as_str()) {
        let what = format!("{name:?} has a meaning of its own in keys or paths; take another name");
        return Err(Problem::new(format!("{field}.name"), what));
    }
    let code = fields::within(&format!("{field}.code"), raw.code, 1..=i64::from(u16::MAX))?;
    let is_counter = fields::choice(&format!("{field}.kind"), &raw.kind, &[("state", false), ("counter", true)])?;
    let only_for = |key: &str, kind: &str| {
        Problem::new(format!("{field}.{key}"), format!("is only for kind = \"{kind}\"; leave the key out"))
    };
    let kind = match (is_counter, raw.window_seconds) {
        (false, Some(_)) => return Err(only_for("window_seconds", "counter")),
        (false, None) => Kind::State,
        (true, window) => {
            let field = format!("{field}.window_seconds");
            Kind::Counter { window: fields::seconds(&field, window.unwrap_or(WINDOW_SECONDS), LONGEST_WINDOW)? }
        }
    };
    let scan = match raw.scan.as_deref() {
        Some(_) if is_counter => return Err(only_for("scan", "state")),
        Some(scan) => {
            fields::choice(&format!("{field}.scan"), scan, &[("changed", Scan::Changed), ("full", Scan::Full)])?
        }
        None => Scan::Changed,
    };
    Ok(Interaction { name, code, kind, scan })
}

fn name(field: &str, name: &str) -> Result<String, Problem> {
    let letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    let rest = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if letter && rest && name.len() <= 32 {
        return Ok(name.to_owned());
    }
    let what = format!("{name:?} is no name; begin with a-z, go on with a-z, 0-9 and _, 32 characters in all at most");
    Err(Problem::new(format!("{field}.name"), what))
}

fn unique<'a>(list: &str, entries: impl Iterator<Item = (&'a str, u16)>) -> Result<(), Problem> {
    let mut seen: Vec<(&str, u16)> = Vec::new();
    for (index, (name, code)) in entries.enumerate() {
        if let Some(first) = seen.iter().position(|entry| entry.0 == name) {
            let what = format!("{name:?} is the name of {list}[{first}] too; names are unique");
            return Err(Problem::new(format!("{list}[{index}].name"), what));
        }
        if let Some(first) = seen.iter().position(|entry| entry.1 == code) {
            let what = format!("{code} is the code of {list}[{first}] too; codes are unique");
            return Err(Problem::new(format!("{list}[{index}].code"), what));
        }
        seen.push((name, code));
    }
    if seen.is_empty() {
        return Err(Problem::new(list, format!("is empty; give one [[{list}]] at least, or leave the key out")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, ConfigError};
    use super::*;

    fn parse(text: &str) -> Result<Vocabulary, ConfigError> {
        Config::parse(text, [], Path::new("f")).map(|config| config.vocabulary)
    }

    fn interaction(rest: &str) -> String {
        format!("[[interaction]]\nname = \"up\"\ncode = 1\n[[interaction]]\n{rest}\n")
    }

    #[test]
    fn takes_names_codes_kinds_and_scans() {
        let text = interaction("name = \"seen_2\"\ncode = 65535\nkind = \"counter\"\nwindow_seconds = 60");
        let vocabulary = parse(&format!("{text}[[interaction]]\nname = \"fan\"\ncode = 3\nscan = \"full\"")).unwrap();
        let [up, seen, fan] = vocabulary.interactions.as_slice() else { panic!("three") };
        assert_eq!((up.kind, up.scan), (Kind::State, Scan::Changed));
        assert_eq!((seen.code, seen.kind), (65_535, Kind::Counter { window: std::time::Duration::from_mins(1) }));
        assert_eq!((fan.kind, fan.scan), (Kind::State, Scan::Full));
        assert_eq!(vocabulary.targets.len(), 4, "targets keep their defaults");
        assert_eq!(parse("[[target]]\nname = \"post\"\ncode = 9").unwrap().targets.len(), 1);
    }

    #[test]
    fn refuses_and_says_where() {
        let long = format!("name = \"{}\"\ncode = 2", "a".repeat(33));
        let refused = [
            ("interaction[1].name", "name = \"Like\"\ncode = 2"),
            ("interaction[1].name", "name = \"\"\ncode = 2"),
            ("interaction[1].name", "name = \"2up\"\ncode = 2"),
            ("interaction[1].name", long.as_str()),
            ("interaction[1].name", "name = \"up\"\ncode = 2"),
            ("interaction[1].code", "name = \"down\"\ncode = 1"),
            ("interaction[1].code", "name = \"down\"\ncode = 0"),
            ("interaction[1].code", "name = \"down\"\ncode = 65536"),
            ("interaction[1].kind", "name = \"down\"\ncode = 2\nkind = \"gauge\""),
            ("interaction[1].scan", "name = \"down\"\ncode = 2\nkind = \"counter\"\nscan = \"full\""),
            ("interaction[1].scan", "name = \"down\"\ncode = 2\nscan = \"half\""),
            ("interaction[1].window_seconds", "name = \"down\"\ncode = 2\nwindow_seconds = 5"),
            ("interaction[1].window_seconds", "name = \"v\"\ncode = 2\nkind = \"counter\"\nwindow_seconds = 0"),
        ];
        for (field, rest) in refused {
            let error = parse(&interaction(rest)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("f: {field}: ")), "{field}: {error}");
        }
        for reserved in RESERVED {
            let error = parse(&interaction(&format!("name = \"{reserved}\"\ncode = 2"))).unwrap_err().to_string();
            assert!(error.contains("interaction[1].name"), "{error}");
            assert!(parse(&format!("[[target]]\nname = \"{reserved}\"\ncode = 2")).is_ok());
        }
        assert!(parse("target = []").unwrap_err().to_string().contains("target: is empty"));
        assert!(parse("interaction = []").unwrap_err().to_string().contains("interaction: is empty"));
    }
}
