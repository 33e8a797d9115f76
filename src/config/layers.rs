//! The file, and over it the environment.

use std::path::Path;

use ::config::{Config as Layers, ConfigError as LayerError, File, FileFormat};

use super::error::ConfigError;
use super::raw::Raw;

/// What every variable that overrides a key begins with.
pub(super) const PREFIX: &str = "TALLYD__";

/// Keys that a variable cannot override.
const LISTS: [&str; 3] = ["target", "interaction", "report.to"];

/// Reads `text` and then lets those of the variables override it that begin with `TALLYD__`; also returns their names.
///
/// No error holds a value: a URL with its password may have been written where it does not belong.
pub(super) fn read(text: &str, variables: &[(String, String)], file: &Path) -> Result<(Raw, Vec<String>), ConfigError> {
    let in_file = |error: LayerError| ConfigError::File { file: file.to_owned(), message: describe(&error) };
    let layers = Layers::builder().add_source(File::from_str(text, FileFormat::Toml));
    let raw = layers.build_cloned().and_then(Layers::try_deserialize::<Raw>).map_err(in_file)?;

    let overrides: Vec<_> = variables.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    if overrides.is_empty() {
        return Ok((raw, Vec::new()));
    }
    let in_environment = |message| ConfigError::Environment { message };
    let mut layers = layers;
    for (name, value) in &overrides {
        let key = key_of(name).map_err(in_environment)?;
        layers = layers.set_override(key, value.as_str()).map_err(|error| in_environment(describe(&error)))?;
    }
    let raw = layers.build().and_then(Layers::try_deserialize::<Raw>).map_err(|error| {
        let names: Vec<_> = overrides.iter().map(|(name, _)| name.as_str()).collect();
        in_environment(format!("{} (one of {})", describe(&error), names.join(", ")))
    })?;
    Ok((raw, overrides.iter().map(|(name, _)| name.clone()).collect()))
}

/// `TALLYD__SYNC__BATCH_ROWS` → `sync.batch_rows`.
fn key_of(name: &str) -> Result<String, String> {
    let words: Vec<_> = name[PREFIX.len()..].split("__").collect();
    let plain = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if words.len() < 2 || !words.iter().all(plain) {
        return Err(format!("{name} names no setting; write {PREFIX}SECTION__KEY, such as {PREFIX}SYNC__BATCH_ROWS"));
    }
    let key = words.join(".").to_ascii_lowercase();
    let is_list = |list: &str| key == list || key.strip_prefix(list).is_some_and(|rest| rest.starts_with('.'));
    match LISTS.iter().find(|list| is_list(list)) {
        Some(list) => Err(format!("{name} cannot override the list {list}; write it in the file")),
        None => Ok(key),
    }
}

/// The error in words of the file, without any value.
fn describe(error: &LayerError) -> String {
    match error {
        LayerError::FileParse { cause, .. } => without_source(&cause.to_string()),
        LayerError::At { error, key: Some(key), .. } => format!("{}: {}", dotted(key), describe(error)),
        LayerError::NotFound(key) => format!("{} is missing", dotted(key)),
        LayerError::Type { key: Some(key), expected, .. } => format!("{}: expected {expected}", dotted(key)),
        LayerError::Type { key: None, expected, .. } => format!("expected {expected}"),
        other => without_text(&other.to_string()),
    }
}

/// `target[0].name` for the `target[0]name` that the `config` crate says.
fn dotted(key: &str) -> String {
    key.replace(']', "].").replace("..", ".").trim_end_matches('.').to_owned()
}

/// A syntax error of TOML without the lines that quote the file.
fn without_source(message: &str) -> String {
    let quotes = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let kept: Vec<_> = message.lines().map(str::trim).filter(|line| !quotes(line) && !line.is_empty()).collect();
    kept.join(": ")
}

/// `invalid type: string "…", expected a table` without the string.
fn without_text(message: &str) -> String {
    match (message.find("string \""), message.rfind("\", expected ")) {
        (Some(from), Some(to)) if from < to => format!("{}string{}", &message[..from], &message[to + 1..]),
        (Some(from), _) => format!("{}string", &message[..from]),
        _ => message.to_owned(),
    }
}
