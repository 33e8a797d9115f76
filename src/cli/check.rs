//! `tallyd check`

use super::Exit;
use crate::check::{Level, check};
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
        println!("{}", serde_json::to_string(&report)?);
    } else {
        for finding in &report.findings {
            let level = match finding.level {
                Level::Ok => "ok  ",
                Level::Warn => "warn",
                Level::Fail => "FAIL",
            };
            println!("{level}  {}: {}", finding.name, finding.detail);
            if let Some(fix) = &finding.fix {
                println!("      mend it: {fix}");
            }
        }
    }
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}
