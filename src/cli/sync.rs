//! `tallyd sync`

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Exit, output, progress, serve};
use crate::model::{Id, Vocabulary};
use crate::sync::{
    Context, Extent, Outcome, PartitionReport, Progress, Restored, RunReport, Trigger, dry_run, run as sync_run,
};

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
            output::note(format_args!("tallyd: --target {}: {problem}", target.unwrap_or_default()));
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
            never = progress::show(&progress, "marks copied") => match never {},
        }
    };
    if json {
        output::json(&report)?
    } else {
        output::result(text(&context.vocabulary, &report))?
    };
    Ok(exit(&report))
}

pub(super) fn parse_target(context: &Context, text: &str) -> Result<(u16, Id), String> {
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

fn text(vocabulary: &Vocabulary, report: &RunReport) -> String {
    let t = &report.tally;
    let seconds = Duration::from_millis(report.duration_ms).as_secs_f64();
    let (wrote, set, replayed) = if report.dry_run {
        ("would write", "would be set", "would be replayed")
    } else {
        ("wrote", "set", "replayed")
    };
    let mut lines = vec![format!(
        "{} in {seconds:.1} s: {} on {}, {wrote} {}",
        report.outcome.as_str(),
        counted(t.changes, "change", "changes"),
        counted(t.targets, "target", "targets"),
        counted(t.rows_written, "row", "rows"),
    )];
    if t.rejected > 0 {
        lines.push(format!("{} {set} aside in sync_rejected", counted(t.rejected, "entry", "entries")));
    }
    if t.drift > 0 {
        lines.push(counted(t.drift, "count disagreed with its states", "counts disagreed with their states"));
    }
    if t.replayed > 0 {
        lines.push(format!("{} {replayed}", counted(t.replayed, "degraded write", "degraded writes")));
    }
    if t.left > 0 {
        lines.push(counted(t.left, "target left", "targets left"));
    }
    for PartitionReport { target_type, shard, outcome, error, restored, .. } in &report.partitions {
        let name = vocabulary.targets.iter().find(|t| t.code == *target_type).map_or("", |t| &t.name);
        if let Some(Restored { dropped, kept, .. }) = restored {
            let (dropped, kept) = (counted(*dropped, "state", "states"), counted(*kept, "change", "changes"));
            lines.push(format!(
                "{name} ({target_type}/{shard}) restored, for Redis had lost writes: {dropped} dropped, to be loaded \
                 from MySQL; {kept} kept"
            ));
        }
        if let Some(error) = error {
            lines.push(format!("{name} ({target_type}/{shard}) {}: {error}", outcome.as_str()));
        }
    }
    lines.join("\n")
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Partition, TargetType};
    use crate::sync::Tally;

    fn told(tally: Tally, error: Option<&str>, dry_run: bool) -> String {
        let targets = vec![TargetType { name: "note".into(), code: 1 }];
        let partition = Partition { target_type: 1, shard: 0 };
        let mut partition = PartitionReport::untouched(partition, Outcome::Partial, String::new());
        (partition.tally, partition.error) = (tally, error.map(str::to_owned));
        let mut report = RunReport::new("0199".into(), Trigger::Command, chrono::Utc::now(), vec![partition], dry_run);
        report.duration_ms = 1234;
        text(&Vocabulary { targets, interactions: vec![] }, &report)
    }

    #[test]
    fn figures_are_told_in_singular_and_plural() {
        let all = |n| Tally {
            targets: n,
            changes: n,
            rows_written: n,
            rejected: n,
            left: n,
            drift: n,
            retries: n,
            replayed: n,
        };
        assert_eq!(
            told(all(1), Some("stopped on request"), false),
            "partial in 1.2 s: 1 change on 1 target, wrote 1 row\n1 entry set aside in sync_rejected\n\
             1 count disagreed with its states\n1 degraded write replayed\n1 target left\nnote (1/0) partial: stopped on request"
        );
        assert_eq!(
            told(all(2), None, true),
            "partial in 1.2 s: 2 changes on 2 targets, would write 2 rows\n\
             2 entries would be set aside in sync_rejected\n2 counts disagreed with their states\n\
             2 degraded writes would be replayed\n2 targets left"
        );
        assert_eq!(told(all(0), None, false), "partial in 1.2 s: 0 changes on 0 targets, wrote 0 rows");
    }
}
