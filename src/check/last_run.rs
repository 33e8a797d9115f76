//! How the newest run ended.

use super::{Finding, Level, bad, ok};
use crate::last_run::LastRun;
use crate::model::Vocabulary;

/// `report` is that of the newest run in `sync_run`.
pub(super) fn finding(report: Option<&str>, vocabulary: &Vocabulary) -> Finding {
    const NAME: &str = "last run";
    let Some(report) = report else { return ok(NAME, "none yet") };
    let Some(run) = LastRun::of(report) else { return ok(NAME, "kept by a version that wrote it otherwise") };
    let ended = format!("{} at {}", run.outcome, run.started_at);
    if run.is_done() {
        return ok(NAME, ended);
    }
    let fix = match run.outcome.as_str() {
        "busy" => "let the owner of the lease end, and run `tallyd sync`",
        "partial" => "put right what it names, if anything, and run `tallyd sync`, which takes up what is left",
        "refused" => {
            "put right what it names, and run `tallyd sync`; until then MySQL keeps what it has, and Redis what is marked"
        }
        _ => "put right what it names, and run `tallyd sync`, which takes up what is left",
    };
    bad(NAME, Level::Warn, format!("{ended}: {}", run.reasons(vocabulary).join("; ")), fix)
}
