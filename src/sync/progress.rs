//! How far a run, or other work, has got, for whoever watches.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pulse::Pulse;

/// Counters that the work advances and a progress bar reads.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
    pulse: Pulse,
}

impl Progress {
    /// Of work whose other tasks beat `pulse`.
    pub(super) fn with(pulse: Pulse) -> Self {
        Self { pulse, ..Self::default() }
    }

    /// What other tasks of this work beat.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// More work was found: marks, in a run.
    pub fn found(&self, marks: u64) {
        self.total.fetch_add(marks, Ordering::Relaxed);
    }

    /// So much is done: in a run, marks were taken away.
    pub fn advanced(&self, marks: u64) {
        self.done.fetch_add(marks, Ordering::Relaxed);
    }

    /// What is done, and what was found so far.
    #[must_use]
    pub fn read(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
