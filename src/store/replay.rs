//! Putting writes back into Redis that went to MySQL while it was down.

use super::{Holder, StoreError, script};
use crate::model::RecordRow;

/// States put in by one call of the script: about a millisecond of Redis.
const STATES: usize = 250;

impl Holder {
    /// Puts what MySQL holds of these states into Redis, each unless a pending change is newer than its row, marks
    /// them all, and then steps the checkpoint. Doing it twice leaves the same as doing it once.
    ///
    /// `at_ms` is the latest time that a row may stand for.
    pub async fn replay(&mut self, rows: &[RecordRow]) -> Result<(), StoreError> {
        let (keys, target_type) = (self.store.keys, self.partition.target_type);
        let pieces = rows.len().div_ceil(STATES);
        for (number, piece) in rows.chunks(STATES).enumerate() {
            let next = if number + 1 == pieces { self.expected.next() } else { self.expected };
            let mut invocation = self.fenced(&script::REPLAY);
            invocation
                .arg(next.to_string())
                .key(keys.dirty(self.partition))
                .key(keys.changes(self.partition))
                .key(keys.changes_inflight(self.partition));
            for &RecordRow { target, interaction, user, active, at_ms } in piece {
                let name = self.store.name(interaction);
                invocation
                    .key(keys.state(name, target_type, target))
                    .key(keys.count(target_type, target))
                    .arg(name)
                    .arg(target.get())
                    .arg(user.get())
                    .arg(i32::from(active))
                    .arg(at_ms);
            }
            self.invoke::<()>("the replay of degraded writes", &invocation).await?;
            self.expected = next;
        }
        Ok(())
    }
}
