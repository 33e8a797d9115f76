//! What a pass says it did.

use std::collections::BTreeMap;

use serde::Serialize;

use super::health::{Degraded, SyncHealth};

/// How a pass ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing differed.
    Clean,
    /// What differed is repaired, and was read back.
    Repaired,
    /// Something differs still.
    Drift,
    /// Too much differed: nothing was written.
    Stopped,
    /// A part was not looked at, or the pass did not end.
    Failed,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 5] = [Self::Clean, Self::Repaired, Self::Drift, Self::Stopped, Self::Failed];

    /// The word in reports and in `reconcile_run.outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Repaired => "repaired",
            Self::Drift => "drift",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// A pass, as `tallyd reconcile --json` prints it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// UUID, version 7.
    pub run_id: String,
    /// `sample`, `full` or `command`.
    pub trigger: &'static str,
    /// RFC 3339, milliseconds, UTC.
    pub started_at: String,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether nothing was to be changed.
    pub dry_run: bool,
    /// The pass that was cut short and is gone on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// `all`, `sample 1.0 %` or `target note:10086`.
    pub scope: String,
    /// How it ended.
    pub outcome: Verdict,
    /// Of the process that ends with it.
    pub exit_code: u8,
    /// Why it failed or stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Targets compared.
    pub looked_at: u64,
    /// Targets that either side knows.
    pub of: u64,
    /// Targets that were chosen, and not compared in full.
    pub skipped: u64,
    /// How many for which reason.
    pub skipped_why: BTreeMap<&'static str, u64>,
    /// Targets that differed at two looks.
    pub differing: u64,
    /// Drifts repaired, and read back as right.
    pub repaired: u64,
    /// Drifts that were still there.
    pub failed: u64,
    /// Drifts not touched.
    pub refused: u64,
    /// Drifts that are left.
    pub residual: u64,
    /// Drifts by kind.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// By interaction, in configured order.
    pub interactions: Vec<InteractionFigures>,
    /// The largest drifts, at most 20.
    pub worst: Vec<Worst>,
    /// Runs since the last pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_health: Option<SyncHealth>,
    /// Degraded writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Degraded>,
    /// Partitions restored since the last pass, for Redis had lost writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<u64>,
}

/// One interaction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InteractionFigures {
    /// Its name.
    pub interaction: String,
    /// Targets of which either side knows something of it.
    pub looked_at: u64,
    /// Drifts.
    pub differing: u64,
    /// Of counts, the sum of |before − after|.
    pub sum_abs_drift: u64,
    /// Of counts, the greatest |before − after|.
    pub max_abs_drift: u64,
    /// Counts that were too high.
    pub above: u64,
    /// Counts that were too low.
    pub below: u64,
    /// Counts that were below zero.
    pub negatives: u64,
}

/// One of the largest drifts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Worst {
    /// Code of the target type.
    pub target_type: u16,
    /// The target.
    pub target_id: String,
    /// Name of the interaction, or its code.
    pub interaction: String,
    /// The user, where a state is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// What differs.
    pub kind: &'static str,
    /// The probable cause.
    pub cause: &'static str,
    /// `redis` or `mysql`.
    pub side: &'static str,
    /// What was there.
    pub before: Option<String>,
    /// What is right.
    pub after: Option<String>,
    /// `repaired`, `failed`, `refused`, `left` or `dry`.
    pub outcome: &'static str,
    /// Whether it is told and never touched.
    #[serde(skip)]
    pub is_only_told: bool,
    /// How far off it was.
    #[serde(skip)]
    pub distance: u64,
}
