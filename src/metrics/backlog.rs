//! What waits in Redis, as it was when it was last asked.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::model::Vocabulary;

/// What waits of one target type, over all its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Code of the target type.
    pub target_type: u16,
    /// Targets that MySQL does not have yet, claimed ones included.
    pub dirty: u64,
    /// Changes that MySQL does not have yet, claimed ones included.
    pub changes: u64,
    /// Age of the oldest of them, milliseconds; `None` when there is none.
    pub oldest_ms: Option<u64>,
}

/// The backlog. While Redis is down there are no such series, and `tallyd_redis_up` is 0.
#[derive(Clone, Debug)]
pub struct BacklogMetrics {
    names: Arc<[(u16, Arc<str>)]>,
    up: Gauge,
    dirty: Family<Labels<1>, Gauge>,
    changes: Family<Labels<1>, Gauge>,
    /// Without labels; a family, so that it can be absent.
    oldest: Family<Labels<0>, Gauge<f64, AtomicU64>>,
}

impl BacklogMetrics {
    pub(super) fn register(registry: &mut Registry, vocabulary: &Vocabulary) -> Self {
        let metrics = Self {
            names: vocabulary.targets.iter().map(|target| (target.code, Arc::from(target.name.as_str()))).collect(),
            up: Gauge::default(),
            dirty: Family::default(),
            changes: Family::default(),
            oldest: Family::default(),
        };
        registry.register("redis_up", "Whether Redis answered this scrape in time", metrics.up.clone());
        let help = "Targets with changes that MySQL does not have yet, claimed ones included";
        registry.register("dirty_targets", help, metrics.dirty.clone());
        let help = "Changes that MySQL does not have yet, claimed ones included";
        registry.register("pending_changes", help, metrics.changes.clone());
        let help = "Age of the oldest change that MySQL does not have yet; 0 without one";
        registry.register("oldest_change_seconds", help, metrics.oldest.clone());
        metrics
    }

    /// Redis answered: what it said, one entry for each target type that could be looked at.
    pub fn known(&self, waiting: &[Waiting]) {
        for (code, name) in self.names.iter() {
            let labels = [("target_type", name.clone())];
            let Some(of_type) = waiting.iter().find(|waiting| waiting.target_type == *code) else {
                self.dirty.remove(&labels);
                self.changes.remove(&labels);
                continue;
            };
            self.dirty.get_or_create(&labels).set(of_type.dirty.try_into().unwrap_or(i64::MAX));
            self.changes.get_or_create(&labels).set(of_type.changes.try_into().unwrap_or(i64::MAX));
        }
        let oldest_ms = waiting.iter().filter_map(|waiting| waiting.oldest_ms).max().unwrap_or_default();
        self.oldest.get_or_create(&[]).set(std::time::Duration::from_millis(oldest_ms).as_secs_f64());
        self.up.set(1);
    }

    /// Redis did not answer: nothing is said rather than something old.
    pub fn unknown(&self) {
        self.dirty.clear();
        self.changes.clear();
        self.oldest.clear();
        self.up.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::metrics::Metrics;

    #[test]
    fn what_is_not_known_is_not_said() {
        let vocabulary = Config::parse("", [], Path::new("f")).unwrap().vocabulary;
        let metrics = Metrics::new(&vocabulary, &[]);
        let note = Waiting { target_type: 1, ..Waiting::default() };
        let video = Waiting { target_type: 2, dirty: 3, changes: 5, oldest_ms: Some(1500) };
        metrics.backlog.known(&[note, video]);
        let text = metrics.text().unwrap();
        for line in [
            "tallyd_redis_up 1",
            "tallyd_dirty_targets{target_type=\"video\"} 3",
            "tallyd_pending_changes{target_type=\"video\"} 5",
            "tallyd_dirty_targets{target_type=\"note\"} 0",
            "tallyd_oldest_change_seconds 1.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        metrics.backlog.known(&[video]);
        let text = metrics.text().unwrap();
        assert!(text.contains("{target_type=\"video\"} 3\n") && !text.contains("{target_type=\"note\"}"), "{text}");
        metrics.backlog.unknown();
        let text = metrics.text().unwrap();
        assert!(text.contains("tallyd_redis_up 0\n") && !text.contains("tallyd_dirty_targets{"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("tallyd_oldest_change_seconds ")), "{text}");
    }
}
