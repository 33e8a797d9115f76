//! Signs of life of the loops that must not stand still.
//!
//! A loop beats whenever it is polled: what it waited for has come, or the time limit of the wait is over. Every wait of
//! such a loop has a limit, an idle one wakes now and then, and the work that it hands to other tasks beats for it. So a
//! long run beats as long as it gets on, and one that waits for what never comes, or never gives its thread back, does
//! not. No timer beats for another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The pulse of one loop. Clones are the same pulse; nobody looks at the default one.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    beats: AtomicU64,
    end: OnceLock<End>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// It was meant to.
    Ended,
    /// By a panic.
    Died,
}

impl Pulse {
    /// A sign of life.
    pub fn beat(&self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Does `work`, and beats whenever it is polled.
    pub fn during<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let (pulse, mut work) = (self.clone(), Box::pin(work));
        std::future::poll_fn(move |cx| {
            pulse.beat();
            work.as_mut().poll(cx)
        })
    }

    /// The same with all that a loop does: when that ends, nobody looks any more; when it panics, it counts as dead.
    pub fn of<F: Future>(&self, whole: F) -> impl Future<Output = F::Output> + use<F> {
        let (until_end, whole) = (self.until_dropped(), self.during(whole));
        async move {
            let _until_end = until_end;
            whole.await
        }
    }

    /// Nobody looks any more when the answer is dropped; by a panic, it counts as dead.
    #[must_use]
    pub fn until_dropped(&self) -> UntilDropped {
        UntilDropped(self.clone())
    }
}

/// See [`Pulse::until_dropped`].
#[derive(Debug)]
pub struct UntilDropped(Pulse);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        let end = if std::thread::panicking() { End::Died } else { End::Ended };
        // The first end counts.
        let _known = self.0.0.end.set(end);
    }
}

/// The pulses that somebody looks at. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pulses(Arc<Mutex<Vec<Watched>>>);

#[derive(Debug)]
struct Watched {
    name: String,
    pulse: Pulse,
    limit: Duration,
    seen: u64,
    silent: Duration,
}

/// What is wrong with a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It has not moved for so long.
    Stuck(String, Duration),
    /// It has panicked.
    Dead(String),
}

impl Pulses {
    /// A pulse for the loop `name`, which may be silent for as long as `limit`.
    #[must_use]
    pub fn add(&self, name: impl Into<String>, limit: Duration) -> Pulse {
        let pulse = Pulse::default();
        let name = name.into();
        self.lock().push(Watched { name, pulse: pulse.clone(), limit, seen: 0, silent: Duration::ZERO });
        pulse
    }

    /// What is wrong, when so much time has `passed` since the last look. A process that stood still as a whole counts as
    /// little more than a look apart, whatever the clock says: `passed` is the caller's to cut.
    #[must_use]
    pub fn look(&self, passed: Duration) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        self.lock().retain_mut(|watched| {
            let beats = watched.pulse.0.beats.load(Ordering::Relaxed);
            watched.silent = if beats == watched.seen { watched.silent + passed } else { Duration::ZERO };
            watched.seen = beats;
            match watched.pulse.0.end.get() {
                Some(End::Ended) => return false,
                Some(End::Died) => troubles.push(Trouble::Dead(watched.name.clone())),
                None if watched.silent >= watched.limit => {
                    troubles.push(Trouble::Stuck(watched.name.clone(), watched.silent));
                }
                None => {}
            }
            true
        });
        troubles
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_is_silent_for_too_long_is_stuck_and_who_beats_again_is_not() {
        let pulses = Pulses::default();
        let (one, other) = (pulses.add("one", 3 * SECOND), pulses.add("other", 60 * SECOND));
        assert_eq!([SECOND, SECOND].map(|passed| pulses.look(passed)), [vec![], vec![]]);
        assert_eq!(pulses.look(SECOND), [Trouble::Stuck("one".into(), 3 * SECOND)]);
        one.beat();
        assert_eq!(pulses.look(SECOND), []);
        drop((one, other));
        assert_eq!(
            pulses.look(5 * SECOND),
            [Trouble::Stuck("one".into(), 5 * SECOND)],
            "a pulse that is lost is silent"
        );
    }

    #[tokio::test]
    async fn waiting_is_silent_an_end_is_no_trouble_and_a_panic_is() {
        let pulses = Pulses::default();
        let waiting = tokio::spawn(pulses.add("waiting", SECOND).of(pending::<()>()));
        tokio::spawn(pulses.add("ended", SECOND).of(ready(()))).await.unwrap();
        let never_polled = pulses.add("never polled", SECOND).of(pending::<()>());
        drop(never_polled);
        let panics = pulses.add("panics", 60 * SECOND).of(async { panic!("on purpose") });
        assert!(tokio::spawn(panics).await.is_err());
        assert_eq!(pulses.look(SECOND), [Trouble::Dead("panics".into())]);
        assert_eq!(pulses.look(SECOND), [Trouble::Stuck("waiting".into(), SECOND), Trouble::Dead("panics".into())]);
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(pulses.look(SECOND), [Trouble::Dead("panics".into())]);
    }
}
