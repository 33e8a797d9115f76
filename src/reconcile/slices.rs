//! Leases in slices, so that runs come in between, and patience with a MySQL that has much to do.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Left;
use super::hand::Hand;
use super::pass::Pass;
use crate::model::Partition;
use crate::store::Store;
use crate::sync::RunError;

/// Between two leases of a partition: longer than anybody who waits for it takes to look.
const BREATH: Duration = Duration::from_millis(300);
/// How often the load of MySQL is looked at, and from how many threads at work on it is left alone.
const LOAD: Duration = Duration::from_secs(1);
const THREADS: u64 = 48;
/// How long it is left alone at most.
const PATIENCE: Duration = Duration::from_mins(1);

impl Pass<'_> {
    /// The partition in hand, for as long as a slice goes; then runs may come in between.
    pub(super) async fn in_hand(&mut self, store: &Store, partition: Partition) -> Result<Hand, Left> {
        self.breathe().await?;
        match self.hand.take() {
            Some((of, hand)) if of == partition && !hand.is_due() => {
                if let Err(error) = hand.go_on() {
                    hand.release().await;
                    return Err(error.into());
                }
                return Ok(hand);
            }
            Some((of, hand)) => {
                hand.release().await;
                if of == partition {
                    tokio::time::sleep(BREATH).await;
                }
            }
            None => {}
        }
        if self.stop.is_cancelled() {
            return Err(RunError::Stopped.into());
        }
        if self.request.dry_run {
            return Hand::dry(self.context, store, partition, self.stop).await;
        }
        let deadline = Instant::now() + self.request.lease_wait;
        Hand::take(self.context, store, partition, &self.run_id, deadline, self.stop).await
    }

    /// Leaves MySQL alone while it has much to do.
    async fn breathe(&mut self) -> Result<(), Left> {
        if self.looked_at_load.elapsed() < LOAD {
            return Ok(());
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && !self.stop.is_cancelled() {
            self.looked_at_load = Instant::now();
            if self.session.threads_running().await? < THREADS {
                break;
            }
            self.let_go().await;
            tracing::debug!("MySQL has much to do; the pass waits");
            tokio::time::sleep(LOAD).await;
        }
        Ok(())
    }

    pub(super) async fn let_go(&mut self) {
        if let Some((_, hand)) = self.hand.take() {
            hand.release().await;
        }
    }
}
