//! The README held to the truth: the commands in its `console` blocks are run as they stand there, and what they print is
//! compared with what it says they print.

mod adding;
mod blocks;
mod installing;
mod moving;
mod references;
mod reloading;
mod restored;
mod stage;
mod tour;

use blocks::{Step, alike, steps};
use stage::Stage;

/// Chapters whose commands a test of this module runs, and those that are left to others: a package, a machine's own
/// programs, or these very tests are needed for them.
const PLAYED: [&str; 7] = [
    "Five minutes",
    "Install",
    "MySQL was restored from a backup",
    "Back up",
    "With a replica",
    "Onto an empty Redis",
    "Add an interaction or a target type",
];
const LEFT_TO_OTHERS: [&str; 4] = ["The two commands", "Using the API", "Upgrade", "Development"];

#[test]
fn no_chapter_shows_commands_that_nobody_runs() {
    let known: Vec<_> = PLAYED.into_iter().chain(LEFT_TO_OTHERS).collect();
    let shown = blocks::headings_with("console");
    let strangers: Vec<_> = shown.iter().filter(|heading| !known.contains(&heading.as_str())).collect();
    assert!(strangers.is_empty(), "run these as well: {strangers:?}");
    assert_eq!(shown.len(), known.len(), "{shown:?}");
}
