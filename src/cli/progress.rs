//! Progress on stderr: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::sync::Progress;

/// How often a bar moves.
const BAR: Duration = Duration::from_millis(100);
/// How often a line is printed.
const LINE: Duration = Duration::from_secs(5);

/// Shows how far a run has got, until the future is dropped.
pub(super) async fn show(progress: &Progress) -> std::convert::Infallible {
    if !std::io::stderr().is_terminal() {
        loop {
            tokio::time::sleep(LINE).await;
            let (done, total) = progress.read();
            eprintln!("{done} of {total} marks copied");
        }
    }
    let bar = ProgressBar::new(0);
    let template = "{elapsed_precise} {wide_bar} {human_pos}/{human_len} marks, {per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let _cleared = Clear(bar.clone());
    loop {
        let (done, total) = progress.read();
        bar.set_length(total);
        bar.set_position(done);
        tokio::time::sleep(BAR).await;
    }
}

struct Clear(ProgressBar);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
