//! How many writes are acknowledged a second.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::WriteMetrics;

/// How often the total is noted.
const OFTEN: Duration = Duration::from_secs(5);
/// How many are kept: those of the last minute.
const KEPT: usize = 13;

/// The writes that this process acknowledges, a second, over the last minute. Clones share it.
#[derive(Clone, Debug)]
pub struct WriteRate {
    writes: WriteMetrics,
    noted: Arc<Mutex<VecDeque<(Instant, u64)>>>,
}

impl WriteRate {
    /// Of these writes, from now on.
    #[must_use]
    pub fn new(writes: WriteMetrics) -> Self {
        let noted = VecDeque::from([(Instant::now(), writes.total())]);
        Self { writes, noted: Arc::new(Mutex::new(noted)) }
    }

    /// Notes the total now and then, until `stop` is cancelled.
    pub async fn keep(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(OFTEN)).await.is_some() {
            self.note();
        }
    }

    fn note(&self) {
        let mut noted = self.lock();
        if noted.len() == KEPT {
            noted.pop_front();
        }
        noted.push_back((Instant::now(), self.writes.total()));
    }

    /// Writes a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let oldest = self.lock().front().copied();
        let (since, total) = oldest.unwrap_or_else(|| (Instant::now(), self.writes.total()));
        let writes = u32::try_from(self.writes.total() - total).unwrap_or(u32::MAX);
        // Of less than a second nothing can be told.
        f64::from(writes) / since.elapsed().as_secs_f64().max(1.0)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn it_is_of_what_was_acknowledged_since_the_oldest_note() {
        let vocabulary = Config::parse("", [], std::path::Path::new("f")).unwrap().vocabulary;
        let writes = super::super::Metrics::new(&vocabulary, &[]).writes;
        let rate = WriteRate::new(writes.clone());
        for effective in [true, false, true] {
            writes.acknowledged(1, effective);
        }
        assert!((rate.per_second() - 3.0).abs() < 0.001, "{}", rate.per_second());
        (0..=KEPT).for_each(|_| rate.note());
        assert_eq!(rate.lock().len(), KEPT);
        assert!(rate.per_second() < 0.001, "what is longer ago does not count");
    }
}
