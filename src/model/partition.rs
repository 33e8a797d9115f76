//! Partitions: the unit of claiming, leasing and checkpointing.

use std::fmt;

use super::Id;

/// One target type, or in cluster mode one shard of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition {
    /// Code of the target type.
    pub target_type: u16,
    /// `0` unless there are several shards.
    pub shard: u16,
}

impl Partition {
    /// The partition of a target, when there are `shards` shards.
    #[must_use]
    pub fn of(target_type: u16, target: Id, shards: u16) -> Self {
        let shards = u32::from(shards.max(1));
        let hash = if shards == 1 { 0 } else { crc32fast::hash(format!("{target_type}:{target}").as_bytes()) };
        let shard = u16::try_from(hash % shards).unwrap_or_default();
        Self { target_type, shard }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target_type, self.shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_the_ieee_crc32_of_type_and_id() {
        let target = "10086".parse().unwrap();
        assert_eq!(crc32fast::hash(b"1:10086"), 2_797_465_654);
        assert_eq!(Partition::of(1, target, 1), Partition { target_type: 1, shard: 0 });
        assert_eq!(Partition::of(1, target, 16), Partition { target_type: 1, shard: 6 });
    }
}
