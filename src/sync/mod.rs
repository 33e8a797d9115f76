//! Syncing: what changed in Redis is copied to MySQL.

mod alarm;
mod driver;
pub(crate) mod dry;
mod error;
mod lag;
pub(crate) mod lease;
pub(crate) mod partition;
mod pipeline;
mod progress;
mod replay;
mod report;
mod request;
mod restore;
pub(crate) mod run;
mod scan;
mod slab;
mod toll;
mod watch;
mod work;

pub use alarm::Alarm;
pub use driver::{Driver, Waker};
pub use error::RunError;
pub use lag::Lag;
pub use progress::Progress;
pub use report::{Outcome, PartitionReport, Restored, RunReport, Tally, Trigger};
pub use request::Ticket;
pub use run::{Context, Extent, dry_run, run};
pub use toll::{WRITES_TOTAL, keep_toll};
pub use watch::Ended;
