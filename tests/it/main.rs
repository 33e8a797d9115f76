//! The tests that need servers: the real binary and the library against a real Redis and a real MySQL.
//!
//! One crate, so that there is one binary to link; a module a subject. `support` brings the servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "clippy's allowance for tests covers only functions marked #[test], not the helpers they call"
)]
#![allow(missing_docs, unreachable_pub, reason = "nothing outside this crate can use what is here")]

mod advice;
mod api_admin;
mod api_away;
mod api_digits;
mod api_limits;
mod api_live;
mod api_malformed;
mod api_refusals;
mod api_secrets;
mod api_toggle;
mod busy;
mod case15;
mod checking;
mod closed;
mod cold;
mod crash;
mod deadlock;
mod degraded;
mod early_flush;
mod likes;
mod live;
mod load_guard;
mod loss;
mod outage;
mod overlap;
mod page;
mod pause;
mod readme;
mod reconciling;
mod recovery;
mod replay;
mod replicas;
mod report;
mod restoring;
mod secrets;
mod service;
mod shared_calls;
mod stop;
mod support;
mod support_works;
mod survival;
mod syncing;
mod trial;
mod two_processes;
mod under_load;
mod waking;
mod watch;
mod watching;
mod writers;
