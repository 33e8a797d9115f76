//! `tallyd status`

mod text;

use std::io::IsTerminal;
use std::time::Duration;

use console::Term;

use super::Exit;
use super::output::{self, Reader};
use crate::status::{Status, gather};
use crate::sync::Context;

/// How often `--watch` looks again.
const WATCH: Duration = Duration::from_secs(2);

/// To the top of the screen; what was there is written over, so that nothing flickers.
const TOP: &str = "\x1b[H";
/// Clears the rest of a line, and of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

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
    let on_terminal = std::io::stdout().is_terminal();
    let mut interrupted = std::pin::pin!(interruption(args.watch));
    let mut first = true;
    loop {
        let status = tokio::select! {
            status = Box::pin(gather(&context, None)) => status,
            () = &mut interrupted => return Ok(Exit::Done),
        };
        let reader = if args.json {
            output::json(&status)?
        } else {
            let window = (args.watch && on_terminal).then(|| Term::stdout().size());
            output::result(shown(&text::render(&context.vocabulary, &status), window, first))?
        };
        if !args.watch {
            return Ok(exit(&status));
        }
        if reader == Reader::Gone {
            return Ok(Exit::Done);
        }
        first = false;
        tokio::select! {
            () = tokio::time::sleep(WATCH) => {}
            () = &mut interrupted => return Ok(Exit::Done),
        }
    }
}

/// Ends at Ctrl-C, which ends the process itself when nothing is watched.
async fn interruption(watched: bool) {
    if watched {
        let _no_handler_no_watch = tokio::signal::ctrl_c().await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// The text as it is printed: over what was there in a window of so many rows and columns, or after an empty line. Errors
/// quote what servers said, which must not speak to the terminal.
fn shown(text: &str, window: Option<(u16, u16)>, first: bool) -> String {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    match (window, first) {
        (Some(window), _) => {
            let text = fitted(&text, window).replace('\n', &format!("{REST_OF_LINE}\n"));
            format!("{TOP}{text}{REST_OF_LINE}{REST_OF_SCREEN}")
        }
        (None, true) => text,
        (None, false) => format!("\n{text}"),
    }
}

/// What there is room for: a line too many, or too long, would move all others. The last row is the cursor's.
fn fitted(text: &str, (rows, columns): (u16, u16)) -> String {
    let (rows, all) = (usize::from(rows).saturating_sub(1).max(1), text.lines().count());
    let more = format!("… {} lines more: tallyd status", (all + 1).saturating_sub(rows));
    let kept = if all > rows { rows - 1 } else { all };
    let lines = text.lines().take(kept).chain((all > rows).then_some(more.as_str()));
    lines.map(|line| line.chars().take(usize::from(columns)).collect()).collect::<Vec<String>>().join("\n")
}

/// A MySQL that has not the schema knows none of what was asked for.
fn exit(status: &Status) -> Exit {
    if status.redis.up && status.mysql.up && status.mysql.error.is_none() { Exit::Done } else { Exit::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_drawn_over_what_was_there_and_servers_do_not_speak_to_the_terminal() {
        assert_eq!(shown("a\x1b[2Jb\nc", Some((24, 80)), false), "\x1b[Ha\u{fffd}[2Jb\x1b[K\nc\x1b[K\x1b[J");
        assert_eq!([true, false].map(|first| shown("a\nb", None, first)), ["a\nb", "\na\nb"]);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let text = "one\ntwo\nthree";
        assert_eq!(fitted(text, (4, 3)), "one\ntwo\nthr");
        assert_eq!(fitted(text, (3, 12)), "one\n… 2 lines mo");
        for size in [(0, 0), (1, 1), (2, 80), (u16::MAX, u16::MAX)] {
            assert!(fitted(text, size).lines().count() <= usize::from(size.0).max(1), "{size:?}");
        }
    }
}
