//! What a service manager is told, and what it may ask for: readiness, a status line, a watchdog, reloading.
//!
//! Without one (no `$NOTIFY_SOCKET`) nothing is told; what stands still is logged all the same.

mod manager;
mod probe;
mod reload;
mod schedules;
mod status;
mod watchdog;

pub use manager::{listens, tell};
pub use probe::{Probe, keep_probing};
pub use reload::keep_reloading;
pub use schedules::keep_schedules;
pub use status::Announcer;
pub use watchdog::start_watch;
