//! `tallyd sync`

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Exit, progress, serve};
use crate::model::Id;
use crate::sync::{Context, Extent, Outcome, Progress, RunReport, Trigger, dry_run, run as sync_run};

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Args {
    /// At once; accepted and implied
    #[arg(long)]
    now: bool,

    /// Rescan one target whole, besides copying what changed: type (code or name) and id
    #[arg(long, value_name = "T:ID", conflicts_with = "full")]
    target: Option<String>,

    /// Treat every target that Redis knows as dirty
    #[arg(long)]
    full: bool,

    /// Claim and write nothing; say what would be written
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// How long to wait for another owner of the lease
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait_seconds: u32,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    let Args { now: _, target, full, dry_run: dry, json, wait_seconds } = args;
    let extent = match target.as_deref().map(|text| parse_target(&context, text)) {
        Some(Ok((target_type, target))) => Extent::Target(target_type, target),
        Some(Err(problem)) => {
            eprintln!("tallyd: --target {}: {problem}", target.unwrap_or_default());
            return Ok(Exit::Usage);
        }
        None if full => Extent::All,
        None => Extent::Changed,
    };
    let report = if dry {
        dry_run(&context, extent).await
    } else {
        let stop = CancellationToken::new();
        serve::stop_on_signals(&stop)?;
        let progress = Progress::default();
        let wait = Duration::from_secs(u64::from(wait_seconds));
        tokio::select! {
            report = sync_run(&context, Trigger::Command, extent, wait, &progress, &stop) => report,
            never = progress::show(&progress) => match never {},
        }
    };
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&context, &report);
    }
    Ok(exit(&report))
}

fn parse_target(context: &Context, text: &str) -> Result<(u16, Id), String> {
    let (target_type, id) = text.split_once(':').ok_or("write it as TYPE:ID, such as 1:10086")?;
    let target_type = context.vocabulary.target_type(target_type).ok_or("no target type of this code or name")?;
    Ok((target_type.code, id.parse().map_err(|error| format!("{error}"))?))
}

fn exit(report: &RunReport) -> Exit {
    let any = |outcome| report.partitions.iter().any(|partition| partition.outcome == outcome);
    if [Outcome::Failed, Outcome::Refused, Outcome::Partial].into_iter().any(any) {
        Exit::Failed
    } else if any(Outcome::Busy) {
        Exit::Busy
    } else {
        Exit::Done
    }
}

fn print(context: &Context, report: &RunReport) {
    let t = &report.tally;
    let seconds = Duration::from_millis(report.duration_ms).as_secs_f64();
    let verb = if report.dry_run { "would write" } else { "wrote" };
    println!(
        "{} in {seconds:.1} s: {} changes on {} targets, {verb} {} rows",
        report.outcome.as_str(),
        t.changes,
        t.targets,
        t.rows_written
    );
    for (count, what) in [
        (t.rejected, "entries set aside in sync_rejected"),
        (t.drift, "counts disagreed with their states"),
        (t.left, "targets left"),
    ] {
        if count > 0 {
            println!("{count} {what}");
        }
    }
    for partition in &report.partitions {
        if let Some(error) = &partition.error {
            let name =
                context.vocabulary.targets.iter().find(|t| t.code == partition.target_type).map_or("", |t| &t.name);
            println!("{name} ({}/{}) {}: {error}", partition.target_type, partition.shard, partition.outcome.as_str());
        }
    }
}
