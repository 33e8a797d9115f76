//! How far a run has got, for whoever watches.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that a run advances and a progress bar reads.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    /// More marks were found.
    pub(super) fn found(&self, marks: u64) {
        self.total.fetch_add(marks, Ordering::Relaxed);
    }

    /// Marks were taken away.
    pub(super) fn advanced(&self, marks: u64) {
        self.done.fetch_add(marks, Ordering::Relaxed);
    }

    /// Marks taken away, and marks found so far.
    #[must_use]
    pub fn read(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
