//! The tables of the page. Columns of the class `wide` are not shown on a phone.

use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::chart::chart;
use crate::last_run::{LastRun, name};
use crate::model::{Partition, Vocabulary};
use crate::report::words::{UNKNOWN, duration, known, number};
use crate::report::{Figures, Verdict};
use crate::status::{PartitionStatus, Status};

pub(super) fn partitions(status: &Status, vocabulary: &Vocabulary) -> Markup {
    let free = if status.mysql.up { "free" } else { UNKNOWN };
    html! {
        table {
            thead { tr {
                th scope="col" { "Partition" }
                th scope="col" class="figure" { "Dirty" }
                th scope="col" class="figure" { "Changes" }
                th scope="col" class="figure" { "In flight" }
                th scope="col" class="figure" { "Oldest" }
                th scope="col" class="figure wide" { "Checkpoint" }
                th scope="col" class="wide" { "Lease" }
            } }
            tbody { @for partition in &status.partitions { (of_partition(partition, free, vocabulary)) } }
        }
    }
}

fn of_partition(of: &PartitionStatus, free: &str, vocabulary: &Vocabulary) -> Markup {
    let oldest = of.oldest_change_ms.and_then(|ms| u64::try_from(ms).ok()).map(duration);
    html! {
        tr {
            th scope="row" class="name" {
                (name(vocabulary, Partition { target_type: of.target_type, shard: of.shard }))
                @if of.restoring == Some(true) { " " span class="badge bad" { "restoring" } }
                @if let Some(owner) = &of.lease_owner { div class="below narrow" { "held by " (owner) } }
            }
            td class="figure" { (known(of.dirty)) }
            td class="figure" { (known(of.changes)) }
            td class="figure" { (known(of.inflight)) }
            td class="figure" { (oldest.as_deref().unwrap_or(UNKNOWN)) }
            td class="figure wide" { (of.checkpoint.as_deref().unwrap_or(UNKNOWN)) }
            td class="wide" { (of.lease_owner.as_deref().unwrap_or(free)) }
        }
    }
}

pub(super) fn runs(runs: &[LastRun]) -> Markup {
    if runs.is_empty() {
        return html! { p class="soft" { "No run is known." } };
    }
    html! {
        (chart(runs))
        table {
            thead { tr {
                th scope="col" { "Started (UTC)" }
                th scope="col" { "Outcome" }
                th scope="col" class="wide" { "Trigger" }
                th scope="col" class="figure" { "Changes" }
                th scope="col" class="figure wide" { "Rows" }
                th scope="col" class="figure wide" { "Rejected" }
                th scope="col" class="figure wide" { "Left" }
                th scope="col" class="figure" { "Took" }
            } }
            tbody { @for run in runs { tr {
                th scope="row" { (time(&run.started_at)) }
                td { span class=(if run.is_done() { "badge good" } else { "badge bad" }) { (run.outcome) } }
                td class="wide" { (run.trigger) }
                td class="figure" { (number(run.changes)) }
                td class="figure wide" { (number(run.rows_written)) }
                td class="figure wide" { (number(run.rejected)) }
                td class="figure wide" { (number(run.left)) }
                td class="figure" { (duration(run.duration_ms)) }
            } } }
        }
    }
}

pub(super) fn passes(passes: &[Figures]) -> Markup {
    if passes.is_empty() {
        return html! { p class="soft" { "No pass is known." } };
    }
    html! {
        table {
            thead { tr {
                th scope="col" { "Started (UTC)" }
                th scope="col" { "Outcome" }
                th scope="col" class="wide" { "Scope" }
                th scope="col" class="figure" { "Looked at" }
                th scope="col" class="figure" { "Differing" }
                th scope="col" class="figure" { "Repaired" }
                th scope="col" class="figure wide" { "Left" }
                th scope="col" class="figure wide" { "Took" }
            } }
            tbody { @for pass in passes { (of_pass(pass)) } }
        }
    }
}

fn of_pass(pass: &Figures) -> Markup {
    let (class, word) = match pass.outcome {
        Verdict::Clean => ("badge good", "clean"),
        Verdict::Repaired => ("badge mended", "repaired"),
        Verdict::Drift => ("badge bad", "drift"),
        Verdict::Stopped => ("badge bad", "stopped"),
        Verdict::Failed => ("badge bad", "failed"),
        Verdict::Unknown => ("badge bad", "unknown"),
    };
    html! {
        tr {
            th scope="row" { (pass.started_at.map_or_else(|| UNKNOWN.to_owned(), short)) }
            td { span class=(class) { (word) } }
            td class="wide" { (pass.scope.as_deref().unwrap_or(UNKNOWN)) }
            td class="figure" { (known(pass.looked_at)) }
            td class="figure" { (known(pass.differing)) }
            td class="figure" { (known(pass.repaired)) }
            td class="figure wide" { (known(pass.residual)) }
            td class="figure wide" { (pass.duration_ms.map_or_else(|| UNKNOWN.to_owned(), duration)) }
        }
    }
}

/// As short as it fits on a phone; as it was found where it is no time.
fn time(rfc3339: &str) -> String {
    let time = DateTime::parse_from_rfc3339(rfc3339);
    time.map_or_else(|_| rfc3339.to_owned(), |time| short(time.to_utc()))
}

fn short(time: DateTime<Utc>) -> String {
    time.format("%m-%d %H:%M:%S").to_string()
}
