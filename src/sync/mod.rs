//! Syncing.

pub mod alarm;
