//! The configured interactions and target types.

use std::time::Duration;

/// What a kind of interaction keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A state for every user, and the count of active ones.
    State,
    /// A count alone; one viewer counts once in a window.
    Counter {
        /// How long a viewer is not counted again.
        window: Duration,
    },
}

/// How a sync finds what changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// By the change hash; a dirty target without a change is scanned whole.
    Changed,
    /// Every dirty target is scanned whole, for interactions that other programs write too.
    Full,
}

/// A configured kind of interaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interaction {
    /// The name in keys, paths and answers.
    pub name: String,
    /// The code in MySQL.
    pub code: u16,
    /// What it keeps.
    pub kind: Kind,
    /// How a sync finds what changed.
    pub scan: Scan,
}

impl Interaction {
    /// Whether users have states (else it is a counter).
    #[must_use]
    pub fn has_states(&self) -> bool {
        self.kind == Kind::State
    }
}

/// A configured type of target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetType {
    /// The name that input may use.
    pub name: String,
    /// The code in keys, answers and MySQL.
    pub code: u16,
}

/// Every configured interaction and target type; names and codes are unique within each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vocabulary {
    /// In configured order.
    pub targets: Vec<TargetType>,
    /// In configured order.
    pub interactions: Vec<Interaction>,
}

impl Vocabulary {
    /// The interaction of this name.
    #[must_use]
    pub fn interaction(&self, name: &str) -> Option<&Interaction> {
        self.interactions.iter().find(|i| i.name == name)
    }

    /// The interaction of this code.
    #[must_use]
    pub fn interaction_code(&self, code: u16) -> Option<&Interaction> {
        self.interactions.iter().find(|i| i.code == code)
    }

    /// The target type that a code or a configured name means.
    #[must_use]
    pub fn target_type(&self, text: &str) -> Option<&TargetType> {
        self.targets.iter().find(|t| t.name == text || t.code.to_string() == text)
    }
}
