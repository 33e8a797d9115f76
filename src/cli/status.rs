//! `tallyd status`

use std::io::IsTerminal;
use std::time::Duration;

use serde::Deserialize;

use super::Exit;
use crate::status::{PartitionStatus, Status, gather};
use crate::sync::Context;

/// How often `--watch` looks again.
const WATCH: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Look again every two seconds, until interrupted
    #[arg(long)]
    watch: bool,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    loop {
        let status = gather(&context).await;
        let text = if args.json { serde_json::to_string(&status)? } else { render(&context, &status) };
        if args.watch && !args.json && std::io::stdout().is_terminal() {
            // Clear the screen, go to its top.
            print!("\x1b[2J\x1b[H");
        }
        println!("{text}");
        if !args.watch {
            return Ok(if status.redis.up && status.mysql.up { Exit::Done } else { Exit::Failed });
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
        }
    }
}

/// What is shown of a run.
#[derive(Deserialize)]
struct RunLine {
    started_at: String,
    outcome: String,
    trigger: String,
    changes: u64,
    rows_written: u64,
    rejected: u64,
    left: u64,
    duration_ms: u64,
}

fn render(context: &Context, status: &Status) -> String {
    let server = |name: &str, up: bool, error: Option<&String>| match error {
        Some(error) if up => format!("{name}: up, but {error}"),
        Some(error) => format!("{name}: down: {error}"),
        None => format!("{name}: up"),
    };
    let mut lines = vec![
        format!("tallyd {}", status.version),
        server(&format!("redis ({})", status.redis.mode), status.redis.up, status.redis.error.as_ref()),
        server("mysql", status.mysql.up, status.mysql.error.as_ref()),
        format!("breaker: {}, degraded writes to replay: {}", status.breaker, number(status.degraded.pending)),
        String::new(),
        format!(
            "{:<14} {:>10} {:>10} {:>10} {:>10} {:>14}  lease",
            "partition", "dirty", "changes", "in flight", "oldest", "checkpoint"
        ),
    ];
    lines.extend(status.partitions.iter().map(|partition| partition_line(context, partition)));
    lines.push(String::new());
    lines.push(format!(
        "{:<24} {:>8} {:>9} {:>9} {:>9} {:>8} {:>6} {:>9}",
        "run", "outcome", "trigger", "changes", "rows", "rejected", "left", "took"
    ));
    let runs = status.last_runs.iter().filter_map(|run| serde_json::from_str::<RunLine>(run.get()).ok());
    lines.extend(runs.map(|run| {
        format!(
            "{:<24} {:>8} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6} ms",
            run.started_at,
            run.outcome,
            run.trigger,
            run.changes,
            run.rows_written,
            run.rejected,
            run.left,
            run.duration_ms
        )
    }));
    lines.join("\n")
}

fn partition_line(context: &Context, partition: &PartitionStatus) -> String {
    let PartitionStatus {
        target_type,
        shard,
        dirty,
        changes,
        inflight,
        oldest_change_ms,
        checkpoint,
        lease_owner,
        restoring,
    } = partition;
    let name = context.vocabulary.targets.iter().find(|t| t.code == *target_type).map_or("", |t| &t.name);
    let oldest = oldest_change_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1000));
    format!(
        "{:<14} {:>10} {:>10} {:>10} {:>10} {:>14}  {}{}",
        format!("{name} {target_type}/{shard}"),
        number(*dirty),
        number(*changes),
        number(*inflight),
        oldest,
        checkpoint.as_deref().unwrap_or("-"),
        lease_owner.as_deref().unwrap_or("free"),
        if *restoring == Some(true) { ", restoring" } else { "" },
    )
}

fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}
