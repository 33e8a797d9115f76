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
    let report = Box::pin(check(&context)).await;
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
        // A command has a line of its own, whole, to be copied.
        match (&finding.fix, &finding.command) {
            (Some(fix), Some(command)) => {
                lines.push(format!("      mend it: {command}"));
                let rest = fix.strip_prefix(command.as_str()).unwrap_or_default().trim_start_matches(", ");
                lines.extend((!rest.is_empty()).then(|| format!("               {rest}")));
            }
            (Some(fix), None) => lines.push(format!("      mend it: {fix}")),
            (None, Some(command)) => lines.push(format!("      the least: {command}")),
            (None, None) => {}
        }
    }
    lines.join("\n")
}
