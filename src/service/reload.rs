//! SIGHUP: the configuration is read again, and what may change does.

use std::sync::Arc;

use sd_notify::NotifyState;
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use super::manager::tell;
use crate::config::{self, Changes};
use crate::logging::Level;
use crate::sync::Context;

/// Reads the configuration again for every hangup. One that cannot be used changes nothing. The service manager hears of
/// it once the daemon is `ready`: before, it would take the end of a reload for the end of the start.
pub async fn keep_reloading(context: Arc<Context>, level: Level, ready: watch::Receiver<bool>, mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        let told = *ready.borrow();
        if told {
            match NotifyState::monotonic_usec_now() {
                Ok(now) => tell(&[NotifyState::Reloading, now]),
                Err(error) => tracing::warn!(%error, "systemd is not told of the reload"),
            }
        }
        reload(&context, &level);
        if told {
            tell(&[NotifyState::Ready]);
        }
    }
}

fn reload(context: &Context, level: &Level) {
    let file = &context.config.file;
    let read = match config::load(Some(file)) {
        Ok(read) => read,
        Err(error) => {
            tracing::error!("SIGHUP: nothing is changed, for the configuration cannot be used: {error}");
            return;
        }
    };
    let Changes { applied, kept } = context.reload(read);
    if let Err(error) = level.set(&context.settings.now().log) {
        tracing::error!("SIGHUP: the level of the log is as it was: {error:#}");
    }
    if applied.is_empty() && kept.is_empty() {
        tracing::info!(file = %file.display(), "SIGHUP: nothing has changed");
    }
    if !applied.is_empty() {
        let list: Vec<_> = applied.iter().map(|(key, before, after)| format!("{key} {before} → {after}")).collect();
        tracing::info!(file = %file.display(), "SIGHUP: changed {}", list.join(", "));
    }
    if !kept.is_empty() {
        tracing::warn!(file = %file.display(), "SIGHUP: a restart is needed for {}", kept.join(", "));
    }
}
