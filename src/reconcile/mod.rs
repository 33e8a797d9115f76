//! Reconciliation: proves that Redis and MySQL agree, repairs what does not, and says what it found.
//!
//! A pass works through partitions under their leases, in slices, so that runs come in between. What differs at a first
//! look is looked at again, and is drift only if it still does; what is marked is work in flight. When too much differs,
//! nothing is written. A repair changes only what still is as it was found, and is read back.

mod compare;
mod conclusion;
mod drift;
mod driver;
mod enumerate;
mod error;
mod hand;
mod health;
mod large;
mod look;
mod mend;
mod pass;
mod report;
mod request;
mod resume;
mod slices;
mod sql;
mod steps;
mod tally;

pub use compare::{Differences, Facts, RowState, compare, compare_counter, conclude};
pub use drift::{Finding, Kind};
pub use driver::{Reconciler, ReconcilerWaker};
pub use pass::reconcile;
pub use report::{InteractionFigures, Report, Verdict, Worst};
pub use request::{Request, Scope, Trigger};
pub use sql::{fix_sql, undo_sql};
