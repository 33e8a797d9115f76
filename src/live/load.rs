//! Loading a target from MySQL when something is wanted of it that Redis does not know.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::flight::{Flight, Flights};
use super::{Live, LiveError, Silent};
use crate::model::Id;
use crate::sink::SinkError;
use crate::store::{Busy, Ended, Loading, StoreError, Uncounted, Wanted, Why};

/// How often somebody else's load is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Targets that may be loaded at once: requests for those that Redis holds must find room beside them.
const PLACES: usize = 256;
/// How long nobody tries to load after MySQL did not answer.
const AWAY: Duration = Duration::from_secs(1);

/// Why a target was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NotLoaded {
    /// Redis is away.
    Redis(LiveError),
    /// MySQL cannot be reached, or refuses to be read.
    Mysql(LiveError),
    /// A key of the target has a wrong type. Or for longer than briefly: a restore, a run that has the target in hand,
    /// somebody else's load, or no room. Or a count that cannot be taken while the target has changes that only one side
    /// has.
    Busy(LiveError),
}

impl From<NotLoaded> for LiveError {
    fn from(reason: NotLoaded) -> Self {
        let (NotLoaded::Redis(error) | NotLoaded::Mysql(error) | NotLoaded::Busy(error)) = reason;
        error
    }
}

/// Who loaded what was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loaded {
    /// It was known already, or somebody else did.
    Already,
    /// This call did.
    Here,
}

/// What all loads of a process share.
pub(super) struct Loads {
    places: Semaphore,
    flights: Flights,
    away: Mutex<Option<(Instant, LiveError)>>,
}

impl Loads {
    pub(super) fn new() -> Self {
        Self { places: Semaphore::new(PLACES), flights: Flights::default(), away: Mutex::default() }
    }

    /// The error of a moment ago, when MySQL did not answer: nobody queues up behind that.
    fn away(&self) -> Result<(), NotLoaded> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match &*away {
            Some((since, error)) if since.elapsed() < AWAY => Err(NotLoaded::Mysql(error.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn failed(&self, error: &SinkError) -> NotLoaded {
        let told = LiveError::unavailable(error.to_string());
        if matches!(error, SinkError::Unreachable { .. }) {
            *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), told.clone()));
        }
        NotLoaded::Mysql(told)
    }
}

impl Live {
    /// Sees to it that what is wanted of a target is known, whoever loads it. What others have in hand is waited for
    /// briefly.
    pub(super) async fn load(&self, target_type: u16, target: Id, wanted: Wanted) -> Result<(), NotLoaded> {
        self.load_here(target_type, target, wanted).await.map(drop)
    }

    /// As [`Live::load`], and answers who did it.
    pub(super) async fn load_here(&self, target_type: u16, target: Id, wanted: Wanted) -> Result<Loaded, NotLoaded> {
        let begun = Instant::now();
        // One of this process loads a target for all; the others wait for their turn, and find it loaded.
        let flight = self.loading.flights.join((target_type, target), &wanted);
        let _turn = flight.turn().await;
        if let Some(failure) = flight.failure_since(begun) {
            return Err(failure);
        }
        let outcome = self.load_in_turn(begun, (target_type, target), &wanted, &flight).await;
        if let Err(failure @ (NotLoaded::Redis(_) | NotLoaded::Mysql(_))) = &outcome {
            flight.fail(failure);
        }
        outcome
    }

    async fn load_in_turn(
        &self,
        begun: Instant,
        target: (u16, Id),
        wanted: &Wanted,
        flight: &Flight<'_>,
    ) -> Result<Loaded, NotLoaded> {
        let busy = |why: &str| {
            let (target_type, target) = target;
            NotLoaded::Busy(LiveError::unavailable(format!("target {target_type}:{target} {why}")))
        };
        let (brief, long) = (self.redis.patience() * 2, self.context.config.mysql.timeout);
        let mut place = None;
        loop {
            let (number, store) = self.redis.store().await.map_err(|silent| NotLoaded::Redis(silent.into()))?;
            let loading = store.begin_load(target.0, target.1, wanted).await;
            let (why, patience) = match loading.map_err(|error| self.not_loaded(number, &error))? {
                Loading::Loaded => return Ok(Loaded::Already),
                Loading::Yours(mut loader) => {
                    let filled = match self.may_fill(&mut place) {
                        Ok(()) => Box::pin(self.fill(number, &mut loader, target, &flight.all(wanted))).await,
                        Err(reason) => Err(reason),
                    };
                    // After an end the lock is gone already; the error to tell is that of the load.
                    let _gone = if filled.is_err() { loader.release().await } else { Ok(()) };
                    match filled? {
                        Ended::Done(uncounted) if !uncounted.concerns(wanted) => return Ok(Loaded::Here),
                        Ended::Done(Uncounted { why: Why::Pending, .. }) => {
                            return Err(busy("has changes not synced yet"));
                        }
                        Ended::Done(Uncounted { why: Why::Journal, .. }) => {
                            return Err(busy("has writes in MySQL not replayed yet"));
                        }
                        Ended::Done(_) | Ended::Again => ("changes while it is loaded", long),
                    }
                }
                Loading::Wait(Busy::Lock) => ("is being loaded by another process", brief),
                Loading::Wait(Busy::Run) => ("is being synced", brief),
                Loading::Wait(Busy::Restore) => ("is being restored", brief),
            };
            if begun.elapsed() >= patience {
                return Err(busy(why));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Turns an error of a call on the connection of this number into ours. A Redis that is there and refuses, for a key of
    /// a wrong type, refuses this load alone.
    pub(super) fn not_loaded(&self, number: u64, error: &StoreError) -> NotLoaded {
        match self.redis.failed(number, error) {
            Silent::Refused(told) => NotLoaded::Busy(told),
            away @ Silent::Away(_) => NotLoaded::Redis(away.into()),
        }
    }

    /// Whether MySQL may be asked: it answered, and there is room, which is kept in `place` from then on.
    fn may_fill<'l>(&'l self, place: &mut Option<SemaphorePermit<'l>>) -> Result<(), NotLoaded> {
        self.loading.away()?;
        if place.is_none() {
            let full = || NotLoaded::Busy(LiveError::unavailable("too many targets are being loaded".to_owned()));
            *place = Some(self.loading.places.try_acquire().map_err(|_| full())?);
        }
        Ok(())
    }
}
