//! The restore of a partition whose Redis lost what MySQL holds. Nothing is copied meanwhile.

use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::report::Restored;
use super::run::Run;
use super::work::go_on;
use crate::failpoint;
use crate::model::{Change, Id};
use crate::sink::{Lease, Session, Writer};
use crate::store::{Holder, Loss, Marks, Restorer, Store};

/// Changes decided about at once; the script takes about a millisecond of Redis.
const CHANGES: usize = 250;
/// Keys whose states or counts are dropped at once: another millisecond.
const KEYS: usize = 250;

/// A restore under way.
struct Restore<'s> {
    restorer: Restorer,
    rows: Session,
    writer: Writer,
    target_type: u16,
    stop: &'s CancellationToken,
    dropped: u64,
    kept: u64,
}

/// Restores a partition, and holds it then as after a check that found nothing lost. A restore that ends early is begun
/// anew by the next run.
pub(super) async fn restore(
    run: &Run<'_>,
    store: &Store,
    lease: Lease,
    loss: &Loss,
    stop: &CancellationToken,
) -> Result<(Holder, Restored), RunError> {
    go_on(stop)?;
    let restorer = store.begin_restore(lease.partition, loss, lease.token).await?;
    let target_type = lease.partition.target_type;
    let sink = &run.context.sink;
    let writer = Writer::new(sink, lease, &run.id, run.context.vocabulary.clone());
    let mut restore = Restore { restorer, rows: sink.session(), writer, target_type, stop, dropped: 0, kept: 0 };
    let outcome = restore.work().await;
    let Restore { restorer, rows, writer, dropped, kept, .. } = restore;
    rows.close().await;
    writer.close().await;
    outcome?;
    let holder = restorer.end().await?;
    let report = Restored {
        kind: loss.kind.as_str(),
        from: loss.found.clone(),
        to: holder.checkpoint().to_string(),
        mysql: lease.checkpoint.to_string(),
        dropped,
        kept,
        times: 1,
    };
    Ok((holder, report))
}

impl Restore<'_> {
    async fn work(&mut self) -> Result<(), RunError> {
        // What was in flight joins the other changes where it stays, and is counted among them.
        self.changes(Marks::Claimed).await?;
        self.kept = self.changes(Marks::Fresh).await?;
        self.known().await?;
        // Before anything is loaded again: where a hash does not hold everybody, the count row is what is loaded.
        while self.writer.settle_counts().await? {
            go_on(self.stop)?;
        }
        Ok(())
    }

    /// Decides about every change; answers how many stay. What a SCAN repeats is counted again.
    async fn changes(&mut self, marks: Marks) -> Result<u64, RunError> {
        let (mut kept, mut cursor) = (0, 0);
        loop {
            go_on(self.stop)?;
            let (next, mut changes) = self.restorer.scan_changes(marks, cursor).await?;
            changes.sort_unstable();
            let state = |change: &Change| (change.target, change.interaction, change.user);
            changes.dedup_by_key(|change| state(change));
            for piece in changes.chunks(CHANGES) {
                go_on(self.stop)?;
                let rows = self.rows.row_times(self.target_type, piece).await?;
                let (dropped, stay) = self.restorer.decide(piece, &rows).await?;
                self.dropped += dropped;
                kept += stay;
                failpoint::hit("in_restore");
            }
            cursor = next;
            if cursor == 0 {
                return Ok(kept);
            }
        }
    }

    /// Drops every state without a change, and counts, completeness and locks, key by key.
    async fn known(&mut self) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            go_on(self.stop)?;
            let page = self.restorer.scan_known(cursor).await?;
            for piece in page.states.chunks(KEYS) {
                go_on(self.stop)?;
                let (dropped, large) = self.restorer.drop_states(piece).await?;
                self.dropped += dropped;
                failpoint::hit("in_restore");
                for item in large {
                    self.large(item).await?;
                }
            }
            for piece in page.counts.chunks(KEYS) {
                go_on(self.stop)?;
                let rows = self.rows.count_rows(self.target_type, piece).await?;
                self.restorer.drop_counts(piece, &rows).await?;
            }
            for piece in page.locks.chunks(KEYS) {
                go_on(self.stop)?;
                self.restorer.drop_locks(piece).await?;
            }
            cursor = page.cursor;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn large(&mut self, item: (Id, u16)) -> Result<(), RunError> {
        let mut cursor = 0;
        loop {
            go_on(self.stop)?;
            let (next, dropped) = self.restorer.drop_page(item, cursor).await?;
            self.dropped += dropped;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
