//! What people are told of a run that `sync_run` keeps: its figures, and why it is not done.

use serde::Deserialize;

use crate::model::{Partition, Vocabulary};
use crate::sync::Lag;

/// A run, as far as it is told of.
#[derive(Deserialize)]
pub(crate) struct LastRun {
    pub(crate) run_id: String,
    pub(crate) started_at: String,
    pub(crate) outcome: String,
    pub(crate) trigger: String,
    pub(crate) changes: u64,
    pub(crate) rows_written: u64,
    pub(crate) rejected: u64,
    pub(crate) left: u64,
    pub(crate) duration_ms: u64,
    /// How long its changes had waited, if there were any.
    pub(crate) lag_ms: Option<Lag>,
    partitions: Vec<RunPartition>,
}

#[derive(Deserialize)]
struct RunPartition {
    target_type: u16,
    shard: u16,
    outcome: String,
    error: Option<String>,
}

impl LastRun {
    /// Reads a report; `None` when it is of a version that wrote other ones.
    pub(crate) fn of(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Whether everything that was marked is in MySQL.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome == "done"
    }

    /// What stood in the way: partitions, how they ended, and why; those that tell the same are told once.
    pub(crate) fn reasons(&self, vocabulary: &Vocabulary) -> Vec<String> {
        let mut reasons: Vec<(Vec<String>, &str, &str)> = Vec::new();
        for RunPartition { target_type, shard, outcome, error } in &self.partitions {
            let Some(error) = error else { continue };
            let name = name(vocabulary, Partition { target_type: *target_type, shard: *shard });
            match reasons.iter_mut().find(|reason| (reason.1, reason.2) == (outcome, error)) {
                Some((names, _, _)) => names.push(name),
                None => reasons.push((vec![name], outcome, error)),
            }
        }
        reasons.iter().map(|(names, outcome, error)| format!("{} {outcome}: {error}", names.join(", "))).collect()
    }
}

/// `note 1/0`
pub(crate) fn name(vocabulary: &Vocabulary, partition: Partition) -> String {
    let Partition { target_type, shard } = partition;
    let name = vocabulary.targets.iter().find(|target| target.code == target_type).map_or("", |target| &target.name);
    format!("{name} {target_type}/{shard}").trim_start().to_owned()
}
