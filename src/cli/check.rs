//! `tallyd check`

use super::{Exit, output};
use crate::check::{Level, Report, check};
use crate::sync::Context;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    let report = check(&context).await;
    if args.json {
        output::json(&report)?
    } else {
        output::result(text(&report))?
    };
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for finding in &report.findings {
        let level = match finding.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        lines.push(format!("{level}  {}: {}", finding.name, finding.detail));
        lines.extend(finding.fix.iter().map(|fix| format!("      mend it: {fix}")));
    }
    lines.join("\n")
}
