//! What a load is for.

use std::collections::BTreeSet;

use crate::model::Id;

/// What somebody wants to be known of a target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Counts, by code of the interaction.
    pub counts: BTreeSet<u16>,
    /// States of users, with the code of the interaction.
    pub states: BTreeSet<(u16, Id)>,
    /// States that are to be written: what a write needs must be known besides.
    pub writes: BTreeSet<(u16, Id)>,
    /// All counts, and every hash that is not empty.
    pub whole: bool,
}

impl Wanted {
    /// Wants this, too.
    pub fn add(&mut self, other: &Self) {
        self.counts.extend(&other.counts);
        self.states.extend(&other.states);
        self.writes.extend(&other.writes);
        self.whole |= other.whole;
    }
}
