//! tallyd keeps who-did-what and how-many for social interactions: Redis is the live store, MySQL the durable mirror.

pub mod check;
pub mod cli;
pub mod config;
pub mod failpoint;
pub mod logging;
pub mod model;
pub mod schedule;
pub mod sink;
pub mod status;
pub mod store;
pub mod sync;
