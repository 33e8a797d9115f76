//! Writes that were answered.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::model::{Interaction, Vocabulary};

/// Writes by interaction and result.
#[derive(Clone, Debug)]
pub struct WriteMetrics {
    series: Arc<[Series]>,
}

#[derive(Debug)]
struct Series {
    interaction: u16,
    /// `changed`, or `counted` of a counter.
    done: Counter,
    /// `unchanged`, or `not_counted` of a counter.
    nothing: Counter,
    failed: Counter,
}

impl WriteMetrics {
    pub(super) fn register(registry: &mut Registry, vocabulary: &Vocabulary) -> Self {
        let total = Family::<Labels<2>, Counter>::default();
        let series = |interaction: &Interaction| {
            let (done, nothing) =
                if interaction.has_states() { ("changed", "unchanged") } else { ("counted", "not_counted") };
            let [done, nothing, failed] = [done, nothing, "failed"].map(|result| {
                let labels = [("interaction", interaction.name.as_str().into()), ("result", result.into())];
                total.get_or_create_owned(&labels)
            });
            Series { interaction: interaction.code, done, nothing, failed }
        };
        let series = vocabulary.interactions.iter().map(series).collect();
        registry.register("writes", "Writes that were answered", total);
        Self { series }
    }

    /// A write to the interaction of this code was acknowledged. `effective`: it changed a state, or a viewer was
    /// counted.
    pub fn acknowledged(&self, interaction: u16, effective: bool) {
        if let Some(series) = self.of(interaction) {
            if effective {
                series.done.inc()
            } else {
                series.nothing.inc()
            };
        }
    }

    /// How many writes were acknowledged.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.series.iter().map(|series| series.done.get() + series.nothing.get()).sum()
    }

    /// A write to the interaction of this code was not acknowledged.
    pub fn failed(&self, interaction: u16) {
        if let Some(series) = self.of(interaction) {
            series.failed.inc();
        }
    }

    fn of(&self, interaction: u16) -> Option<&Series> {
        self.series.iter().find(|series| series.interaction == interaction)
    }
}
