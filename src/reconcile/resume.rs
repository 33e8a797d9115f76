//! A pass over everything that was cut short is gone on with by the next one.

use std::time::Duration;

use chrono::Utc;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::pass::{BUDGET, Pass};
use super::request::Scope;
use crate::model::Partition;
use crate::sink::{Session, SinkError};
use crate::sync::Context;

/// Where it is kept in `tallyd_meta`.
const NAME: &str = "reconcile.bookmark";
/// How often a pass under way keeps it.
const OFTEN: Duration = Duration::from_secs(3);
/// After how long a pass that ran out of time is begun anew.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// How far the targets that MySQL knows were looked at, partition by partition in order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    target_type: u16,
    shard: u16,
    /// The last target.
    target: i64,
    /// How many were looked at.
    looked_at: u64,
}

impl Place {
    /// So many targets of a partition, the last one included, were looked at.
    pub(super) fn moved(self, partition: Partition, target: i64, targets: u64) -> Self {
        let Partition { target_type, shard } = partition;
        Self { target_type, shard, target, looked_at: self.looked_at + targets }
    }

    /// After which target to go on in a partition; `None` when all of it was looked at.
    pub(super) fn after(self, partition: Partition) -> Option<i64> {
        let of = Partition { target_type: self.target_type, shard: self.shard };
        match partition.cmp(&of) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(self.target),
            std::cmp::Ordering::Greater => Some(0),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Bookmark {
    run_id: String,
    /// Unix ms.
    started_ms: i64,
    /// Whether its time was over; else the process ended.
    out_of_time: bool,
    place: Place,
}

impl Bookmark {
    async fn read(session: &mut Session) -> Result<Option<Self>, SinkError> {
        let kept = session.meta(NAME).await?;
        Ok(kept.and_then(|json| serde_json::from_str(&json).ok()).filter(Self::is_current))
    }

    fn age(&self) -> Duration {
        Duration::from_millis((Utc::now().timestamp_millis() - self.started_ms).try_into().unwrap_or_default())
    }

    fn is_current(&self) -> bool {
        self.age() < if self.out_of_time { KEPT } else { BUDGET }
    }
}

/// Whether a pass over everything ended with its process, while it had time left.
pub(super) async fn was_cut_short(context: &Context) -> Result<bool, SinkError> {
    let mut session = context.sink.session();
    let bookmark = Bookmark::read(&mut session).await;
    session.close().await;
    Ok(bookmark?.is_some_and(|bookmark| !bookmark.out_of_time))
}

impl Pass<'_> {
    fn keeps_place(&self) -> bool {
        self.request.scope == Scope::All && !self.request.dry_run
    }

    /// Begins where the last pass was cut short, and with the time that was left to it.
    pub(super) async fn take_up(&mut self) -> Result<(), SinkError> {
        if !self.keeps_place() {
            return Ok(());
        }
        let Some(bookmark) = Bookmark::read(&mut self.session).await? else { return Ok(()) };
        if !bookmark.out_of_time {
            self.deadline = Instant::now() + BUDGET.saturating_sub(bookmark.age());
            self.started_ms = bookmark.started_ms;
        }
        self.place = bookmark.place;
        self.tally.of = bookmark.place.looked_at;
        self.tally.earlier = bookmark.place.looked_at;
        tracing::info!(
            run_id = self.run_id,
            continues = bookmark.run_id,
            looked_at = bookmark.place.looked_at,
            "the pass goes on where another was cut short"
        );
        self.continues = Some(bookmark.run_id);
        Ok(())
    }

    /// Keeps the place now and then, for the process may end without notice.
    pub(super) async fn note_place(&mut self) {
        if self.keeps_place() && self.place_kept.elapsed() > OFTEN {
            self.place_kept = Instant::now();
            self.keep(self.open.unwrap_or(self.place)).await;
        }
    }

    /// At the end: keeps the place if the pass was cut short, else forgets it. What was found and could not be repaired any
    /// more is looked at again.
    pub(super) async fn put_down(&mut self) {
        if !self.keeps_place() {
            return;
        }
        if self.stop.is_cancelled() {
            self.keep(self.open.unwrap_or(self.place)).await;
        } else if self.out_of_time {
            self.keep(self.place).await;
        } else if self.away {
            tracing::debug!(run_id = self.run_id, "a server is away: the place that was kept last stands");
        } else if let Err(error) = self.session.forget_meta(NAME).await {
            tracing::warn!(run_id = self.run_id, %error, "the place of the pass could not be forgotten");
        }
    }

    async fn keep(&mut self, place: Place) {
        let (run_id, out_of_time) = (self.run_id.clone(), self.out_of_time);
        let bookmark = Bookmark { run_id, started_ms: self.started_ms, out_of_time, place };
        let kept = match serde_json::to_string(&bookmark) {
            Ok(json) => self.session.set_meta(NAME, json).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            tracing::warn!(run_id = self.run_id, error, "the place of the pass could not be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_on_after_the_last_target_of_the_partition_it_was_in() {
        let partition = |target_type, shard| Partition { target_type, shard };
        let place = Place::default().moved(partition(2, 1), 50, 300);
        let after = |target_type, shard| place.after(partition(target_type, shard));
        assert_eq!(
            (after(1, 3), after(2, 0), after(2, 1), after(2, 2), after(3, 0)),
            (None, None, Some(50), Some(0), Some(0))
        );
        assert_eq!(Place::default().after(partition(1, 0)), Some(0));
    }
}
