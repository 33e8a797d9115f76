//! How long changes waited until MySQL held them.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Two neighbouring bounds differ by so much, in percent: what a quantile is off by at most. Bounds in geometric steps are
/// those of `DDSketch` (Masson, Rim, Lee: VLDB 2019); sketches of several runs add up.
const STEP: u64 = 10;
/// The first bound, ms.
const FIRST: u64 = 100;
/// What waited for longer than this, about thirty years, has an event time that is none.
const LAST: u64 = 1_000_000_000_000;

/// A sketch of waits, in milliseconds: how many were at most so long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lag(BTreeMap<u64, u64>);

impl Lag {
    /// Changes from these event times (Unix ms) are in MySQL now.
    pub(super) fn ended(&mut self, now_ms: i64, since_ms: impl Iterator<Item = i64>) {
        for since_ms in since_ms {
            let waited = u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or_default();
            *self.0.entry(bound(waited)).or_default() += 1;
        }
    }

    /// Adds what another one holds.
    pub fn add(&mut self, other: &Self) {
        for (bound, number) in &other.0 {
            *self.0.entry(*bound).or_default() += number;
        }
    }

    /// Whether nothing waited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long so many in a hundred waited at most, ms, to 10 % above; `None` when nothing waited.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.0.values().sum();
        let wanted = (all * percent).div_ceil(100);
        let mut so_far = 0;
        self.0.iter().find_map(|(bound, number)| {
            so_far += number;
            (so_far >= wanted).then_some(*bound)
        })
    }
}

fn bound(waited: u64) -> u64 {
    let mut bound = FIRST;
    while bound < waited.min(LAST) {
        bound += bound * STEP / 100;
    }
    bound
}

impl Serialize for Lag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lag = serializer.serialize_struct("Lag", 3)?;
        lag.serialize_field("p50", &self.percentile(50))?;
        lag.serialize_field("p99", &self.percentile(99))?;
        lag.serialize_field("up_to", &self.0)?;
        lag.end()
    }
}

impl<'de> Deserialize<'de> for Lag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kept {
            up_to: BTreeMap<u64, u64>,
        }
        Ok(Self(Kept::deserialize(deserializer)?.up_to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_a_tenth_too_high() {
        let mut lag = Lag::default();
        assert_eq!(lag.percentile(50), None);
        lag.ended(300_000, (0..300_000).step_by(10));
        let (p50, p99) = (lag.percentile(50).unwrap(), lag.percentile(99).unwrap());
        assert!((150_000..=165_000).contains(&p50) && (297_000..=327_000).contains(&p99), "{p50} {p99}");
        // The future, by another clock, is now; nothing overflows.
        lag.ended(0, [1, i64::MAX, i64::MIN].into_iter());
        assert_eq!(lag.percentile(0), Some(100));
    }

    #[test]
    fn sketches_add_up_and_come_back_from_json() {
        let (mut one, mut other) = (Lag::default(), Lag::default());
        one.ended(5_000, [0, 1_000, 4_990].into_iter());
        other.ended(5_000, [0].into_iter());
        one.add(&other);
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Lag>(&json).unwrap(), one, "{json}");
        assert!(json.starts_with("{\"p50\":"), "{json}");
    }
}
