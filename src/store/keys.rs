//! The one place that knows the name of every Redis key.

use crate::model::{Id, Partition, Vocabulary};

/// Names keys, plain or with a partition's hash tag in front.
///
/// In the tagged layout every key of a partition starts with `{p<shard>}:`, so that all keys a script touches share
/// a slot and partitions spread over the nodes of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    shards: Option<u16>,
}

/// What a key of a target is, as told from its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetKey {
    /// `<interaction>:{target_type}:{target_id}`
    State(String, Id),
    /// `cnt:{target_type}:{target_id}`
    Count(Id),
}

impl Keys {
    /// The names that standalone and Sentinel use.
    #[must_use]
    pub fn plain() -> Self {
        Self { shards: None }
    }

    /// The names in cluster mode, with at least one shard.
    #[must_use]
    pub fn tagged(shards: u16) -> Self {
        Self { shards: Some(shards.max(1)) }
    }

    /// How many shards each target type has.
    #[must_use]
    pub fn shards(self) -> u16 {
        self.shards.unwrap_or(1)
    }

    /// The partition of a target.
    #[must_use]
    pub fn partition(self, target_type: u16, target: Id) -> Partition {
        Partition::of(target_type, target, self.shards())
    }

    fn tag(self, shard: u16) -> String {
        self.shards.map(|_| format!("{{p{shard}}}:")).unwrap_or_default()
    }

    fn of_target(self, word: &str, target_type: u16, target: Id) -> String {
        format!("{}{word}:{target_type}:{target}", self.tag(self.partition(target_type, target).shard))
    }

    fn of_partition(self, word: &str, partition: Partition, suffix: &str) -> String {
        format!("{}{word}:{}{suffix}", self.tag(partition.shard), partition.target_type)
    }

    /// Hash: user id → `1` or `0`; field `0` → `full` or `partial`.
    #[must_use]
    pub fn state(self, interaction: &str, target_type: u16, target: Id) -> String {
        self.of_target(interaction, target_type, target)
    }

    /// Hash: interaction name → count; `.seen` → when it was last written or loaded; `.old:<interaction>` → where writers
    /// save the states that they flip, while a recount is under way.
    #[must_use]
    pub fn count(self, target_type: u16, target: Id) -> String {
        self.of_target("cnt", target_type, target)
    }

    /// Set: targets with changes that MySQL does not have yet.
    #[must_use]
    pub fn dirty(self, partition: Partition) -> String {
        self.of_partition("dirty", partition, "")
    }

    /// Hash: `<interaction>:<target>:<user>` → event time.
    #[must_use]
    pub fn changes(self, partition: Partition) -> String {
        self.of_partition("chg", partition, "")
    }

    /// Set: the targets a run has claimed and not yet acked.
    #[must_use]
    pub fn dirty_inflight(self, partition: Partition) -> String {
        self.of_partition("dirty", partition, ":inflight")
    }

    /// Hash: the changes a run has claimed and not yet acked.
    #[must_use]
    pub fn changes_inflight(self, partition: Partition) -> String {
        self.of_partition("chg", partition, ":inflight")
    }

    /// Set: the targets acked in this run.
    #[must_use]
    pub fn done(self, partition: Partition) -> String {
        self.of_partition("dirty", partition, ":inflight:done")
    }

    /// String: `<lease token>.<step>`.
    #[must_use]
    pub fn checkpoint(self, partition: Partition) -> String {
        self.of_partition("ckpt", partition, "")
    }

    /// String: present while a restore is under way.
    #[must_use]
    pub fn restoring(self, partition: Partition) -> String {
        self.of_partition("restoring", partition, "")
    }

    /// String with a TTL: who is loading a target.
    #[must_use]
    pub fn load_lock(self, target_type: u16, target: Id) -> String {
        self.of_target("lock", target_type, target)
    }

    /// Hash with a TTL: user id → the state that he had when a recount began, before it flipped; field `0` says that it is
    /// under way.
    #[must_use]
    pub fn saved_states(self, interaction: &str, target_type: u16, target: Id) -> String {
        self.of_target(&format!("lock:{interaction}:old"), target_type, target)
    }

    /// String with a TTL: a viewer was counted.
    #[must_use]
    pub fn viewer_lock(self, counter: &str, target_type: u16, target: Id, viewer: &str) -> String {
        format!("{}:{viewer}", self.of_target(&format!("lock:{counter}"), target_type, target))
    }

    /// String with a TTL: whether writes are taken is tried on it.
    #[must_use]
    pub fn probe(self) -> String {
        format!("{}lock:probe", self.tag(0))
    }

    /// A pattern for SCAN that every target key of the partition matches, besides others: see [`Keys::parse`].
    #[must_use]
    pub fn target_pattern(self, partition: Partition) -> String {
        let tag = self.tag(partition.shard);
        format!("{tag}*:{}:*", partition.target_type)
    }

    /// A pattern for SCAN that the count hash of every target matches, besides others: see [`Keys::parse`].
    #[must_use]
    pub fn count_pattern(self) -> &'static str {
        if self.shards.is_some() { "{p*}:cnt:*" } else { "cnt:*" }
    }

    /// Patterns that every key of tallyd matches, as an ACL takes them.
    #[must_use]
    pub fn patterns(self, vocabulary: &Vocabulary) -> Vec<String> {
        // A full scan looks for the states of counters, too.
        let states = vocabulary.interactions.iter().map(|interaction| self.pattern(&interaction.name));
        states.chain(["cnt", "dirty", "chg", "ckpt", "restoring", "lock"].map(|word| self.pattern(word))).collect()
    }

    /// Keys of a target type, at least one for each of [`Keys::patterns`], each with its pattern.
    #[must_use]
    pub fn samples(self, vocabulary: &Vocabulary, target_type: u16) -> Vec<(String, String)> {
        let (partition, target) = (Partition { target_type, shard: 0 }, Id::MIN);
        let mut samples = vec![
            (self.pattern("cnt"), self.count(target_type, target)),
            (self.pattern("dirty"), self.dirty(partition)),
            (self.pattern("dirty"), self.dirty_inflight(partition)),
            (self.pattern("dirty"), self.done(partition)),
            (self.pattern("chg"), self.changes(partition)),
            (self.pattern("chg"), self.changes_inflight(partition)),
            (self.pattern("ckpt"), self.checkpoint(partition)),
            (self.pattern("restoring"), self.restoring(partition)),
            (self.pattern("lock"), self.load_lock(target_type, target)),
            (self.pattern("lock"), self.probe()),
        ];
        for interaction in &vocabulary.interactions {
            let name = &interaction.name;
            samples.push((self.pattern(name), self.state(name, target_type, target)));
            if interaction.has_states() {
                samples.push((self.pattern("lock"), self.saved_states(name, target_type, target)));
            } else {
                samples.push((self.pattern("lock"), self.viewer_lock(name, target_type, target, "1")));
            }
        }
        samples
    }

    fn pattern(self, word: &str) -> String {
        format!("{}{word}:*", if self.shards.is_some() { "{p*}:" } else { "" })
    }

    /// What a key is, if it is a state hash or count hash of this partition.
    #[must_use]
    pub fn parse(self, partition: Partition, key: &str) -> Option<TargetKey> {
        let rest = key.strip_prefix(&self.tag(partition.shard))?;
        let (word, rest) = rest.split_once(':')?;
        let (target_type, target) = rest.split_once(':')?;
        let target: Id = target.parse().ok()?;
        if target_type != partition.target_type.to_string() {
            return None;
        }
        Some(if word == "cnt" { TargetKey::Count(target) } else { TargetKey::State(word.to_owned(), target) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        text.parse().unwrap()
    }

    #[test]
    fn plain_names_are_those_that_existing_data_uses() {
        let (keys, partition) = (Keys::plain(), Partition { target_type: 1, shard: 0 });
        assert_eq!(keys.state("like", 1, id("10086")), "like:1:10086");
        assert_eq!(keys.count(1, id("10086")), "cnt:1:10086");
        assert_eq!(keys.dirty(partition), "dirty:1");
        assert_eq!(keys.changes(partition), "chg:1");
        assert_eq!(keys.dirty_inflight(partition), "dirty:1:inflight");
        assert_eq!(keys.changes_inflight(partition), "chg:1:inflight");
        assert_eq!(keys.done(partition), "dirty:1:inflight:done");
        assert_eq!(keys.checkpoint(partition), "ckpt:1");
        assert_eq!(keys.restoring(partition), "restoring:1");
    }

    #[test]
    fn tagged_names_share_the_slot_of_their_partition() {
        let keys = Keys::tagged(16);
        let partition = keys.partition(1, id("10086"));
        assert_eq!(partition.shard, 6);
        assert_eq!(keys.state("like", 1, id("10086")), "{p6}:like:1:10086");
        assert_eq!(keys.count(1, id("10086")), "{p6}:cnt:1:10086");
        for key in [
            keys.dirty(partition),
            keys.changes(partition),
            keys.dirty_inflight(partition),
            keys.changes_inflight(partition),
            keys.done(partition),
            keys.checkpoint(partition),
            keys.restoring(partition),
            keys.target_pattern(partition),
        ] {
            assert!(key.starts_with("{p6}:"), "{key}");
        }
        assert_eq!(Keys::tagged(1).dirty(Partition { target_type: 1, shard: 0 }), "{p0}:dirty:1");
    }

    #[test]
    fn a_target_key_is_told_from_the_marks() {
        for keys in [Keys::plain(), Keys::tagged(4)] {
            let target = id("77");
            let partition = keys.partition(2, target);
            let state = TargetKey::State("like".to_owned(), target);
            assert_eq!(keys.parse(partition, &keys.state("like", 2, target)), Some(state));
            assert_eq!(keys.parse(partition, &keys.count(2, target)), Some(TargetKey::Count(target)));
            let (before, after) = keys.count_pattern().split_once("cnt:").unwrap();
            assert!(keys.count(2, target).starts_with(before.trim_end_matches("*}:")) && after == "*");
            for mark in [keys.dirty(partition), keys.dirty_inflight(partition), keys.done(partition)] {
                assert_eq!(keys.parse(partition, &mark), None, "{mark}");
            }
            assert_eq!(keys.parse(partition, &keys.state("like", 3, target)), None);
        }
    }
}
