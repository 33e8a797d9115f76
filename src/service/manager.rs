//! The service manager's socket.

use std::env;

use sd_notify::NotifyState;

/// Whether a service manager listens.
#[must_use]
pub fn listens() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// Tells the service manager; nothing happens where none listens.
pub fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd could not be told");
    }
}
