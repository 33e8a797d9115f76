//! What is asked of a pass.

use std::time::Duration;

use crate::model::Id;

/// What caused a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// The schedule, `reconcile.sample_cron`.
    Sample,
    /// The schedule, `reconcile.full_cron`.
    Full,
    /// `tallyd reconcile`.
    Command,
}

impl Trigger {
    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Full => "full",
            Self::Command => "command",
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scope {
    /// Every target that either side knows.
    All,
    /// A random share of them, in percent.
    Sample(f64),
    /// One target, by type and id.
    Target(u16, Id),
}

/// One pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request {
    /// What caused it.
    pub trigger: Trigger,
    /// What is compared.
    pub scope: Scope,
    /// Nothing is changed, on either side.
    pub dry_run: bool,
    /// How long other owners of a lease are waited for.
    pub lease_wait: Duration,
}
