//! Syncing.
