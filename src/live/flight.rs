//! Loads of one target that are asked for at once in this process: they take turns, and one does the work of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::load::NotLoaded;
use crate::model::Id;
use crate::store::Wanted;

/// A target, by type and id.
type Target = (u16, Id);

/// The loads under way, by target. Nothing is kept of a target that nobody loads.
#[derive(Default)]
pub(super) struct Flights {
    shared: Mutex<HashMap<Target, Arc<Shared>>>,
}

#[derive(Default)]
struct Shared {
    turn: tokio::sync::Mutex<()>,
    /// What all of them want, but for what a load has taken on already.
    wanted: Mutex<Wanted>,
    failure: Mutex<Option<(Instant, NotLoaded)>>,
}

/// One who wants a target loaded.
pub(super) struct Flight<'f> {
    flights: &'f Flights,
    target: Target,
    shared: Arc<Shared>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// Joins those who want this target, if any.
    pub(super) fn join(&self, target: Target, wanted: &Wanted) -> Flight<'_> {
        let shared = locked(&self.shared).entry(target).or_default().clone();
        locked(&shared.wanted).add(wanted);
        Flight { flights: self, target, shared }
    }
}

impl Flight<'_> {
    /// Waits for one's turn, which lasts until the guard is dropped.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.turn.lock().await
    }

    /// What all want at the moment, `own` included.
    pub(super) fn all(&self, own: &Wanted) -> Wanted {
        let mut all = std::mem::take(&mut *locked(&self.shared.wanted));
        all.add(own);
        all
    }

    /// Tells those who wait why a server could not be asked, so that they do not wait for it one after another.
    pub(super) fn fail(&self, failure: &NotLoaded) {
        *locked(&self.shared.failure) = Some((Instant::now(), failure.clone()));
    }

    /// What was told since.
    pub(super) fn failure_since(&self, begun: Instant) -> Option<NotLoaded> {
        let failure = locked(&self.shared.failure);
        failure.as_ref().filter(|(at, _)| *at >= begun).map(|(_, failure)| failure.clone())
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut shared = locked(&self.flights.shared);
        // The map's and this one; nobody joins meanwhile.
        if Arc::strong_count(&self.shared) == 2 {
            shared.remove(&self.target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wishes_are_gathered_and_nothing_stays_behind() {
        let flights = Flights::default();
        let id = |number: i64| Id::try_from(number).unwrap();
        let want = |user| Wanted { states: [(1, id(user))].into(), ..Wanted::default() };
        let (first, second) = (flights.join((1, id(7)), &want(1)), flights.join((1, id(7)), &want(2)));
        let turn = first.turn().await;
        assert!(second.shared.turn.try_lock().is_err());
        let both = Wanted { states: [(1, id(1)), (1, id(2))].into(), ..Wanted::default() };
        assert_eq!(first.all(&want(1)), both);
        assert_eq!(second.all(&want(2)), want(2), "taken on already");
        drop(turn);
        drop(first);
        assert_eq!(locked(&flights.shared).len(), 1);
        drop(second);
        assert!(locked(&flights.shared).is_empty());
    }
}
