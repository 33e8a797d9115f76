//! How far a lease holder has got, as both stores remember it.

use std::fmt;
use std::str::FromStr;

/// `<lease token>.<step>`: ordered by token, then step.
///
/// Redis holds it in `ckpt:{target_type}`, MySQL in `sync_partition.checkpoint`. A Redis whose value is below
/// MySQL's has lost writes that MySQL holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Checkpoint {
    /// The lease token of the holder that set it.
    pub token: u64,
    /// How many reads that holder has made.
    pub step: u64,
}

/// A text that is not a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a checkpoint of the form <token>.<step>")]
pub struct InvalidCheckpoint(pub String);

impl Checkpoint {
    /// The first checkpoint of the holder of `token`.
    #[must_use]
    pub fn first(token: u64) -> Self {
        Self { token, step: 0 }
    }

    /// The next step of the same holder.
    #[must_use]
    pub fn next(self) -> Self {
        Self { token: self.token, step: self.step + 1 }
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.token, self.step)
    }
}

impl FromStr for Checkpoint {
    type Err = InvalidCheckpoint;

    fn from_str(text: &str) -> Result<Self, InvalidCheckpoint> {
        let parts = text.split_once('.').and_then(|(token, step)| Some((token.parse().ok()?, step.parse().ok()?)));
        let (token, step) = parts.ok_or_else(|| InvalidCheckpoint(text.chars().take(64).collect()))?;
        Ok(Self { token, step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_token_then_step_as_numbers() {
        let at = |text: &str| text.parse::<Checkpoint>().unwrap();
        assert!(at("9.10") > at("9.9"));
        assert!(at("10.0") > at("9.99"));
        assert_eq!(Checkpoint::first(7).next().to_string(), "7.1");
        assert!("7".parse::<Checkpoint>().is_err());
        assert!("7.x".parse::<Checkpoint>().is_err());
    }
}
