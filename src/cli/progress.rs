//! Progress on stderr: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use crate::sync::Progress;

/// How often a bar moves.
const BAR: Duration = Duration::from_millis(100);
/// How often a line is printed, if there is something new to say.
const LINE: Duration = Duration::from_secs(5);

/// Shows how far the work has got, until the future is dropped. `done` says what is done, such as "marks copied".
pub(super) async fn show(progress: &Progress, done: &str) -> std::convert::Infallible {
    if !std::io::stderr().is_terminal() {
        let mut said = (0, 0);
        loop {
            tokio::time::sleep(LINE).await;
            if let Some(line) = news(&mut said, progress.read(), done) {
                output::note(line);
            }
        }
    }
    let bar = ProgressBar::new(0);
    let template =
        format!("{{elapsed_precise}} {{wide_bar}} {{human_pos}}/{{human_len}} {done}, {{per_sec}}, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    let _cleared = Clear(bar.clone());
    loop {
        let (position, total) = progress.read();
        bar.set_length(total);
        bar.set_position(position);
        tokio::time::sleep(BAR).await;
    }
}

/// A line, unless the last one said the same.
fn news(said: &mut (u64, u64), now: (u64, u64), done: &str) -> Option<String> {
    let (position, total) = now;
    (std::mem::replace(said, now) != now).then(|| format!("{position} of {total} {done}"))
}

struct Clear(ProgressBar);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_have_not_moved_are_not_repeated() {
        let mut said = (0, 0);
        let lines = [(0, 0), (0, 7), (0, 7), (3, 7), (3, 7), (3, 9)].map(|now| news(&mut said, now, "marks copied"));
        let lines: Vec<_> = lines.iter().map(|line| line.as_deref().unwrap_or_default()).collect();
        assert_eq!(lines, ["", "0 of 7 marks copied", "", "3 of 7 marks copied", "", "3 of 9 marks copied"]);
    }
}
