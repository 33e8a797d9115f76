//! The configuration as it is now: what a reload may change, changes here.

use std::sync::Arc;

use tokio::sync::watch;

use super::changes::{self, Changes};
use super::{Config, Secret};

/// The settings of a process. Clones share them. What a reload leaves alone is as it was at the start.
#[derive(Clone, Debug)]
pub struct Settings(watch::Sender<Arc<Config>>);

impl Settings {
    /// As they are at the start.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self(watch::Sender::new(Arc::new(config)))
    }

    /// As they are now. What is kept of it ages.
    #[must_use]
    pub fn now(&self) -> Arc<Config> {
        self.0.borrow().clone()
    }

    /// The same, and when they change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Config>> {
        self.0.subscribe()
    }

    /// Takes what may change from a valid configuration that was `read`, and says what that is.
    #[must_use]
    pub fn reload(&self, read: Config) -> Changes {
        let (config, changes) = changes::reloaded(&self.now(), read);
        self.0.send_replace(Arc::new(config));
        changes
    }

    /// The tokens of a listener, as they are whenever they are asked for.
    #[must_use]
    pub fn tokens(&self, of: fn(&Config) -> &[Secret]) -> Tokens {
        Tokens { settings: self.clone(), of }
    }
}

/// The tokens of a listener.
#[derive(Clone, Debug)]
pub struct Tokens {
    settings: Settings,
    of: fn(&Config) -> &[Secret],
}

impl Tokens {
    /// Those that let a request in now; none when none is needed, which does not change.
    pub fn now<T>(&self, look: impl FnOnce(&[Secret]) -> T) -> T {
        look((self.of)(&self.settings.0.borrow()))
    }
}
