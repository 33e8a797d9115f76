//! The circuit breaker: who still waits for Redis, and where reads are answered.
//!
//! It opens when more than a tenth of at least twenty calls in ten seconds fail; then nobody waits for Redis. A probe
//! that succeeds lets writes go to Redis again; reads stay with MySQL until the journal of degraded writes has been
//! replayed, for until then Redis does not know them. A single call that fails leaves it closed: that write goes to
//! MySQL alone, and reads of its target stay with MySQL for as long.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::metrics::BreakerMetrics;
use crate::model::Id;

/// The time that is looked back, in slots of a second.
const SLOTS: u64 = 10;
/// The same, as a length.
const RING: usize = 10;
/// Fewer calls say nothing.
const CALLS: u64 = 20;
/// More failures than one call in so many open it.
const ONE_IN: u64 = 10;
/// Targets that are remembered one by one while it is closed; with more, all reads are answered by MySQL.
const TOUCHED: usize = 10_000;

/// Where calls go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// To Redis.
    Closed,
    /// To MySQL.
    Open,
    /// Writes to Redis; reads to MySQL, until every degraded write is replayed.
    Replaying,
}

impl BreakerState {
    /// The word in `/status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Replaying => "replaying",
        }
    }
}

/// Calls of the last ten seconds.
#[derive(Debug, Default)]
struct Window {
    slots: [Slot; RING],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    second: u64,
    calls: u64,
    failures: u64,
}

impl Window {
    /// Notes calls; answers calls and failures if the failures are too many.
    fn note(&mut self, second: u64, calls: u64, failed: bool) -> Option<(u64, u64)> {
        let at = usize::try_from(second % SLOTS).unwrap_or_default();
        if self.slots[at].second != second {
            self.slots[at] = Slot { second, ..Slot::default() };
        }
        self.slots[at].calls += calls;
        if !failed {
            return None;
        }
        self.slots[at].failures += calls;
        let recent = self.slots.iter().filter(|slot| slot.second + SLOTS > second);
        let (calls, failures) = recent.fold((0, 0), |(calls, failures), s| (calls + s.calls, failures + s.failures));
        (calls >= CALLS && failures * ONE_IN > calls).then_some((calls, failures))
    }
}

#[derive(Debug, Default)]
struct Inner {
    window: Window,
    touched: HashSet<(u16, Id)>,
    /// One greater with every degraded write that begins.
    generation: u64,
    /// Degraded writes that have begun and may still be committed.
    under_way: u64,
    /// Degraded writes acknowledged since reads were last all answered by Redis.
    accepted: u64,
    since: Option<Instant>,
}

/// What ended when reads went back to Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Closed {
    /// Whether the breaker had opened, or single writes had gone to MySQL while it was closed.
    pub(super) was_open: bool,
    /// Degraded writes that were acknowledged.
    pub(super) accepted: u64,
    /// For how long reads were not all answered by Redis.
    pub(super) time: Duration,
}

/// Degraded writes that may still be committed.
pub(super) struct UnderWay(Breaker);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

/// The breaker of a process. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    inner: Arc<Mutex<Inner>>,
    state: watch::Sender<BreakerState>,
    /// Whether the journal has to be watched: the generation of the last degraded write, 0 when it need not be.
    owed: watch::Sender<u64>,
    start: Instant,
    metrics: BreakerMetrics,
}

impl Breaker {
    pub(super) fn new(metrics: BreakerMetrics) -> Self {
        let (state, owed) = (watch::Sender::new(BreakerState::Closed), watch::Sender::new(0));
        Self { inner: Arc::default(), state, owed, start: Instant::now(), metrics }
    }

    pub(super) fn state(&self) -> BreakerState {
        *self.state.borrow()
    }

    pub(super) fn watch(&self) -> (watch::Receiver<BreakerState>, watch::Receiver<u64>) {
        (self.state.subscribe(), self.owed.subscribe())
    }

    /// Whether a read of this target must not be answered by Redis.
    pub(super) fn reads_mysql(&self, target_type: u16, target: Id) -> bool {
        self.state() != BreakerState::Closed
            || (*self.owed.borrow() > 0 && self.lock().touched.contains(&(target_type, target)))
    }

    /// Calls to Redis ended. What counts is whether Redis was there, not what it answered.
    pub(super) fn note(&self, calls: u64, failed: bool) {
        if calls == 0 || self.state() == BreakerState::Open {
            return;
        }
        let second = self.start.elapsed().as_secs() + SLOTS;
        let too_many = self.lock().window.note(second, calls, failed);
        if let Some((calls, failures)) = too_many {
            self.open(&format!("{failures} of {calls} calls to Redis failed within {SLOTS} s"));
        }
    }

    fn open(&self, why: &str) {
        if self.state.send_replace(BreakerState::Open) == BreakerState::Open {
            return;
        }
        let mut inner = self.lock();
        inner.window = Window::default();
        inner.since.get_or_insert_with(Instant::now);
        drop(inner);
        self.metrics.open(true);
        tracing::warn!("breaker open: {why}; writes go to MySQL and its journal, reads are answered by MySQL");
    }

    /// Writes to these targets are about to go to MySQL; they may be committed until what is answered is dropped.
    pub(super) fn degrading(&self, targets: impl Iterator<Item = (u16, Id)>) -> UnderWay {
        let mut inner = self.lock();
        inner.touched.extend(targets);
        inner.generation += 1;
        inner.under_way += 1;
        inner.since.get_or_insert_with(Instant::now);
        let (generation, many) = (inner.generation, inner.touched.len() > TOUCHED);
        if many {
            inner.touched.clear();
        }
        drop(inner);
        self.owed.send_replace(generation);
        if many && self.state() == BreakerState::Closed {
            self.replaying();
        }
        UnderWay(self.clone())
    }

    /// So many degraded writes were acknowledged.
    pub(super) fn accepted(&self, writes: u64) {
        self.lock().accepted += writes;
        self.metrics.degraded(writes);
    }

    /// How many degraded writes were acknowledged since reads were last all answered by Redis.
    pub(super) fn acknowledged(&self) -> u64 {
        self.lock().accepted
    }

    /// For how long reads have not all been answered by Redis.
    pub(super) fn degraded_for(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    /// Redis takes writes again.
    pub(super) fn replaying(&self) {
        self.state.send_replace(BreakerState::Replaying);
        self.metrics.open(true);
    }

    /// The generation by which an empty journal is judged: what begins later may not be in it yet. `None` while a write
    /// is under way, which may not be in it either.
    pub(super) fn generation(&self) -> Option<u64> {
        let inner = self.lock();
        (inner.under_way == 0).then_some(inner.generation)
    }

    /// Every degraded write up to `generation` is replayed: reads go back to Redis, unless others have begun since.
    pub(super) fn close(&self, generation: u64) -> Option<Closed> {
        let mut inner = self.lock();
        if inner.generation != generation || self.state() == BreakerState::Open {
            return None;
        }
        inner.touched.clear();
        let accepted = std::mem::take(&mut inner.accepted);
        let time = inner.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.owed.send_replace(0);
        let was_open = self.state.send_replace(BreakerState::Closed) != BreakerState::Closed;
        drop(inner);
        self.metrics.open(false);
        Some(Closed { was_open, accepted, time })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_tenth_of_twenty_calls_in_ten_seconds() {
        let mut window = Window::default();
        for call in 0..17 {
            assert_eq!(window.note(100 + call / 5, 1, false), None);
        }
        assert_eq!([18, 19].map(|_| window.note(104, 1, true)), [None, None], "fewer than twenty calls");
        assert_eq!(window.note(105, 1, true), Some((20, 3)));
        assert_eq!(window.note(200, 1, true), None, "what is long ago does not count");
        let mut window = Window::default();
        for call in 0..1000_u64 {
            assert_eq!(window.note(call / 100, 1, call % 10 == 9), None, "a tenth is not more than a tenth");
        }
    }

    #[test]
    fn reads_return_to_redis_only_when_no_degraded_write_has_begun_since() {
        let breaker = Breaker::new(BreakerMetrics::default());
        let (one, two) = (1.try_into().unwrap(), 2.try_into().unwrap());
        assert!(!breaker.reads_mysql(1, one));
        let under_way = breaker.degrading([(1, one)].into_iter());
        assert!(breaker.reads_mysql(1, one) && !breaker.reads_mysql(1, two));
        assert_eq!(breaker.generation(), None, "it may not be in the journal yet");
        drop(under_way);
        breaker.accepted(1);
        let before = breaker.generation().unwrap();
        drop(breaker.degrading([(1, two)].into_iter()));
        assert_eq!(breaker.close(before), None);
        assert!(breaker.reads_mysql(1, two));
        let closed = breaker.close(breaker.generation().unwrap()).unwrap();
        assert_eq!((closed.was_open, closed.accepted), (false, 1));
        assert!(!breaker.reads_mysql(1, one) && !breaker.reads_mysql(1, two));

        breaker.open("test");
        assert!(breaker.reads_mysql(9, one));
        assert_eq!(breaker.close(breaker.generation().unwrap()), None, "an open breaker closes after a probe only");
        breaker.replaying();
        assert!(breaker.close(breaker.generation().unwrap()).unwrap().was_open);
    }
}
