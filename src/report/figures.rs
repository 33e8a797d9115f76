//! What a pass says of itself: the JSON of `reconcile_run.report`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One pass. What its writer left out, or wrote otherwise, is absent.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// UUID.
    #[serde(deserialize_with = "lenient")]
    pub run_id: Option<String>,
    /// `sample`, `full` or `command`.
    #[serde(deserialize_with = "lenient")]
    pub trigger: Option<String>,
    /// When it began.
    #[serde(deserialize_with = "lenient")]
    pub started_at: Option<DateTime<Utc>>,
    /// How long it took.
    #[serde(deserialize_with = "lenient")]
    pub duration_ms: Option<u64>,
    /// Whether it only looked.
    #[serde(deserialize_with = "lenient")]
    pub dry_run: bool,
    /// `all`, `sample 1.0 %` or `target note:10086`.
    #[serde(deserialize_with = "lenient")]
    pub scope: Option<String>,
    /// How it ended.
    #[serde(deserialize_with = "lenient")]
    pub outcome: Verdict,
    /// The exit code of the command.
    #[serde(deserialize_with = "lenient")]
    pub exit_code: Option<i64>,
    /// What went wrong.
    #[serde(deserialize_with = "lenient")]
    pub error: Option<String>,
    /// Targets compared.
    #[serde(deserialize_with = "lenient")]
    pub looked_at: Option<u64>,
    /// Targets there are.
    #[serde(deserialize_with = "lenient")]
    pub of: Option<u64>,
    /// Targets passed over.
    #[serde(deserialize_with = "lenient")]
    pub skipped: Option<u64>,
    /// Why, and how many.
    #[serde(deserialize_with = "lenient")]
    pub skipped_why: BTreeMap<String, u64>,
    /// Targets with drift.
    #[serde(deserialize_with = "lenient")]
    pub differing: Option<u64>,
    /// Drifts repaired, and seen to be right afterwards.
    #[serde(deserialize_with = "lenient")]
    pub repaired: Option<u64>,
    /// Repairs that went wrong.
    #[serde(deserialize_with = "lenient")]
    pub failed: Option<u64>,
    /// Repairs that a newer write forbade.
    #[serde(deserialize_with = "lenient")]
    pub refused: Option<u64>,
    /// What still differed when it was read back.
    #[serde(deserialize_with = "lenient")]
    pub residual: Option<u64>,
    /// Drifts by kind.
    #[serde(deserialize_with = "lenient")]
    pub by_kind: BTreeMap<String, u64>,
    /// The same by interaction.
    #[serde(deserialize_with = "lenient_list")]
    pub interactions: Vec<OfInteraction>,
    /// The largest drifts first.
    #[serde(deserialize_with = "lenient_list")]
    pub worst: Vec<Drift>,
    /// What runs did since the last report.
    #[serde(deserialize_with = "lenient")]
    pub sync_health: Option<SyncHealth>,
    /// Writes that went to MySQL while Redis was away.
    #[serde(deserialize_with = "lenient")]
    pub degraded: Option<Degraded>,
    /// How often Redis was found to have lost writes.
    #[serde(deserialize_with = "lenient")]
    pub losses: Option<u64>,
}

/// How a pass ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing differed.
    Clean,
    /// What differed does no longer.
    Repaired,
    /// Something differs still.
    Drift,
    /// So much differed that nothing was written.
    Stopped,
    /// It did not come to its end.
    Failed,
    /// None that this version knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The figures of one interaction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OfInteraction {
    /// Its name.
    pub interaction: String,
    /// Targets compared.
    #[serde(deserialize_with = "lenient")]
    pub looked_at: Option<u64>,
    /// Targets with drift.
    #[serde(deserialize_with = "lenient")]
    pub differing: Option<u64>,
    /// Of all counts together.
    #[serde(deserialize_with = "lenient")]
    pub sum_abs_drift: Option<u64>,
    /// Of one count.
    #[serde(deserialize_with = "lenient")]
    pub max_abs_drift: Option<u64>,
    /// Counts that were too high.
    #[serde(deserialize_with = "lenient")]
    pub above: Option<u64>,
    /// Counts that were too low.
    #[serde(deserialize_with = "lenient")]
    pub below: Option<u64>,
    /// Counts below zero.
    #[serde(deserialize_with = "lenient")]
    pub negatives: Option<u64>,
}

/// One drift.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Drift {
    /// Code or name.
    #[serde(deserialize_with = "scalar")]
    pub target_type: Option<String>,
    /// The target.
    #[serde(deserialize_with = "scalar")]
    pub target_id: Option<String>,
    /// The interaction's name or code.
    #[serde(deserialize_with = "scalar")]
    pub interaction: Option<String>,
    /// The user, where a state is concerned.
    #[serde(deserialize_with = "scalar")]
    pub user_id: Option<String>,
    /// What differed.
    #[serde(deserialize_with = "scalar")]
    pub kind: Option<String>,
    /// Why, probably.
    #[serde(deserialize_with = "scalar")]
    pub cause: Option<String>,
    /// `redis` or `mysql`.
    #[serde(deserialize_with = "scalar")]
    pub side: Option<String>,
    /// What was found; absent when it was not there.
    #[serde(deserialize_with = "scalar")]
    pub before: Option<String>,
    /// What is right; absent when it was to go, or is not known.
    #[serde(deserialize_with = "scalar")]
    pub after: Option<String>,
    /// `repaired`, `failed`, `refused`, `left` or `dry`.
    #[serde(deserialize_with = "scalar")]
    pub outcome: Option<String>,
}

/// What runs did since the last report.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SyncHealth {
    /// The last report.
    #[serde(deserialize_with = "lenient")]
    pub since: Option<DateTime<Utc>>,
    /// Runs.
    #[serde(deserialize_with = "lenient")]
    pub runs: Option<u64>,
    /// Those that failed.
    #[serde(deserialize_with = "lenient")]
    pub failed_runs: Option<u64>,
    /// Rows written to MySQL.
    #[serde(deserialize_with = "lenient")]
    pub rows_written: Option<u64>,
    /// Changes copied.
    #[serde(deserialize_with = "lenient")]
    pub changes: Option<u64>,
    /// Targets copied.
    #[serde(deserialize_with = "lenient")]
    pub targets: Option<u64>,
    /// Transactions tried again.
    #[serde(deserialize_with = "lenient")]
    pub retries: Option<u64>,
    /// Rows set aside.
    #[serde(deserialize_with = "lenient")]
    pub rejected: Option<u64>,
    /// How late half of the changes were at most.
    #[serde(deserialize_with = "lenient")]
    pub lag_p50_ms: Option<u64>,
    /// How late 99 % of them were at most.
    #[serde(deserialize_with = "lenient")]
    pub lag_p99_ms: Option<u64>,
    /// The age of the oldest change that waits.
    #[serde(deserialize_with = "lenient")]
    pub oldest_dirty_ms: Option<u64>,
    /// Writes for one change that was copied.
    #[serde(deserialize_with = "lenient")]
    pub coalescing: Option<f64>,
}

/// Writes that went to MySQL while Redis was away.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Degraded {
    /// Accepted.
    #[serde(deserialize_with = "lenient")]
    pub accepted_total: Option<u64>,
    /// Back in Redis.
    #[serde(deserialize_with = "lenient")]
    pub replayed_total: Option<u64>,
    /// Not yet.
    #[serde(deserialize_with = "lenient")]
    pub pending: Option<u64>,
}

impl Figures {
    /// Reads a pass; `None` when that is no JSON object at all.
    #[must_use]
    pub fn of(json: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(json).ok().filter(Value::is_object)?;
        serde_json::from_value(value).ok()
    }

    /// The sum of |drift| over all interactions; `None` when no interaction tells it.
    #[must_use]
    pub fn sum_abs_drift(&self) -> Option<u64> {
        let told: Vec<u64> = self.interactions.iter().filter_map(|of| of.sum_abs_drift).collect();
        (!told.is_empty()).then(|| told.iter().fold(0_u64, |sum, drift| sum.saturating_add(*drift)))
    }
}

/// A value of another type is taken as absent, so that one odd figure does not hide the rest.
fn lenient<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

fn lenient_list<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let value = Value::deserialize(from)?;
    let entries = if let Value::Array(entries) = value { entries } else { Vec::new() };
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// A text or a number, as a text.
fn scalar<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_odd_is_absent_and_hides_nothing_else() {
        assert_eq!(Figures::of("{}"), Some(Figures::default()));
        assert_eq!(Figures::of("[1]"), None);
        assert_eq!(Figures::of("no json"), None);
        let odd = r#"{"run_id": 7, "outcome": "splendid", "looked_at": "many", "of": 12, "skipped_why": [1],
            "interactions": [{"interaction": "like", "differing": -1, "sum_abs_drift": 9}, 4, {"looked_at": 1}],
            "worst": [{"target_type": 1, "target_id": "9007199254740993", "user_id": 9223372036854775807,
            "before": null, "after": {}}], "degraded": "none", "by_kind": {"mark_lost": 2}, "new": {"a": 1}}"#;
        let read = Figures::of(odd).unwrap();
        assert_eq!((read.run_id, read.outcome, read.looked_at, read.of), (None, Verdict::Unknown, None, Some(12)));
        assert_eq!((read.interactions.len(), read.interactions[0].differing), (2, None));
        assert_eq!(read.interactions[0].sum_abs_drift, Some(9));
        assert_eq!(read.worst[0].target_id.as_deref(), Some("9007199254740993"));
        assert_eq!(read.worst[0].user_id.as_deref(), Some("9223372036854775807"));
        assert_eq!((read.worst[0].target_type.as_deref(), &read.worst[0].after), (Some("1"), &None));
        assert_eq!((read.by_kind["mark_lost"], read.degraded), (2, None));
    }

    #[test]
    fn drift_is_summed_where_it_is_told() {
        let of = |sum_abs_drift| OfInteraction { sum_abs_drift, ..OfInteraction::default() };
        let figures = |interactions| Figures { interactions, ..Figures::default() };
        assert_eq!(figures(vec![]).sum_abs_drift(), None);
        assert_eq!(figures(vec![of(None)]).sum_abs_drift(), None);
        assert_eq!(figures(vec![of(Some(2)), of(None), of(Some(3))]).sum_abs_drift(), Some(5));
    }
}
