//! `tallyd warm`

use std::sync::Arc;

use anyhow::anyhow;
use tokio_util::sync::CancellationToken;

use super::{Exit, output, progress, serve};
use crate::live::{Live, Warmed};
use crate::metrics::BreakerMetrics;
use crate::sync::{Context, Progress};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many targets: those with the greatest sums of counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    top: u64,
}

pub(super) async fn run(args: Args, context: Context) -> anyhow::Result<Exit> {
    let stop = CancellationToken::new();
    serve::stop_on_signals(&stop)?;
    let live = Live::new(Arc::new(context), BreakerMetrics::default());
    let progress = Progress::default();
    let warmed = tokio::select! {
        warmed = live.warm(args.top, &progress, &stop) => warmed,
        never = progress::show(&progress, "targets loaded") => match never {},
    };
    let warmed = warmed.map_err(|error| anyhow!("nothing more can be loaded: {error}"))?;
    output::result(text(&warmed))?;
    Ok(if warmed.failed > 0 || stop.is_cancelled() { Exit::Failed } else { Exit::Done })
}

fn text(warmed: &Warmed) -> String {
    let Warmed { loaded, already, failed, failure } = warmed;
    let failed = failure.as_ref().map(|failure| format!(", {failed} failed, the first because {failure}"));
    format!("loaded {loaded}, already there {already}{}", failed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_was_done() {
        let mut warmed = Warmed { loaded: 3, already: 97, ..Warmed::default() };
        assert_eq!(text(&warmed), "loaded 3, already there 97");
        (warmed.failed, warmed.failure) = (2, Some("target 1:7 is being synced".to_owned()));
        let told = "loaded 3, already there 97, 2 failed, the first because target 1:7 is being synced";
        assert_eq!(text(&warmed), told);
    }
}
