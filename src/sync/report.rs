//! What a run says it did.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::lag::Lag;
use crate::model::Partition;

/// How a run, or its work on one partition, ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything that was marked when it started is in MySQL.
    Done,
    /// It stopped on the way; what is left stays marked.
    Partial,
    /// It failed; what is left stays marked.
    Failed,
    /// Nothing was touched: the checkpoint proves that MySQL lost writes.
    Refused,
    /// Another owner holds the lease.
    Busy,
}

impl Outcome {
    /// The word in reports and in `sync_run.outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Busy => "busy",
        }
    }
}

/// Why a run started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The schedule, `sync.cron`.
    Schedule,
    /// The backlog reached `sync.early_flush_changes`.
    Backlog,
    /// The daemon started.
    Start,
    /// `tallyd sync`.
    Command,
    /// `POST /sync`.
    Api,
    /// The degraded journal has rows.
    Journal,
    /// The last run failed.
    Retry,
    /// Redis came back, or its checkpoint was gone: it may have lost something.
    Redis,
}

impl Trigger {
    /// The word in reports and in `sync_run.caused_by`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Backlog => "backlog",
            Self::Start => "start",
            Self::Command => "command",
            Self::Api => "api",
            Self::Journal => "journal",
            Self::Retry => "retry",
            Self::Redis => "redis",
        }
    }
}

/// Figures of a run or of its work on one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Targets whose marks were taken away.
    pub targets: u64,
    /// Changes whose marks were taken away.
    pub changes: u64,
    /// Record rows and count rows sent to MySQL.
    pub rows_written: u64,
    /// Entries set aside in `sync_rejected`.
    pub rejected: u64,
    /// Targets that are still marked although the run ended; 0 when it is done.
    pub left: u64,
    /// Counts that disagreed with their states.
    pub drift: u64,
    /// Transactions tried again.
    pub retries: u64,
    /// Degraded writes replayed.
    pub replayed: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        let Self { targets, changes, rows_written, rejected, left, drift, retries, replayed } = other;
        self.targets += targets;
        self.changes += changes;
        self.rows_written += rows_written;
        self.rejected += rejected;
        self.left += left;
        self.drift += drift;
        self.retries += retries;
        self.replayed += replayed;
    }

    fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// What a restore did, after Redis had lost what MySQL holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Restored {
    /// How the loss showed: `missing`, `older` or `interrupted`.
    pub kind: &'static str,
    /// The checkpoint that Redis held, empty when missing.
    pub from: String,
    /// The checkpoint that it holds now.
    pub to: String,
    /// The checkpoint that MySQL holds.
    pub mysql: String,
    /// States that were dropped.
    pub dropped: u64,
    /// Changes that stay, those included that were written meanwhile; what a SCAN repeats is counted again.
    pub kept: u64,
    /// How many restores this run made of the partition; this is the last.
    pub times: u64,
}

/// What became of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionReport {
    /// Code of the target type.
    pub target_type: u16,
    /// The shard.
    pub shard: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, unless it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The restore that came before the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// Its figures.
    #[serde(flatten)]
    pub tally: Tally,
    /// How long its changes had waited.
    #[serde(skip)]
    pub lag: Lag,
}

impl PartitionReport {
    /// A partition on which nothing was done.
    #[must_use]
    pub fn untouched(partition: Partition, outcome: Outcome, error: String) -> Self {
        let Partition { target_type, shard } = partition;
        Self {
            target_type,
            shard,
            outcome,
            error: Some(error),
            restored: None,
            tally: Tally::default(),
            lag: Lag::default(),
        }
    }

    /// Adds what an earlier attempt of the same run did.
    pub(super) fn add_earlier(&mut self, earlier: Self) {
        self.tally.add(&earlier.tally);
        self.lag.add(&earlier.lag);
        match (&mut self.restored, earlier.restored) {
            (Some(last), Some(earlier)) => last.times += earlier.times,
            (last @ None, earlier) => *last = earlier,
            (Some(_), None) => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.outcome == Outcome::Done && self.tally.is_idle() && self.restored.is_none()
    }
}

/// What a run says it did, as `tallyd sync --json` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunReport {
    /// UUID, version 7.
    pub run_id: String,
    /// Why it started.
    pub trigger: Trigger,
    /// When, RFC 3339.
    pub started_at: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Every partition, in order.
    pub partitions: Vec<PartitionReport>,
    /// The sums.
    #[serde(flatten)]
    pub tally: Tally,
    /// How long changes had waited: percentiles and the sketch that they come from.
    #[serde(rename = "lag_ms", skip_serializing_if = "Lag::is_empty")]
    pub lag: Lag,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether nothing was claimed and written, only looked at.
    pub dry_run: bool,
}

impl RunReport {
    /// Sums up the partitions.
    #[must_use]
    pub fn new(
        run_id: String,
        trigger: Trigger,
        started_at: DateTime<Utc>,
        partitions: Vec<PartitionReport>,
        dry_run: bool,
    ) -> Self {
        let (mut tally, mut lag) = (Tally::default(), Lag::default());
        for partition in &partitions {
            tally.add(&partition.tally);
            lag.add(&partition.lag);
        }
        let duration_ms = (Utc::now() - started_at).num_milliseconds().try_into().unwrap_or_default();
        let started_at = started_at.to_rfc3339_opts(SecondsFormat::Millis, true);
        Self {
            run_id,
            trigger,
            started_at,
            outcome: overall(&partitions),
            partitions,
            tally,
            lag,
            duration_ms,
            dry_run,
        }
    }

    /// Whether there was nothing to do, and nothing in the way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outcome == Outcome::Done && self.partitions.iter().all(PartitionReport::is_idle)
    }

    /// Whether the work on a partition failed, and may succeed when it is tried again.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.partitions.iter().any(|partition| partition.outcome == Outcome::Failed)
    }
}

/// Partitions that had nothing to do do not count beside those that had.
fn overall(partitions: &[PartitionReport]) -> Outcome {
    let busy: Vec<Outcome> = partitions.iter().filter(|p| !p.is_idle()).map(|p| p.outcome).collect();
    match busy.split_first() {
        None => Outcome::Done,
        Some((first, rest)) if rest.iter().all(|outcome| outcome == first) => *first,
        Some(_) if busy.contains(&Outcome::Done) || busy.contains(&Outcome::Partial) => Outcome::Partial,
        Some(_) => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_that_of_the_partitions_that_had_something_to_do() {
        let partition = |outcome, changes| PartitionReport {
            target_type: 1,
            shard: 0,
            outcome,
            error: None,
            restored: None,
            tally: Tally { changes, ..Tally::default() },
            lag: Lag::default(),
        };
        let idle = partition(Outcome::Done, 0);
        let of = |partitions: &[PartitionReport]| overall(partitions);
        assert_eq!(of(&[idle.clone(), idle.clone()]), Outcome::Done);
        assert_eq!(of(&[idle.clone(), partition(Outcome::Refused, 0)]), Outcome::Refused);
        assert_eq!(of(&[idle.clone(), partition(Outcome::Busy, 0)]), Outcome::Busy);
        assert_eq!(of(&[partition(Outcome::Done, 3), partition(Outcome::Busy, 0)]), Outcome::Partial);
        assert_eq!(of(&[partition(Outcome::Failed, 0), partition(Outcome::Refused, 0)]), Outcome::Failed);
        assert_eq!(of(&[idle, partition(Outcome::Partial, 1)]), Outcome::Partial);
    }

    #[test]
    fn a_restore_is_not_idle_and_those_of_one_run_are_counted() {
        let restored = |to: &str| Restored {
            kind: "missing",
            from: String::new(),
            to: to.into(),
            mysql: "3.1".into(),
            dropped: 0,
            kept: 0,
            times: 1,
        };
        let partition = |restored| PartitionReport {
            target_type: 1,
            shard: 0,
            outcome: Outcome::Done,
            error: None,
            restored,
            tally: Tally::default(),
            lag: Lag::default(),
        };
        let run = |partition| RunReport::new("0199".into(), Trigger::Start, Utc::now(), vec![partition], false);
        assert!(run(partition(None)).is_idle());
        assert!(!run(partition(Some(restored("4.0")))).is_idle());
        let mut last = partition(Some(restored("5.0")));
        last.add_earlier(partition(Some(restored("4.0"))));
        last.add_earlier(partition(None));
        assert_eq!(last.restored, Some(Restored { times: 2, ..restored("5.0") }));
        let mut last = partition(None);
        last.add_earlier(partition(Some(restored("4.0"))));
        assert_eq!(last.restored, Some(restored("4.0")));
    }
}
