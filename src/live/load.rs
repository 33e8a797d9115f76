//! Loading a target from MySQL on its first use.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::{Live, LiveError};
use crate::model::Id;
use crate::sink::{Session, SinkError};
use crate::store::{Loader, Loading, Merged};

/// Rows read and merged at once.
const PAGE: u32 = 1000;
/// How often somebody else's load is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Requests that may wait for loads at once: those for targets that Redis holds must find room beside them.
pub(super) const WAITING: usize = 256;
/// How long nobody tries to load after MySQL did not answer.
const AWAY: Duration = Duration::from_secs(1);
/// How long an empty target is remembered; spread, so that a scan of made-up ids does not come back all at once.
const REMEMBER: std::ops::Range<u64> = 60_000..90_000;

/// What a load is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Need {
    /// Counts.
    Counts,
    /// States, too.
    States,
    /// A write: also a target of which there is nothing becomes complete.
    Write,
}

/// What all loads of a process share.
pub(super) struct Loads {
    places: Semaphore,
    away: Mutex<Option<(Instant, LiveError)>>,
}

impl Loads {
    pub(super) fn new() -> Self {
        Self { places: Semaphore::new(WAITING), away: Mutex::default() }
    }

    /// The error of a moment ago, when MySQL did not answer: nobody queues up behind that.
    fn away(&self) -> Result<(), LiveError> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match &*away {
            Some((since, error)) if since.elapsed() < AWAY => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &SinkError) -> LiveError {
        let told = LiveError::unavailable(error.to_string());
        if matches!(error, SinkError::Unreachable { .. }) {
            *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), told.clone()));
        }
        told
    }
}

impl Live {
    /// Loads a target unless it is loaded, whoever does it.
    pub(super) async fn load(&self, target_type: u16, target: Id, need: Need) -> Result<(), LiveError> {
        let full = || LiveError::unavailable("too many requests wait for targets to be loaded".to_owned());
        let _place = self.loading.places.try_acquire().map_err(|_| full())?;
        let deadline = Instant::now() + self.context.config.mysql.timeout;
        loop {
            self.loading.away()?;
            let (number, store) = self.store().await?;
            let loading = store.begin_load(target_type, target, need != Need::Counts).await;
            match loading.map_err(|error| self.failed(number, &error))? {
                Loading::Loaded => return Ok(()),
                Loading::Yours(mut loader) => {
                    let filled = self.fill(number, &mut loader, (target_type, target), need).await;
                    if filled != Ok(Merged::Again) {
                        // After an end the lock is gone already; the error to tell is that of the load.
                        let _gone = if filled.is_err() { loader.release().await } else { Ok(()) };
                        return filled.map(|_| ());
                    }
                }
                Loading::Wait => {}
            }
            if Instant::now() >= deadline {
                return Err(LiveError::unavailable(format!(
                    "target {target_type}:{target} could not be loaded within {} ms (mysql.timeout_ms)",
                    self.context.config.mysql.timeout.as_millis()
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn fill(&self, number: u64, loader: &mut Loader, target: (u16, Id), need: Need) -> Result<Merged, LiveError> {
        let mut borrowed = self.sessions.borrow().await.map_err(|error| self.loading.failed(&error))?;
        let filled = self.fill_from(number, loader, &mut borrowed.session, target, need).await;
        borrowed.give_back();
        filled
    }

    async fn fill_from(
        &self,
        number: u64,
        loader: &mut Loader,
        session: &mut Session,
        (target_type, target): (u16, Id),
        need: Need,
    ) -> Result<Merged, LiveError> {
        let away = |error: SinkError| self.loading.failed(&error);
        let failed = |error| self.failed(number, &error);
        for interaction in self.context.vocabulary.interactions.iter().filter(|i| i.has_states()) {
            let mut after = 0;
            loop {
                let rows = session.record_page((target_type, target, interaction.code), after, PAGE).await;
                let rows = rows.map_err(away)?;
                let Some(&(last, _)) = rows.last() else { break };
                if loader.merge(interaction.code, &rows).await.map_err(failed)? == Merged::Again {
                    return Ok(Merged::Again);
                }
                after = last.get();
                if rows.len() < PAGE as usize {
                    break;
                }
            }
        }
        let counts = session.counts_of(target_type, target).await.map_err(away)?;
        let remember = (need != Need::Write).then(|| Duration::from_millis(rand::random_range(REMEMBER)));
        loader.end(&counts, remember).await.map_err(failed)
    }
}
