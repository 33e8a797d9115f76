//! `tallyd reconcile`

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Exit, output, progress, serve, sync};
use crate::reconcile::{Report, Request, Scope, Trigger, Verdict, Worst, reconcile};
use crate::sync::{Context, Progress};

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Args {
    /// At once; accepted and implied
    #[arg(long)]
    now: bool,

    /// Compare a random sample of so many percent [default: everything]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    sample: Option<f64>,

    /// Compare everything; the default
    #[arg(long, conflicts_with_all = ["sample", "target"])]
    all: bool,

    /// Compare one target: type (code or name) and id
    #[arg(long, value_name = "T:ID", conflicts_with = "sample")]
    target: Option<String>,

    /// Change nothing; say what differs
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// How long to wait for another owner of a lease
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait_seconds: u32,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number <= 100.0 { Ok(number) } else { Err("above 0, at most 100".to_owned()) }
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    let Args { now: _, sample, all: _, target, dry_run, json, wait_seconds } = args;
    let scope = match (target.as_deref().map(|text| sync::parse_target(&context, text)), sample) {
        (Some(Ok((target_type, target))), _) => Scope::Target(target_type, target),
        (Some(Err(problem)), _) => {
            output::note(format_args!("tallyd: --target {}: {problem}", target.unwrap_or_default()));
            return Ok(Exit::Usage);
        }
        (None, Some(percent)) => Scope::Sample(percent),
        (None, None) => Scope::All,
    };
    let stop = CancellationToken::new();
    serve::stop_on_signals(&stop)?;
    let lease_wait = Duration::from_secs(u64::from(wait_seconds));
    let request = Request { trigger: Trigger::Command, scope, dry_run, lease_wait };
    let progress = Progress::default();
    let report = tokio::select! {
        report = Box::pin(reconcile(&context, request, &progress, &stop)) => report,
        never = progress::show(&progress, "targets looked at") => match never {},
    };
    if json {
        output::json(&report)?
    } else {
        output::result(text(&report))?
    };
    Ok(exit(&report))
}

fn exit(report: &Report) -> Exit {
    match report.outcome {
        Verdict::Clean | Verdict::Repaired => Exit::Done,
        Verdict::Drift | Verdict::Stopped => Exit::Drift,
        Verdict::Failed if report.exit_code == 75 => Exit::Busy,
        Verdict::Failed => Exit::Failed,
    }
}

fn text(report: &Report) -> String {
    let Report { looked_at, of, differing, repaired, residual, .. } = report;
    let seconds = Duration::from_millis(report.duration_ms).as_secs_f64();
    // A pass that did not end has not met all of them.
    let least = if report.outcome == Verdict::Failed { "at least " } else { "" };
    let mut lines = vec![format!(
        "{} in {seconds:.1} s: looked at {looked_at} of {least}{of} targets ({}); {differing} differ; of the drifts \
         {repaired} repaired, {residual} left",
        report.outcome.as_str(),
        report.scope
    )];
    let counted = |numbers: &std::collections::BTreeMap<&str, u64>| {
        numbers.iter().map(|(what, number)| format!("{what} {number}")).collect::<Vec<_>>().join(", ")
    };
    if report.skipped > 0 {
        lines.push(format!("skipped: {}", counted(&report.skipped_why)));
    }
    if !report.by_kind.is_empty() {
        lines.push(format!("found: {}", counted(&report.by_kind)));
    }
    for worst in &report.worst {
        let user = worst.user_id.as_ref().map(|user| format!(" user {user}")).unwrap_or_default();
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let Worst { interaction, target_type, target_id, kind, cause, side, outcome, .. } = worst;
        let values = match (&worst.before, worst.is_only_told) {
            (Some(rows), true) => format!(", rows: {rows}, in {side}, left alone"),
            (None, true) => format!(", in {side}, left alone"),
            (before, false) => format!(", {} → {} in {side}, {outcome}", value(before), value(&worst.after)),
        };
        lines.push(format!("{interaction} {target_type}:{target_id}{user}: {kind} ({cause}){values}"));
    }
    let more = report.by_kind.values().sum::<u64>().saturating_sub(report.worst.len() as u64);
    if more > 0 {
        let kept = if report.dry_run { "" } else { ": see reconcile_drift" };
        lines.push(format!("and {more} more{kept}"));
    }
    lines.extend(report.error.clone());
    lines.join("\n")
}
