//! `tallyd status`

mod text;

use std::io::IsTerminal;
use std::time::Duration;

use super::Exit;
use super::output::{self, Reader};
use crate::status::{Status, gather};
use crate::sync::Context;

/// How often `--watch` looks again.
const WATCH: Duration = Duration::from_secs(2);

/// Clears the screen and goes to its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

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
    let clear = if args.watch && !args.json && std::io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let status = gather(&context, None).await;
        let reader = if args.json {
            output::json(&status)?
        } else {
            output::result(format_args!("{clear}{}", text::render(&context.vocabulary, &status)))?
        };
        if !args.watch {
            return Ok(exit(&status));
        }
        if reader == Reader::Gone {
            return Ok(Exit::Done);
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
        }
    }
}

/// A MySQL that has not the schema knows none of what was asked for.
fn exit(status: &Status) -> Exit {
    if status.redis.up && status.mysql.up && status.mysql.error.is_none() { Exit::Done } else { Exit::Failed }
}
