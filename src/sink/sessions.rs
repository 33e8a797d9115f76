//! A bounded number of sessions for those who ask now and then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SinkError;
use super::session::{Session, Sink};

/// A session that nobody wanted for so long is made anew: the server ends silent ones after twenty seconds.
const STALE: Duration = Duration::from_secs(10);

/// At most so many connections, made when needed and kept while they work.
///
/// A session comes back only by [`Borrowed::give_back`]: one that is dropped on the way, with a query in the middle,
/// is closed.
#[derive(Clone)]
pub struct Sessions {
    sink: Sink,
    idle: Arc<Mutex<Vec<Idle>>>,
    places: Arc<Semaphore>,
}

/// A session that nobody wants, since when.
type Idle = (Session, Instant);

/// A session for a while.
pub struct Borrowed {
    /// The session.
    pub session: Session,
    idle: Arc<Mutex<Vec<Idle>>>,
    _place: OwnedSemaphorePermit,
}

impl Sessions {
    /// At most `most` at once.
    #[must_use]
    pub fn new(sink: &Sink, most: usize) -> Self {
        Self { sink: sink.clone(), idle: Arc::default(), places: Arc::new(Semaphore::new(most.max(1))) }
    }

    /// A session, as soon as one is free, within `mysql.timeout_ms`.
    pub async fn borrow(&self) -> Result<Borrowed, SinkError> {
        let place = self.sink.within(self.places.clone().acquire_owned()).await?;
        let place = place.map_err(|error| SinkError::Internal(error.to_string()))?;
        let session = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|(_, since)| since.elapsed() < STALE);
            idle.pop().map_or_else(|| self.sink.session(), |(session, _)| session)
        };
        Ok(Borrowed { session, idle: self.idle.clone(), _place: place })
    }
}

impl Borrowed {
    /// Lets the next one use the session.
    pub fn give_back(self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((self.session, Instant::now()));
    }
}
