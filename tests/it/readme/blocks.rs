//! What stands in the README.

use std::fs;
use std::path::Path;

/// A command and what it prints, as a `console` block shows them.
#[derive(Clone, Debug)]
pub struct Step {
    /// Without `$ `.
    pub command: String,
    pub output: Vec<String>,
}

pub fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The headings right above blocks of a language, each once.
pub fn headings_with(language: &str) -> Vec<String> {
    let (readme, mut heading, mut fenced) = (readme(), String::new(), false);
    let mut found = Vec::new();
    for line in readme.lines() {
        if !fenced && line.starts_with('#') {
            line.trim_start_matches('#').trim().clone_into(&mut heading);
        }
        if line.strip_prefix("```") == Some(language) && found.last() != Some(&heading) {
            found.push(heading.clone());
        }
        fenced ^= line.starts_with("```");
    }
    found
}

/// The text under a heading of any level, subordinate ones included.
pub fn section(heading: &str) -> String {
    let readme = readme();
    let level = |line: &str| {
        line.split_once(' ').map(|(hashes, _)| hashes).filter(|h| h.chars().all(|c| c == '#')).map(str::len)
    };
    let (mut text, mut of, mut fenced) = (String::new(), None, false);
    for line in readme.lines() {
        fenced ^= line.starts_with("```");
        let here = level(line).filter(|_| !fenced);
        match (of, here) {
            (None, Some(level)) if line[level + 1..] == *heading => of = Some(level),
            (Some(of), Some(level)) if level <= of => break,
            (None, _) => {}
            (Some(_), _) => text.extend([line, "\n"]),
        }
    }
    assert!(of.is_some(), "README.md has no {heading:?}");
    text
}

/// The blocks of a language in a section.
pub fn blocks(heading: &str, language: &str) -> Vec<String> {
    let section = section(heading);
    let fence = format!("\n```{language}\n");
    section.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// Every command of a section, in order.
pub fn steps(heading: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks(heading, "console").iter().flat_map(|block| block.lines()) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
            (None, Some(step)) => step.output.push(line.to_owned()),
            (None, None) => panic!("{heading}: output before any command: {line}"),
        }
    }
    assert!(!steps.is_empty(), "{heading} has no commands");
    steps
}

/// Whether what came is what the README says, apart from times, durations and identities. A line `…` stands for any number.
pub fn alike(said: &[String], came: &[String]) -> bool {
    match said.split_first() {
        None => came.is_empty(),
        Some((line, rest)) if line == "…" => (0..=came.len()).any(|skipped| alike(rest, &came[skipped..])),
        Some((line, rest)) => {
            came.split_first().is_some_and(|(first, others)| masked(line) == masked(first) && alike(rest, others))
        }
    }
}

/// `d` is a digit, `h` one of a UUID; what matches first is taken.
const VARYING: [&str; 6] = [
    "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh",
    "dddd-dd-dd.dd:dd:dd.ddd",
    "dddd-dd-dd.dd:dd:dd",
    "in d.d s",
    "(d.d s)",
    "d ms",
];

fn masked(line: &str) -> String {
    let bytes = line.trim_end().as_bytes();
    let (mut masked, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let fits = |pattern: &&&str| {
            let mut pairs = pattern.bytes().zip(&bytes[at..]);
            bytes.len() - at >= pattern.len()
                && pairs.all(|(p, b)| match p {
                    b'd' => b.is_ascii_digit(),
                    b'h' => b.is_ascii_hexdigit(),
                    b'.' => true,
                    _ => p == *b,
                })
        };
        if let Some(pattern) = VARYING.iter().find(fits) {
            masked.extend_from_slice(b"<varies>");
            at += pattern.len();
        } else {
            masked.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(masked).unwrap()
}

#[test]
fn only_what_varies_is_masked() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let same = |a: &str, b: &str| alike(&lines(a), &lines(b));
    assert!(same("done in 0.0 s: 3 rows", "done in 1.2 s: 3 rows"));
    assert!(!same("done in 0.0 s: 3 rows", "done in 0.0 s: 4 rows"));
    assert!(same("| 2026-11-30 17:45:33.517 |", "| 2027-01-01 00:00:00.000 |"));
    assert!(same("a\n…\nd", "a\nb\nc\nd") && same("…", "") && !same("a\n…\nd", "a\nb\nc"));
    assert!(!same("a", "a\nb") && !same("a\nb", "a"));
}
