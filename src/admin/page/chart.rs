//! How long the last runs took, as bars.

use maud::{Markup, html};

use crate::last_run::LastRun;
use crate::report::words::{counted, duration};

/// Width of a bar and its gap.
const STEP: usize = 20;
const BAR: usize = 14;
const HEIGHT: u64 = 60;
/// Room for so many; fewer stand at the right.
const ROOM: usize = 20;

/// `runs`: newest first; drawn from left to right, oldest first.
pub(super) fn chart(runs: &[LastRun]) -> Markup {
    let longest = runs.iter().map(|run| run.duration_ms).max().unwrap_or_default();
    let failed = runs.iter().filter(|run| !run.is_done()).count();
    let (width, empty) = (ROOM * STEP, ROOM.saturating_sub(runs.len()));
    html! {
        svg class="chart" viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img"
            aria-labelledby="chart-title chart-desc" {
            title id="chart-title" { "How long the last runs took" }
            desc id="chart-desc" {
                (counted(runs.len() as u64, "run", "runs")) ", oldest first; the longest took " (duration(longest)) "; "
                (failed) " not done."
            }
            @for (at, run) in runs.iter().rev().enumerate() {
                @let height = height(run.duration_ms, longest);
                rect class=(if run.is_done() { "done" } else { "undone" }) x=((empty + at) * STEP + (STEP - BAR) / 2)
                    y=(HEIGHT - height) width=(BAR) height=(height) {
                    title { (run.started_at) ": " (run.outcome) ", " (duration(run.duration_ms)) }
                }
            }
        }
        p class="below" aria-hidden="true" { "How long each took; the longest " (duration(longest)) }
    }
}

/// A run that took next to nothing is seen, too.
fn height(took: u64, longest: u64) -> u64 {
    let share = u128::from(took) * u128::from(HEIGHT) / u128::from(longest.max(1));
    u64::try_from(share).unwrap_or(HEIGHT).clamp(2, HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_within_the_chart() {
        for (took, longest, expected) in [(0, 0, 2), (0, 9, 2), (5, 10, 30), (10, 10, 60), (u64::MAX, u64::MAX, 60)] {
            assert_eq!(height(took, longest), expected, "{took} of {longest}");
        }
    }
}
