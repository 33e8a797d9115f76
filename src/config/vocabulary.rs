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
