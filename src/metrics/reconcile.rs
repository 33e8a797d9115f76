//! Passes of reconciliation.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::reconcile::{Kind, Report, Verdict};

/// What the passes of this process found.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    drift: Family<Labels<1>, Counter>,
    passes: Family<Labels<1>, Counter>,
    mails: Family<Labels<1>, Counter>,
}

impl ReconcileMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { drift: Family::default(), passes: Family::default(), mails: Family::default() };
        for kind in Kind::ALL {
            drop(metrics.drift.get_or_create(&[("kind", Arc::from(kind.as_str()))]));
        }
        for verdict in Verdict::ALL {
            drop(metrics.passes.get_or_create(&[("outcome", Arc::from(verdict.as_str()))]));
        }
        for result in ["sent", "failed"] {
            drop(metrics.mails.get_or_create(&[("result", Arc::from(result))]));
        }
        registry.register(
            "report_mails",
            "Reports handed to the mail server, and attempts that failed",
            metrics.mails.clone(),
        );
        registry.register("drift", "Drifts found by their kind", metrics.drift.clone());
        registry.register("reconcile_passes", "Passes by their outcome", metrics.passes.clone());
        metrics
    }

    /// A report was handed to the mail server, or could not be.
    pub fn mailed(&self, sent: bool) {
        self.mails.get_or_create(&[("result", Arc::from(if sent { "sent" } else { "failed" }))]).inc();
    }

    /// A pass has ended.
    pub fn ended(&self, report: &Report) {
        for (kind, number) in &report.by_kind {
            self.drift.get_or_create(&[("kind", Arc::from(*kind))]).inc_by(*number);
        }
        self.passes.get_or_create(&[("outcome", Arc::from(report.outcome.as_str()))]).inc();
    }
}
