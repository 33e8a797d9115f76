//! Whether all is well, in words.

use chrono::DateTime;
use serde::Serialize;

use super::Status;
use crate::last_run::{LastRun, name};
use crate::model::{Partition, Vocabulary};
use crate::report::words::{counted, duration, time};
use crate::report::{self, Figures};

/// How old the oldest change may be, milliseconds: the limit of the alert `TallydBacklogOld`.
const OLD_MS: i64 = 30 * 60 * 1000;

/// What is wrong; nothing when all is well.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Verdict {
    /// Whether nothing is wrong.
    pub well: bool,
    /// The gravest first.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What is wrong: one short sentence.
    pub what: String,
    /// Why, as far as is known.
    pub why: Option<String>,
    /// Since when, in words, as far as is known.
    pub since: Option<String>,
}

impl Verdict {
    /// Judges facts.
    pub(super) fn of(status: &Status, vocabulary: &Vocabulary) -> Self {
        let servers = [redis(status), mysql(status)];
        let others =
            [replaying(status), restoring(status, vocabulary), backlog(status), run(status, vocabulary), pass(status)];
        let findings: Vec<Finding> = servers.into_iter().chain(others).flatten().collect();
        Self { well: findings.is_empty(), findings }
    }
}

fn finding(what: impl Into<String>, why: Option<String>, since: Option<String>) -> Finding {
    Finding { what: what.into(), why, since }
}

fn ago(seconds: Option<u64>) -> Option<String> {
    seconds.map(|seconds| format!("for {}", duration(seconds.max(1) * 1000)))
}

fn redis(status: &Status) -> Option<Finding> {
    let error = status.redis.error.clone();
    if !status.redis.up {
        let what = if status.mysql.error.is_none() { "Redis is down; writes go to MySQL" } else { "Redis is down" };
        return Some(finding(what, error, ago(status.breaker_since_s)));
    }
    if status.breaker == "open" {
        return Some(finding("Redis does not take writes; they go to MySQL", error, ago(status.breaker_since_s)));
    }
    error.map(|error| finding("Redis is up, but holds what cannot be used", Some(error), None))
}

fn mysql(status: &Status) -> Option<Finding> {
    let error = status.mysql.error.clone()?;
    let what = match (status.mysql.up, status.redis.up) {
        (true, _) => "MySQL is up, but cannot be used",
        (false, true) => "MySQL is down; nothing is synced",
        (false, false) => "MySQL is down; writes are refused",
    };
    Some(finding(what, Some(error), None))
}

fn replaying(status: &Status) -> Option<Finding> {
    if status.breaker != "replaying" {
        return None;
    }
    let pending = status.degraded.pending.map(|pending| format!("{} to go", counted(pending, "write", "writes")));
    Some(finding(
        "Degraded writes are being replayed; reads are answered by MySQL",
        pending,
        ago(status.breaker_since_s),
    ))
}

fn restoring(status: &Status, vocabulary: &Vocabulary) -> Option<Finding> {
    let restoring = status.partitions.iter().filter(|partition| partition.restoring == Some(true));
    let names: Vec<String> =
        restoring.map(|of| name(vocabulary, Partition { target_type: of.target_type, shard: of.shard })).collect();
    if names.is_empty() {
        return None;
    }
    Some(finding(format!("Redis lost writes and is being restored: {}", names.join(", ")), None, None))
}

/// As it was found where it is no time.
fn since(rfc3339: &str) -> String {
    let at = DateTime::parse_from_rfc3339(rfc3339);
    format!("since {}", at.map_or_else(|_| rfc3339.to_owned(), |at| time(at.to_utc())))
}

fn backlog(status: &Status) -> Option<Finding> {
    status.partitions.iter().filter_map(|partition| partition.oldest_change_ms).max().and_then(waiting)
}

fn waiting(oldest_ms: i64) -> Option<Finding> {
    let seconds = u64::try_from(oldest_ms / 1000).ok().filter(|_| oldest_ms > OLD_MS);
    seconds.map(|seconds| finding("Changes wait for MySQL", None, ago(Some(seconds))))
}

/// The newest run, if it is not done; since the oldest of those in a row that were not.
fn run(status: &Status, vocabulary: &Vocabulary) -> Option<Finding> {
    let runs: Vec<LastRun> = status.last_runs.iter().filter_map(|run| LastRun::of(run.get())).collect();
    let newest = runs.first().filter(|run| !run.is_done())?;
    let first = runs.iter().take_while(|run| !run.is_done()).last()?;
    let reasons = newest.reasons(vocabulary);
    let why = (!reasons.is_empty()).then(|| reasons.join("; "));
    Some(finding(format!("The last run is {}", newest.outcome), why, Some(since(&first.started_at))))
}

fn pass(status: &Status) -> Option<Finding> {
    let passes = || status.reconcile.passes.iter().filter_map(|pass| serde_json::from_str::<Figures>(pass.get()).ok());
    let is_well = |pass: &Figures| matches!(pass.outcome, report::Verdict::Clean | report::Verdict::Repaired);
    let newest = passes().next().filter(|pass| !is_well(pass))?;
    let first = passes().take_while(|pass| !is_well(pass)).last()?;
    let what = match newest.outcome {
        report::Verdict::Clean | report::Verdict::Repaired | report::Verdict::Drift => {
            "Reconciliation found drift that is not repaired"
        }
        report::Verdict::Stopped => "Reconciliation stopped: so much differs that nothing was written",
        report::Verdict::Failed => "The last pass of reconciliation failed",
        report::Verdict::Unknown => "The last pass of reconciliation ended in a way that this version does not know",
    };
    let why = newest.error.or_else(|| newest.residual.map(|left| format!("{} left", counted(left, "drift", "drifts"))));
    Some(finding(what, why, first.started_at.map(|at| format!("since {}", time(at)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_may_wait_for_half_an_hour() {
        let since = |oldest_ms| waiting(oldest_ms).and_then(|finding| finding.since);
        assert_eq!([0, OLD_MS].map(since), [None, None]);
        assert_eq!(since(OLD_MS + 1).as_deref(), Some("for 30 min"));
        assert_eq!(since(i64::MAX).map(|text| text.is_empty()), Some(false));
    }
}
