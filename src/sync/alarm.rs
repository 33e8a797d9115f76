//! An alarm clock: it rings when a schedule says so, and somebody else does the work.
//!
//! `tokio-cron-scheduler` is trusted with no more than waking up. Its own cron jobs keep the UTC offset they were made
//! with, drop an expression they do not understand, and start a run without regard to the last; so each schedule has a
//! task here that decides by the wall clock whether it is time, and between decisions sleeps on a one-shot job. No
//! sleep is longer than a minute, and a sleep that the scheduler forgets (it loses a job whose turn comes before its
//! code is stored) or that a clock set back would draw out is ended by a timer of the runtime.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_cron_scheduler::{Job, JobScheduler};
use tracing::{debug, error, warn};

use crate::pulse::Pulses;
use crate::schedule::Schedule;

/// The longest sleep before the wall clock is looked at again.
const LONGEST_SLEEP: TimeDelta = TimeDelta::seconds(60);

/// How long after its time a job may come before it is given up: the scheduler looks every 500 ms.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a schedule may not move: longer than its longest sleep, with a scheduler that does nothing.
const SILENCE: Duration = Duration::from_secs(90);

/// Rings for any number of schedules until it is stopped or dropped.
pub struct Alarm {
    scheduler: JobScheduler,
    tasks: JoinSet<()>,
    schedules: HashMap<&'static str, AbortHandle>,
    pulses: Pulses,
}

impl Alarm {
    /// Starts the clock, with nothing to ring for yet. Every schedule shows in `pulses` that it is kept.
    pub async fn start(pulses: Pulses) -> anyhow::Result<Self> {
        let scheduler = JobScheduler::new().await.context("cannot make the scheduler")?;
        scheduler.start().await.context("cannot start the scheduler")?;
        Ok(Self { scheduler, tasks: JoinSet::new(), schedules: HashMap::new(), pulses })
    }

    /// Calls `ring` at every time of `schedule` from now on: never before the time, at most about a second after it,
    /// and once for several times that were missed. `ring` must not block; if it panics, the next time comes all the
    /// same. A schedule that had this name before ends.
    ///
    /// When the clock is set back, a time that was rung for is not rung for again, unless that meant more than one
    /// interval of silence.
    pub fn every(&mut self, name: &'static str, schedule: Schedule, ring: impl Fn() + Send + Sync + 'static) {
        if let Some(before) = self.schedules.remove(name) {
            before.abort();
        }
        let scheduler = self.scheduler.clone();
        let Some(mut plan) = Plan::new(schedule, Utc::now()) else {
            warn!(schedule = name, "never rings");
            return;
        };
        let pulse = self.pulses.add(format!("the schedule of {name}"), SILENCE);
        let task = self.tasks.spawn(pulse.of(async move {
            loop {
                match plan.at(Utc::now()) {
                    Step::Ring => {
                        debug!(schedule = name, "rings");
                        if catch_unwind(AssertUnwindSafe(&ring)).is_err() {
                            error!(schedule = name, "the schedule's callback panicked");
                        }
                    }
                    Step::Sleep(until) => doze(&scheduler, until).await,
                    Step::End => return warn!(schedule = name, "has no further time to ring"),
                }
            }
        }));
        self.schedules.insert(name, task);
    }

    /// Ends every schedule; when this returns, no callback is running and none will be called.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        if let Err(error) = self.scheduler.shutdown().await {
            warn!(%error, "the scheduler did not shut down");
        }
    }
}

/// Sleeps until about `until`: may wake early, or a few seconds late when the scheduler does not do its part.
async fn doze(scheduler: &JobScheduler, until: DateTime<Utc>) {
    let now = Utc::now();
    // The scheduler counts in whole seconds: from the one that has begun to the one that `until` is in.
    let seconds = Duration::from_secs(u64::try_from(until.timestamp() - now.timestamp()).unwrap_or(0));
    let longest = (until - now).to_std().unwrap_or_default() + PATIENCE;
    let woken = Arc::new(Notify::new());
    let wake = woken.clone();
    // Adding and removing wait for an answer that a lagging scheduler may not give.
    let armed = timeout(PATIENCE, async {
        let job = Job::new_one_shot(seconds, move |_, _| wake.notify_one())?;
        scheduler.add(job).await
    });
    let job = armed.await.ok().and_then(Result::ok);
    if timeout(longest, woken.notified()).await.is_ok() {
        return;
    }
    debug!("the scheduler did not wake; the timer did");
    if let Some(job) = job {
        timeout(PATIENCE, scheduler.remove(&job)).await.ok();
    }
}

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Ring,
    /// Look at the clock again then, or before.
    Sleep(DateTime<Utc>),
    End,
}

/// When a schedule rings next, whatever the wall clock does meanwhile.
#[derive(Debug)]
struct Plan {
    schedule: Schedule,
    /// The time it was rung for last, or when it began.
    last: DateTime<Utc>,
    /// The time to ring for next.
    due: DateTime<Utc>,
}

impl Plan {
    /// Begins at `now`; `None` when there is nothing to ring for.
    fn new(schedule: Schedule, now: DateTime<Utc>) -> Option<Self> {
        let due = schedule.next_after(now)?;
        Some(Self { schedule, last: now, due })
    }

    /// What to do at `now`. After `Ring`, the next answer is for the time after that.
    fn at(&mut self, now: DateTime<Utc>) -> Step {
        // Clocks go back by seconds when they are corrected, and by days when they were wrong. To wait for `due` is
        // right in the first case, and no more than doubles one interval; in the second it could last for ever.
        if now < self.last && self.last - now > self.due - self.last {
            let Some(due) = self.schedule.next_after(now) else { return Step::End };
            (self.last, self.due) = (now, due);
        }
        if now < self.due {
            return Step::Sleep(self.due.min(now + LONGEST_SLEEP));
        }
        let Some(next) = self.schedule.next_after(now) else { return Step::End };
        (self.last, self.due) = (self.due, next);
        Step::Ring
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use chrono_tz::UTC;
    use tokio::time::sleep;

    use super::*;

    fn utc(text: &str) -> DateTime<Utc> {
        format!("2026-{text}Z").parse().unwrap()
    }

    fn plan(expression: &str, start: &str) -> Plan {
        Plan::new(Schedule::parse(expression, UTC).unwrap(), utc(start)).unwrap()
    }

    /// Waits until `condition` holds, for at most 20 seconds.
    async fn until(what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < Duration::from_secs(20), "in vain for {what}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn rings_at_the_time_and_looks_at_the_clock_every_minute() {
        let mut nightly = plan("0 3 * * *", "01-01T02:57:30");
        assert_eq!(nightly.at(utc("01-01T02:57:30")), Step::Sleep(utc("01-01T02:58:30")));
        assert_eq!(nightly.at(utc("01-01T02:59:10")), Step::Sleep(utc("01-01T03:00:00")));
        assert_eq!(nightly.at(utc("01-01T02:59:59.999")), Step::Sleep(utc("01-01T03:00:00")));
        assert_eq!(nightly.at(utc("01-01T03:00:00")), Step::Ring);
        assert_eq!(nightly.at(utc("01-01T03:00:00")), Step::Sleep(utc("01-01T03:01:00")));
        assert_eq!(nightly.due, utc("01-02T03:00:00"));
    }

    #[test]
    fn times_that_a_suspended_machine_missed_are_one() {
        let mut often = plan("*/5 * * * *", "01-01T00:00:00");
        assert_eq!(often.at(utc("01-03T07:12:00")), Step::Ring);
        assert_eq!(often.at(utc("01-03T07:12:00")), Step::Sleep(utc("01-03T07:13:00")));
        assert_eq!(often.due, utc("01-03T07:15:00"));
    }

    #[test]
    fn a_clock_set_back_a_little_does_not_ring_twice() {
        for (expression, back) in [("*/5 * * * *", "01-01T02:58:00"), ("0 3 * * *", "01-01T01:00:00")] {
            let mut plan = plan(expression, "01-01T02:57:00");
            assert_eq!(plan.at(utc("01-01T03:00:00.4")), Step::Ring);
            let due = plan.due;
            assert!(matches!(plan.at(utc(back)), Step::Sleep(_)));
            assert!(matches!(plan.at(utc("01-01T03:00:00.1")), Step::Sleep(_)), "{expression} rang twice for 03:00");
            assert_eq!(plan.due, due);
        }
    }

    #[test]
    fn a_clock_set_back_far_does_not_silence() {
        let mut often = plan("*/5 * * * *", "06-01T00:00:00");
        assert_eq!(often.at(utc("06-01T00:05:00")), Step::Ring);
        assert!(matches!(often.at(utc("05-31T22:03:00")), Step::Sleep(_)));
        assert_eq!(often.at(utc("05-31T22:05:00")), Step::Ring);
        // Begun under a clock three months ahead.
        let mut nightly = plan("0 3 * * *", "06-01T00:00:00");
        assert!(matches!(nightly.at(utc("03-01T02:00:00")), Step::Sleep(_)));
        assert_eq!(nightly.at(utc("03-01T03:00:00")), Step::Ring);
    }

    #[tokio::test]
    async fn rings_every_second_never_early_and_never_twice() {
        let mut alarm = Alarm::start(Pulses::default()).await.unwrap();
        let times = Arc::new(Mutex::new(Vec::new()));
        let pushed = times.clone();
        let begun = Utc::now();
        let every_second = Schedule::parse("* * * * * *", UTC).unwrap();
        alarm.every("test", every_second, move || pushed.lock().unwrap().push(Utc::now()));
        until("five rings", || times.lock().unwrap().len() >= 5).await;
        let storage = alarm.scheduler.context.metadata_storage.clone();
        let jobs = storage.write().await.list_next_ticks().await.unwrap().len();
        assert!(jobs <= 3, "{jobs} jobs are left in the scheduler");
        alarm.stop().await;

        assert_eq!(Arc::strong_count(&times), 1, "the callback is gone");
        let seconds: Vec<_> = times.lock().unwrap().iter().map(DateTime::timestamp).collect();
        assert!(seconds[0] > begun.timestamp(), "{seconds:?} begun {begun}");
        assert!(seconds.windows(2).all(|pair| pair[0] < pair[1]), "{seconds:?}");
    }

    #[tokio::test]
    async fn a_panic_or_a_lost_job_does_not_end_a_schedule() {
        let mut alarm = Alarm::start(Pulses::default()).await.unwrap();
        // From here on the scheduler forgets every job.
        alarm.scheduler.clone().shutdown().await.unwrap();
        let rings = Arc::new(AtomicUsize::new(0));
        let ring = rings.clone();
        alarm.every("test", Schedule::parse("* * * * * *", UTC).unwrap(), move || {
            assert!(ring.fetch_add(1, Ordering::Relaxed) > 0, "the first ring fails");
        });
        until("two rings", || rings.load(Ordering::Relaxed) >= 2).await;
        alarm.stop().await;
    }
}
