//! Two transactions at once, acked in the order in which they were read.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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
    /// Those of which nothing more is held.
    pub(super) ended: Vec<Id>,
    /// Fields of the change hash that cannot be read.
    pub(super) bad_changes: Vec<BadMark>,
    /// Members of the dirty set that cannot be read.
    pub(super) bad_targets: Vec<BadMark>,
}

impl Pending {
    /// Nothing to forget, but for what is added.
    pub(super) fn none() -> Self {
        let (targets, ended) = (vec![], vec![]);
        Self { changes: vec![], targets, acked: Acked::Done, ended, bad_changes: vec![], bad_targets: vec![] }
    }
}

struct Running {
    commit: JoinHandle<Result<Committed, SinkError>>,
    pending: Pending,
}

#[derive(Clone)]
struct Connection {
    writer: Arc<Mutex<Writer>>,
    /// What has not begun ends: a commit failed on this connection, or all is closing.
    closing: CancellationToken,
}

/// Commits go on in tasks of their own, so that none is ever dropped in the middle of a statement. Each connection is
/// given chunks in turn, and has the next one at hand while it commits.
pub(super) struct Pipeline {
    connections: VecDeque<Connection>,
    running: VecDeque<Running>,
    committed: Committed,
    pulse: Pulse,
    closing: CancellationToken,
}

impl Pipeline {
    /// Commits beat `pulse`.
    pub(super) fn new(writers: impl IntoIterator<Item = Writer>, pulse: Pulse) -> Self {
        let closing = CancellationToken::new();
        let connection = |writer| Connection { writer: Arc::new(Mutex::new(writer)), closing: closing.child_token() };
        let connections = writers.into_iter().map(connection).collect();
        Self { connections, running: VecDeque::new(), committed: Committed::default(), pulse, closing }
    }

    /// Whether every connection has a commit under way, and another one waiting.
    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= 2 * self.connections.len()
    }

    /// The writer of the connection whose turn is next.
    pub(super) fn writer(&mut self) -> Result<Arc<Mutex<Writer>>, SinkError> {
        Ok(self.connection()?.writer)
    }

    fn connection(&mut self) -> Result<Connection, SinkError> {
        self.connections.rotate_left(1.min(self.connections.len()));
        self.connections.back().cloned().ok_or_else(|| SinkError::Internal("a run without a connection".to_owned()))
    }

    /// Commits a chunk as soon as it is its turn. After one that failed, its connection commits no other.
    pub(super) fn submit(&mut self, chunk: Chunk, pending: Pending) -> Result<(), SinkError> {
        let (Connection { writer, closing }, pulse) = (self.connection()?, self.pulse.clone());
        let commit = tokio::spawn(async move {
            let mut writer = writer.lock().await;
            if closing.is_cancelled() {
                return Err(SinkError::Internal("it was not begun".to_owned()));
            }
            let outcome = pulse.during(writer.commit(chunk)).await;
            if outcome.is_err() {
                closing.cancel();
            }
            outcome
        });
        self.running.push_back(Running { commit, pending });
        Ok(())
    }

    /// Waits for the oldest commit; `None` when there is none under way.
    pub(super) async fn next(&mut self) -> Option<Result<Pending, SinkError>> {
        let Running { commit, pending } = self.running.pop_front()?;
        Some(match commit.await {
            Ok(outcome) => outcome.map(|committed| {
                self.committed.add(committed);
                pending
            }),
            Err(error) => Err(SinkError::Internal(format!("a commit ended badly: {error}"))),
        })
    }

    /// Waits for what is under way, whatever becomes of it: not acked, it is done again by the next run. Answers what
    /// was committed in all, and how many transactions were tried again.
    pub(super) async fn close(mut self) -> (Committed, u64) {
        self.closing.cancel();
        while let Some(outcome) = self.next().await {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a commit beside a failed one failed as well");
            }
        }
        let mut retries = 0;
        for writer in self.connections.into_iter().filter_map(|connection| Arc::into_inner(connection.writer)) {
            retries += writer.into_inner().close().await;
        }
        (self.committed, retries)
    }
}
