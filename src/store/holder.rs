//! The lease holder's hold on one partition: check, claim, ack, finish.
//!
//! Every script compares `ckpt` with the value that this holder last set, and changes nothing on a difference.

use redis::{RedisResult, Script, ScriptInvocation};

use super::{BadMark, Store, StoreError, script};
use crate::model::{Change, Checkpoint, Id, Partition};
use crate::store::mark;

/// What the check of the checkpoint found.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing was lost; the checkpoint is the caller's now.
    Held(Holder),
    /// Redis lost something that MySQL holds: a restore is due.
    Lost(Loss),
    /// The checkpoint, or that of a restore, carries a token that is not below the caller's.
    Newer(String),
}

/// How a loss shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// There is no checkpoint.
    Missing,
    /// The checkpoint is below MySQL's, or unreadable.
    Older,
    /// A restore was begun and not ended.
    Interrupted,
}

impl LossKind {
    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Older => "older",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A loss that the check has proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// How it shows.
    pub kind: LossKind,
    /// The checkpoint found, empty when missing.
    pub found: String,
}

/// What a claim found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Whether this is what a crashed run had left in flight.
    pub resumed: bool,
    /// Targets in flight.
    pub targets: u64,
    /// Changes in flight.
    pub changes: u64,
}

/// Which marks are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// Those that writers set since the last claim. Only a dry run looks at them.
    Fresh,
    /// Those that are claimed.
    Claimed,
}

/// What becomes of the targets of an ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acked {
    /// They are done with.
    Done,
    /// Their changes are, but they are scanned yet in this run.
    ToScan,
}

/// A partition, held under a lease.
pub struct Holder {
    pub(super) store: Store,
    pub(super) partition: Partition,
    pub(super) expected: Checkpoint,
    /// A dry run: it reads, and changes nothing, the checkpoint included.
    pub(super) dry: bool,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { store: _, partition, expected, dry } = self;
        let mut debug = f.debug_struct("Holder");
        debug.field("partition", partition).field("expected", expected).field("dry", dry).finish_non_exhaustive()
    }
}

impl Store {
    /// Compares the checkpoint in Redis with MySQL's, and takes the partition over for the owner of the lease
    /// `token` if nothing was lost. Only then anything is changed.
    pub async fn check(&self, partition: Partition, mysql: Checkpoint, token: u64) -> Result<Verdict, StoreError> {
        let mut connection = self.connection.clone();
        let mut invocation = script::CHECK.key(self.keys.checkpoint(partition));
        invocation.key(self.keys.restoring(partition)).arg(mysql.token).arg(mysql.step).arg(token);
        let answer = script::invoke(&invocation, &mut connection).await;
        let (verdict, found): (String, String) = answer.map_err(self.failed("the check of the checkpoint"))?;
        let kind = match verdict.as_str() {
            "ok" => return Ok(Verdict::Held(self.holder(partition, token))),
            "newer" => return Ok(Verdict::Newer(found)),
            "missing" => LossKind::Missing,
            "interrupted" => LossKind::Interrupted,
            _ => LossKind::Older,
        };
        Ok(Verdict::Lost(Loss { kind, found }))
    }

    pub(super) fn holder(&self, partition: Partition, token: u64) -> Holder {
        Holder { store: self.clone(), partition, expected: Checkpoint::first(token), dry: false }
    }

    /// For a dry run: reads as a holder does, without lease or step. It must not be asked to change anything.
    #[must_use]
    pub fn dry(&self, partition: Partition) -> Holder {
        Holder { store: self.clone(), partition, expected: Checkpoint::default(), dry: true }
    }
}

impl Holder {
    /// The partition held.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// The checkpoint that it last set.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.expected
    }

    pub(super) fn fenced<'s>(&self, script: &'s Script) -> ScriptInvocation<'s> {
        let mut invocation = script.key(self.store.keys.checkpoint(self.partition));
        invocation.arg(self.expected.to_string());
        invocation
    }

    pub(super) async fn invoke<T: redis::FromRedisValue>(
        &self,
        what: &'static str,
        invocation: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let mut connection = self.store.connection.clone();
        let answer: RedisResult<T> = script::invoke(invocation, &mut connection).await;
        answer.map_err(self.store.failed(what))
    }

    /// Takes the dirty work out of the writers' way; what a crashed run left in flight comes first.
    /// `None` when there is nothing to do.
    pub async fn claim(&mut self) -> Result<Option<Claim>, StoreError> {
        let keys = self.store.keys;
        let mut invocation = self.fenced(&script::CLAIM);
        invocation
            .key(keys.dirty(self.partition))
            .key(keys.changes(self.partition))
            .key(keys.dirty_inflight(self.partition))
            .key(keys.changes_inflight(self.partition))
            .key(keys.done(self.partition));
        let (what, targets, changes): (String, u64, u64) = self.invoke("the claim", &invocation).await?;
        Ok((what != "empty").then_some(Claim { resumed: what == "resumed", targets, changes }))
    }

    /// Puts targets among the claimed ones, to be scanned whole. Answers how many were not there yet.
    pub async fn enlist(&mut self, targets: &[Id]) -> Result<u64, StoreError> {
        if targets.is_empty() {
            return Ok(0);
        }
        let mut invocation = self.fenced(&script::ENLIST);
        invocation.key(self.store.keys.dirty_inflight(self.partition));
        for target in targets {
            invocation.arg(target.get());
        }
        self.invoke("the claim of targets", &invocation).await
    }

    /// Forgets what a committed transaction holds. Answers how many targets this run had not acked before.
    pub async fn ack(
        &mut self,
        changes: &[Change],
        bad: &[BadMark],
        targets: &[Id],
        acked: Acked,
    ) -> Result<u64, StoreError> {
        let keys = self.store.keys;
        let mut invocation = self.fenced(&script::ACK);
        invocation
            .key(keys.dirty_inflight(self.partition))
            .key(keys.changes_inflight(self.partition))
            .key(keys.done(self.partition))
            .arg(if acked == Acked::Done { "move" } else { "keep" })
            .arg(changes.len() + bad.len());
        for change in changes {
            invocation.arg(mark::field(&self.store.vocabulary, change));
        }
        for mark in bad {
            invocation.arg(mark.raw.as_slice());
        }
        for target in targets {
            invocation.arg(target.get());
        }
        self.invoke("the ack", &invocation).await
    }

    /// Takes members that are no targets out of the claimed set.
    pub async fn discard(&mut self, bad: &[BadMark]) -> Result<(), StoreError> {
        let mut invocation = self.fenced(&script::DISCARD);
        invocation.key(self.store.keys.dirty_inflight(self.partition));
        for mark in bad {
            invocation.arg(mark.raw.as_slice());
        }
        self.invoke("the ack of unreadable marks", &invocation).await
    }

    /// Ends a drain. Answers the targets and changes still in flight, both 0 unless something is wrong.
    pub async fn finish(&mut self) -> Result<(u64, u64), StoreError> {
        let keys = self.store.keys;
        let mut invocation = self.fenced(&script::FINISH);
        invocation
            .key(keys.dirty_inflight(self.partition))
            .key(keys.changes_inflight(self.partition))
            .key(keys.done(self.partition));
        self.invoke("the end of the run", &invocation).await
    }
}
