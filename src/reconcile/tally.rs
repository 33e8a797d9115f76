//! What a pass counts as it goes.

use std::collections::BTreeMap;

use chrono::Utc;

use super::drift::{Finding, Kind};
use super::look::{Looked, Why};
use super::mend::Outcome;
use super::report::{InteractionFigures, Worst};
use crate::model::{Id, Vocabulary};
use crate::sink::DriftRow;

/// Drifts that are shown.
const WORST: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) looked_at: u64,
    pub(super) of: u64,
    /// Of those, looked at by the pass that this one goes on with.
    pub(super) earlier: u64,
    pub(super) skipped: BTreeMap<&'static str, u64>,
    pub(super) differing: u64,
    pub(super) repaired: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    pub(super) residual: u64,
    pub(super) by_kind: BTreeMap<&'static str, u64>,
    pub(super) interactions: BTreeMap<u16, InteractionFigures>,
    pub(super) worst: Vec<Worst>,
    /// By codes of target type and interaction that are not configured: a target, and how many rows.
    pub(super) unconfigured: BTreeMap<(u16, u16), (Id, u64)>,
}

impl Tally {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let of = |i: &crate::model::Interaction| {
            (i.code, InteractionFigures { interaction: i.name.clone(), ..InteractionFigures::default() })
        };
        Self { interactions: vocabulary.interactions.iter().map(of).collect(), ..Self::default() }
    }

    pub(super) fn skip(&mut self, why: Why, targets: u64) {
        *self.skipped.entry(why.as_str()).or_default() += targets;
    }

    /// A target was looked at, or skipped.
    pub(super) fn looked(&mut self, target_type: u16, looked: &Looked) {
        for &(interaction, rows) in &looked.unconfigured {
            self.unconfigured.entry((target_type, interaction)).or_insert((looked.target, 0)).1 += rows;
        }
        if let Some(why) = looked.skipped {
            return self.skip(why, 1);
        }
        self.looked_at += 1;
        for interaction in &looked.known {
            if let Some(figures) = self.interactions.get_mut(interaction) {
                figures.looked_at += 1;
            }
        }
    }

    /// A drift, and what became of it. Rows that are not configured are told of, and are no drift.
    pub(super) fn found(&mut self, target_type: u16, target: Id, finding: &Finding, outcome: Outcome) {
        *self.by_kind.entry(finding.kind.as_str()).or_default() += 1;
        let distance = finding.distance().unsigned_abs();
        if finding.kind != Kind::Unconfigured {
            match outcome {
                Outcome::Repaired => self.repaired += 1,
                Outcome::Failed => self.failed += 1,
                Outcome::Refused | Outcome::Left => self.refused += 1,
                Outcome::Dry => {}
            }
            self.residual += u64::from(outcome != Outcome::Repaired);
        }
        let name = self.interactions.get(&finding.interaction).map(|figures| figures.interaction.clone());
        let of = self.interactions.get_mut(&finding.interaction).filter(|_| finding.kind != Kind::Unconfigured);
        if let Some(figures) = of {
            figures.differing += 1;
            if finding.user.is_none() {
                figures.sum_abs_drift = figures.sum_abs_drift.saturating_add(distance);
                figures.max_abs_drift = figures.max_abs_drift.max(distance);
                figures.above += u64::from(finding.distance() > 0);
                figures.below += u64::from(finding.distance() < 0);
                figures.negatives += u64::from(finding.kind == Kind::RedisCountNegative);
            }
        }
        self.worst.push(Worst {
            target_type,
            target_id: target.to_string(),
            interaction: name.unwrap_or_else(|| finding.interaction.to_string()),
            user_id: finding.user.map(|user| user.to_string()),
            kind: finding.kind.as_str(),
            cause: finding.kind.cause(),
            side: finding.kind.side(),
            before: finding.before.clone(),
            after: finding.after.clone(),
            outcome: outcome.as_str(),
            is_only_told: finding.kind.is_only_told(),
            distance,
        });
        if self.worst.len() > 4 * WORST {
            self.keep_worst();
        }
    }

    pub(super) fn keep_worst(&mut self) {
        self.worst.sort_by_key(|worst| std::cmp::Reverse(worst.distance));
        self.worst.truncate(WORST);
    }
}

/// A drift as it is kept.
pub(super) fn row(target_type: u16, target: Id, finding: &Finding, outcome: Outcome) -> DriftRow {
    let cut = |text: &Option<String>| text.as_ref().map(|text| text.chars().filter(char::is_ascii).take(32).collect());
    DriftRow {
        target_type,
        target_id: target.get(),
        interaction_type: finding.interaction,
        user_id: finding.user.map(Id::get),
        kind: finding.kind.as_str().to_owned(),
        cause: finding.kind.cause().to_owned(),
        side: finding.kind.side().to_owned(),
        before: cut(&finding.before),
        after: cut(&finding.after),
        outcome: outcome.as_str().to_owned(),
        found_at: Utc::now(),
    }
}
