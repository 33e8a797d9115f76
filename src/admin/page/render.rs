//! The page as HTML, from facts alone.

use chrono::{DateTime, Utc};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::tables::{partitions, passes, runs};
use crate::last_run::LastRun;
use crate::model::Vocabulary;
use crate::report::Figures;
use crate::report::words::{UNKNOWN, counted, duration, known, time};
use crate::status::{Status, Verdict};

/// How often a browser looks again, seconds; more often while a run is waited for.
const OFTEN: u32 = 10;
const SOON: u32 = 2;

const STYLE: &str = include_str!("style.css");

/// How a run is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// By a click.
    Button,
    /// By a click, when the token beside the button is right. The page does not load itself again meanwhile.
    WithToken,
}

/// What became of a click.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// There was none.
    None,
    /// It asked for the run with this id.
    Run(String),
    /// The token was none of those that are configured.
    WrongToken,
}

/// A whole document. `status` was gathered at `at`; styles bear `nonce`.
pub(super) fn page(
    status: &Status,
    at: DateTime<Utc>,
    vocabulary: &Vocabulary,
    form: Form,
    notice: &Notice,
    nonce: &str,
) -> Markup {
    let of_runs: Vec<LastRun> = status.last_runs.iter().filter_map(|run| LastRun::of(run.get())).collect();
    let of_passes: Vec<Figures> =
        status.reconcile.passes.iter().filter_map(|pass| serde_json::from_str(pass.get()).ok()).collect();
    let (noticed, waits) = told(notice, &of_runs);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if form == Form::Button {
                    meta http-equiv="refresh" content=(if waits { SOON } else { OFTEN });
                }
                title { "tallyd: " (headline(&status.verdict)) }
                style nonce=(nonce) { (PreEscaped(STYLE)) }
            }
            body { main {
                header {
                    h1 { "tallyd" }
                    p class="soft" { (status.version) @if let Some(up) = status.uptime_s { ", up for " (duration(up * 1000)) } }
                    p class="soft" { "As of " (time(at)) }
                }
                (verdict(&status.verdict))
                @if let Some((class, text)) = noticed { p class=(class) role="status" { (text) } }
                (action(form))
                (tiles(status))
                section { h2 { "Backlog by partition" } (partitions(status, vocabulary)) }
                section { h2 { "Last runs" } (runs(&of_runs)) }
                section { h2 { "Reconciliation" } (passes(&of_passes)) }
                section { h2 { "Servers" } (servers(status)) }
            } }
        }
    }
}

fn headline(verdict: &Verdict) -> &str {
    verdict.findings.first().map_or("All is well", |finding| &finding.what)
}

fn verdict(verdict: &Verdict) -> Markup {
    html! {
        div class=(if verdict.well { "verdict good" } else { "verdict bad" }) role="status" {
            @if verdict.well { p class="what" { "All is well" } }
            @for finding in &verdict.findings {
                p class="what" {
                    (finding.what)
                    @if let Some(since) = &finding.since { " " span class="since" { (since) } }
                }
                @if let Some(why) = &finding.why { p class="why" { (why) } }
            }
        }
    }
}

/// The class and words of a notice, and whether a run is waited for.
fn told(notice: &Notice, runs: &[LastRun]) -> (Option<(&'static str, String)>, bool) {
    match notice {
        Notice::None => (None, false),
        Notice::WrongToken => (
            Some(("notice bad", "The token is none of those that are configured; no run was started.".to_owned())),
            false,
        ),
        Notice::Run(id) => match runs.iter().find(|run| run.run_id == *id) {
            Some(run) => {
                let class = if run.is_done() { "notice good" } else { "notice bad" };
                let (changes, took) = (counted(run.changes, "change", "changes"), duration(run.duration_ms));
                (Some((class, format!("Run {id} is {}: {changes} in {took}.", run.outcome))), false)
            }
            None => (Some(("notice", format!("Run {id} started; its outcome will be shown here."))), true),
        },
    }
}

fn action(form: Form) -> Markup {
    html! {
        form method="post" action="/" {
            @if form == Form::WithToken {
                label { "Token " input type="password" name="token" autocomplete="off" required; }
            }
            button type="submit" { "Sync now" }
            a href="/" { "Refresh" }
        }
    }
}

fn tiles(status: &Status) -> Markup {
    let changes: Option<u64> = status.partitions.iter().map(|partition| partition.changes).sum();
    let dirty: Option<u64> = status.partitions.iter().map(|partition| partition.dirty).sum();
    let oldest = status.partitions.iter().filter_map(|partition| partition.oldest_change_ms).max();
    let oldest = oldest.and_then(|ms| u64::try_from(ms).ok()).map(duration);
    let rate = status.writes_per_second.map_or_else(|| UNKNOWN.to_owned(), |rate| format!("{rate:.1}"));
    let lag = status.lag_ms.map(|lag| (duration(lag.p50), duration(lag.p99)));
    html! {
        dl class="tiles" {
            div { dt { "Changes waiting" } dd { (known(changes)) }
                dd class="below" {
                    @if let Some(dirty) = dirty { (counted(dirty, "target", "targets")) } @else { "not known" }
                    @if let Some(oldest) = oldest { "; oldest " (oldest) }
                } }
            div { dt { "Writes a second" } dd { (rate) } dd class="below" { "over the last minute" } }
            div { dt { "Lag, half within" } dd { (lag.as_ref().map_or(UNKNOWN, |lag| &lag.0)) }
                dd class="below" {
                    @if let Some((_, most)) = &lag { "99\u{a0}% within " (most) } @else { "no run with changes is known" }
                } }
            div { dt { "Breaker" } dd { (status.breaker) }
                dd class="below" {
                    @if let Some(pending) = status.degraded.pending {
                        (counted(pending, "degraded write", "degraded writes")) " to replay; "
                        (known(status.degraded.replayed_total)) " replayed"
                    } @else { "degraded writes are not known" }
                } }
        }
    }
}

fn servers(status: &Status) -> Markup {
    let up = |up: bool| html! { span class=(if up { "badge good" } else { "badge bad" }) { (if up { "up" } else { "down" }) } };
    let schema = if status.mysql.up && status.mysql.error.is_none() { "current" } else { UNKNOWN };
    html! {
        dl class="facts" {
            dt { "Redis" } dd { (up(status.redis.up)) " " (status.redis.version.as_deref().unwrap_or_default()) " (" (status.redis.mode) ")" }
            dt { "MySQL" } dd { (up(status.mysql.up)) " " (status.mysql.version.as_deref().unwrap_or_default()) }
            dt { "Schema" } dd { (schema) }
        }
    }
}
