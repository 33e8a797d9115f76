//! The tests that need servers: the real binary and the library against a real Redis and a real MySQL.
//!
//! One crate, so that there is one binary to link; a module a subject. `support` brings the servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy's allowance for tests covers only functions marked #[test], not the helpers they call"
)]
#![allow(missing_docs, unreachable_pub, reason = "nothing outside this crate can use what is here")]

mod busy;
mod crash;
mod deadlock;
mod early_flush;
mod likes;
mod loss;
mod outage;
mod overlap;
mod pause;
mod secrets;
mod stop;
mod support;
mod support_works;
mod survival;
mod syncing;
mod under_load;
mod writers;
