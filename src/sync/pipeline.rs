//! Two transactions at once, acked in the order in which they were read.

use std::collections::VecDeque;

use tokio::task::JoinHandle;

use crate::model::{Change, Chunk, Id};
use crate::pulse::Pulse;
use crate::sink::{Committed, SinkError, Writer};
use crate::store::{Acked, BadMark};

/// What may be forgotten in Redis once a chunk is committed.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) changes: Vec<Change>,
    pub(super) targets: Vec<Id>,
    pub(super) acked: Acked,
    /// Fields of the change hash that cannot be read.
    pub(super) bad_changes: Vec<BadMark>,
    /// Members of the dirty set that cannot be read.
    pub(super) bad_targets: Vec<BadMark>,
}

impl Pending {
    /// Nothing to forget, but for what is added.
    pub(super) fn none() -> Self {
        Self { changes: vec![], targets: vec![], acked: Acked::Done, bad_changes: vec![], bad_targets: vec![] }
    }
}

struct Running {
    commit: JoinHandle<(Writer, Result<Committed, SinkError>)>,
    pending: Pending,
}

/// Commits go on in tasks of their own, so that none is ever dropped in the middle of a statement.
pub(super) struct Pipeline {
    idle: Vec<Writer>,
    running: VecDeque<Running>,
    committed: Committed,
    pulse: Pulse,
}

impl Pipeline {
    /// Commits beat `pulse`.
    pub(super) fn new(writers: Vec<Writer>, pulse: Pulse) -> Self {
        Self { idle: writers, running: VecDeque::new(), committed: Committed::default(), pulse }
    }

    /// Whether every connection has a commit under way.
    pub(super) fn is_full(&self) -> bool {
        self.idle.is_empty()
    }

    /// A free connection: for the journal, while nothing is under way.
    pub(super) fn writer(&mut self) -> Result<&mut Writer, SinkError> {
        let none = || SinkError::Internal("no connection was free for the journal".to_owned());
        self.idle.last_mut().ok_or_else(none)
    }

    /// Starts a commit on a free connection.
    pub(super) fn submit(&mut self, chunk: Chunk, pending: Pending) -> Result<(), SinkError> {
        let none = || SinkError::Internal("a commit was handed over while no connection was free".to_owned());
        let mut writer = self.idle.pop().ok_or_else(none)?;
        let pulse = self.pulse.clone();
        let commit = tokio::spawn(async move {
            let outcome = pulse.during(writer.commit(chunk)).await;
            (writer, outcome)
        });
        self.running.push_back(Running { commit, pending });
        Ok(())
    }

    /// Waits for the oldest commit; `None` when there is none under way.
    pub(super) async fn next(&mut self) -> Option<Result<Pending, SinkError>> {
        let Running { commit, pending } = self.running.pop_front()?;
        Some(match commit.await {
            Ok((writer, outcome)) => {
                self.idle.push(writer);
                outcome.map(|committed| {
                    self.committed.add(committed);
                    pending
                })
            }
            Err(error) => Err(SinkError::Internal(format!("a commit ended badly: {error}"))),
        })
    }

    /// Waits for what is under way, whatever becomes of it: not acked, it is done again by the next run. Answers what
    /// was committed in all, and how many transactions were tried again.
    pub(super) async fn close(mut self) -> (Committed, u64) {
        while let Some(outcome) = self.next().await {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a commit beside a failed one failed as well");
            }
        }
        let mut retries = 0;
        for writer in self.idle {
            retries += writer.close().await;
        }
        (self.committed, retries)
    }
}
