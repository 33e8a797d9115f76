//! What MySQL keeps of the work of all daemons, as it was when it was last asked: it outlives restarts.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::sink::Standing;

/// The journal of degraded writes, and when runs and passes last came to their ends.
#[derive(Clone, Debug, Default)]
pub struct LedgerMetrics {
    up: Gauge,
    /// These two without labels; families, so that they can be absent.
    pending: Family<Labels<0>, Gauge>,
    report_waits: Family<Labels<0>, Gauge>,
    run_done: Gauge,
    full_pass: Gauge,
    agreement: Gauge,
}

impl LedgerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("mysql_up", "Whether MySQL answered this scrape in time", metrics.up.clone());
        let help = "Degraded writes that are not replayed into Redis yet";
        registry.register("degraded_pending_writes", help, metrics.pending.clone());
        let help = "For how long the report of the last full pass has not been mailed; 0 when it was, or without mail";
        registry.register("report_waiting_seconds", help, metrics.report_waits.clone());
        let help = "When a run of any process last ended as done, Unix seconds; 0 before the first";
        registry.register("sync_last_success_timestamp_seconds", help, metrics.run_done.clone());
        let help = "When a full pass of any daemon last came to its end, Unix seconds; 0 before the first";
        registry.register("reconcile_last_full_timestamp_seconds", help, metrics.full_pass.clone());
        let help = "When a pass of any daemon last left both sides in agreement, Unix seconds; 0 before the first";
        registry.register("reconcile_last_success_timestamp_seconds", help, metrics.agreement.clone());
        metrics
    }

    /// MySQL answered. `mails`: whether reports are mailed at all.
    pub fn known(&self, standing: &Standing, mails: bool) {
        let Standing { journal, run_done_s, full_pass_s, agreement_s, report_waits_s } = *standing;
        self.up.set(1);
        self.pending.get_or_create(&[]).set(journal.try_into().unwrap_or(i64::MAX));
        self.report_waits.get_or_create(&[]).set(report_waits_s.filter(|_| mails).unwrap_or_default());
        self.run_done.set(run_done_s.unwrap_or_default());
        self.full_pass.set(full_pass_s.unwrap_or_default());
        self.agreement.set(agreement_s.unwrap_or_default());
    }

    /// MySQL did not answer: what happened before stays true, of what waits nothing is said.
    pub fn unknown(&self) {
        self.up.set(0);
        self.pending.clear();
        self.report_waits.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::metrics::Metrics;

    #[test]
    fn what_happened_stays_true_and_what_waits_is_not_guessed() {
        let vocabulary = Config::parse("", [], Path::new("f")).unwrap().vocabulary;
        let metrics = Metrics::new(&vocabulary, &[]);
        let standing = Standing {
            journal: 3,
            run_done_s: Some(5),
            full_pass_s: Some(6),
            agreement_s: None,
            report_waits_s: Some(7),
        };
        metrics.ledger.known(&standing, true);
        let text = metrics.text().unwrap();
        for line in [
            "tallyd_mysql_up 1",
            "tallyd_degraded_pending_writes 3",
            "tallyd_report_waiting_seconds 7",
            "tallyd_sync_last_success_timestamp_seconds 5",
            "tallyd_reconcile_last_full_timestamp_seconds 6",
            "tallyd_reconcile_last_success_timestamp_seconds 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        metrics.ledger.known(&standing, false);
        assert!(metrics.text().unwrap().contains("tallyd_report_waiting_seconds 0\n"), "without mail nothing waits");
        metrics.ledger.unknown();
        let text = metrics.text().unwrap();
        assert!(
            text.contains("tallyd_mysql_up 0\n") && text.contains("tallyd_sync_last_success_timestamp_seconds 5\n")
        );
        assert!(!text.lines().any(|line| line.starts_with("tallyd_degraded_pending_writes ")), "{text}");
    }
}
