//! Syncing: what changed in Redis is copied to MySQL.

mod alarm;
mod driver;
mod dry;
mod error;
mod lease;
mod partition;
mod pipeline;
mod progress;
mod report;
mod request;
mod run;
mod scan;
mod work;

pub use alarm::Alarm;
pub use driver::{Driver, Waker};
pub use error::RunError;
pub use progress::Progress;
pub use report::{Outcome, PartitionReport, RunReport, Tally, Trigger};
pub use request::Ticket;
pub use run::{Context, Extent, dry_run, run};
