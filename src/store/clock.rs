//! The clock that orders the writes of one process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the best look at Redis' clock is kept: quartz clocks part by less than a millisecond in that time.
const KEPT: Duration = Duration::from_secs(10);

/// Orders the writes of one caller, whatever Redis' clock does.
///
/// An event time is the larger of Redis `TIME` and the greatest event time seen so far plus the monotonic time
/// passed since (a hybrid logical clock: Kulkarni et al., 2014). An event that Redis does not see is given what its clock
/// must say by now: half the round trip is added to what it said (Cristian, 1989), so that it comes after what others
/// wrote to Redis before, and before what they will write, as far as that is known: within half of the shortest round
/// trip of the last seconds.
#[derive(Debug, Default)]
pub struct EventClock {
    seen: Mutex<Option<Seen>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    event_ms: i64,
    event_at: Instant,
    redis_ms: i64,
    redis_at: Instant,
    best: Look,
}

/// A look at Redis' clock.
#[derive(Clone, Copy, Debug)]
struct Look {
    round_trip: Duration,
    /// What it must have said when its answer arrived, microseconds.
    middle_us: i64,
    at: Instant,
}

fn after(start_ms: i64, at: Instant) -> i64 {
    start_ms.saturating_add(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX))
}

impl EventClock {
    /// The greatest event time that may have been given by now, and Redis' time by now; the latter never runs ahead
    /// of the real one by more than its clock was stepped back. `None` before the first answer.
    pub(super) fn now(&self) -> Option<(i64, i64)> {
        let seen = (*self.lock())?;
        Some((after(seen.event_ms, seen.event_at), after(seen.redis_ms, seen.redis_at)))
    }

    /// The time for an event that Redis does not see, and not before any event that was given. Unix milliseconds; `None`
    /// before Redis was first heard.
    #[must_use]
    pub fn unseen_ms(&self) -> Option<i64> {
        let seen = (*self.lock())?;
        let elapsed_us = i64::try_from(seen.best.at.elapsed().as_micros()).unwrap_or(i64::MAX);
        let middle_ms = seen.best.middle_us.saturating_add(elapsed_us).saturating_add(999) / 1000;
        Some(after(seen.event_ms, seen.event_at).max(middle_ms))
    }

    /// An event was given this time by somebody else than Redis.
    pub fn gave(&self, event_ms: i64) {
        if let Some(seen) = &mut *self.lock()
            && after(seen.event_ms, seen.event_at) <= event_ms
        {
            (seen.event_ms, seen.event_at) = (event_ms, Instant::now());
        }
    }

    /// Redis has just told its time and an event time, asked at `sent`.
    pub(super) fn saw(&self, redis_ms: i64, event_ms: i64, sent: Instant) {
        let now = Instant::now();
        let round_trip = now - sent;
        let half_us = i64::try_from(round_trip.as_micros() / 2).unwrap_or(i64::MAX);
        // It tells whole milliseconds that have passed: half of one more is the middle again.
        let middle_us = redis_ms.saturating_mul(1000).saturating_add(500).saturating_add(half_us);
        let look = Look { round_trip, middle_us, at: now };
        let mut seen = self.lock();
        let older = seen.filter(|s| after(s.event_ms, s.event_at) > event_ms);
        let (event_ms, event_at) = older.map_or((event_ms, now), |s| (s.event_ms, s.event_at));
        let better = seen.map(|s| s.best).filter(|best| best.round_trip < round_trip && best.at.elapsed() < KEPT);
        *seen = Some(Seen { event_ms, event_at, redis_ms, redis_at: now, best: better.unwrap_or(look) });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_times_never_go_back_when_redis_time_does() {
        let clock = EventClock::default();
        assert_eq!(clock.now(), None);
        clock.saw(5_000, 5_000, Instant::now());
        clock.saw(1_000, 1_000, Instant::now());
        let (event_ms, redis_ms) = clock.now().unwrap();
        assert!(event_ms >= 5_000, "the greatest event time seen stays: {event_ms}");
        assert!((1_000..5_000).contains(&redis_ms), "deadlines follow the clock that Redis has now: {redis_ms}");
    }

    #[test]
    fn an_event_that_redis_does_not_see_is_given_the_middle_of_the_shortest_round_trip() {
        let clock = EventClock::default();
        assert_eq!(clock.unseen_ms(), None);
        let ago = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
        clock.saw(50_000, 50_000, ago(40));
        let first = clock.unseen_ms().unwrap();
        assert!((50_020..50_030).contains(&first), "{first}");
        clock.saw(50_000, 50_000, ago(4));
        let better = clock.unseen_ms().unwrap();
        assert!((50_003..50_010).contains(&better), "{better}");
        clock.saw(50_000, 50_000, ago(100));
        assert!(clock.unseen_ms().unwrap() < 50_020, "a longer one says less");
        clock.gave(90_000);
        assert!(clock.unseen_ms().unwrap() >= 90_000);
        clock.gave(1);
        assert!(clock.unseen_ms().unwrap() >= 90_000);
        assert!(clock.now().unwrap().1 < 60_000, "deadlines are not moved by that");
    }
}
