//! tallyd keeps who-did-what and how-many for social interactions: Redis is the live store, MySQL the durable mirror.

pub mod config;
pub mod logging;
pub mod model;
pub mod schedule;
pub mod sync;
