//! The connection to Redis that requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::store::{Store, StoreError};
use crate::sync::Context;

/// How soon a connection is tried again, and how far that grows.
const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(1);
/// How often a connection is tried that nobody reports.
const PING: Duration = Duration::from_secs(1);

/// What a request finds.
#[derive(Clone)]
enum State {
    /// The connection is being made, for the first time or anew.
    Connecting,
    Up(u64, Store),
    Down(Arc<str>),
}

/// Keeps one connection. Nobody but its own task waits for a server that is away.
#[derive(Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    broken: Arc<(Notify, std::sync::atomic::AtomicU64)>,
    patience: Duration,
    _task: Arc<DropGuard>,
}

impl Link {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let stop = CancellationToken::new();
        let (sender, state) = watch::channel(State::Connecting);
        let broken: Arc<(Notify, std::sync::atomic::AtomicU64)> = Arc::default();
        let patience = context.config.redis.timeout;
        let task = stop.clone().run_until_cancelled_owned(keep(context, sender, broken.clone()));
        tokio::spawn(task);
        Self { state, broken, patience, _task: Arc::new(stop.drop_guard()) }
    }

    /// The connection; while it is being made, waits for it.
    pub(super) async fn store(&self) -> Result<(u64, Store), String> {
        let mut found = self.state.borrow().clone();
        if matches!(found, State::Connecting) {
            let mut state = self.state.clone();
            let wait = state.wait_for(|state| !matches!(state, State::Connecting));
            match tokio::time::timeout(self.patience, wait).await {
                Ok(Ok(made)) => found = made.clone(),
                Ok(Err(error)) => return Err(format!("no connection to Redis: {error}")),
                Err(_) => {}
            }
        }
        match found {
            State::Up(number, store) => Ok((number, store)),
            State::Down(error) => Err(error.to_string()),
            State::Connecting => Err("the connection to Redis is being made".to_owned()),
        }
    }

    /// Says that a call on the connection of this number got no answer: it is replaced, for a half-open socket never
    /// recovers by itself.
    pub(super) fn report(&self, number: u64, error: &StoreError) {
        if matches!(error, StoreError::Unreachable { .. }) {
            self.replace(number);
        }
    }

    /// Whether there is no connection, and none could be made a moment ago.
    pub(super) fn is_down(&self) -> bool {
        matches!(*self.state.borrow(), State::Down(_))
    }

    fn replace(&self, number: u64) {
        self.broken.1.fetch_max(number, std::sync::atomic::Ordering::AcqRel);
        self.broken.0.notify_one();
    }

    /// Makes a new connection and tries a write on it. The reason if there is none, or it does not take writes.
    pub(super) async fn renew(&self) -> Result<(), String> {
        let mut state = self.state.clone();
        let old = match *state.borrow_and_update() {
            State::Up(number, _) => number,
            State::Connecting | State::Down(_) => 0,
        };
        self.replace(old);
        let made = async {
            loop {
                let found = state.borrow_and_update().clone();
                if let State::Up(number, store) = found
                    && number > old
                {
                    return store.try_write().await.map_err(|error| error.to_string());
                }
                if state.changed().await.is_err() {
                    return Err("tallyd stops".to_owned());
                }
            }
        };
        let limit = self.patience * 4;
        tokio::time::timeout(limit, made).await.unwrap_or_else(|_| Err("no connection in time".to_owned()))
    }
}

async fn keep(context: Arc<Context>, state: watch::Sender<State>, broken: Arc<(Notify, std::sync::atomic::AtomicU64)>) {
    let patience = context.config.redis.timeout;
    let mut number = 0;
    let mut pause = SOON;
    loop {
        let connect = Store::connect(&context.config.redis, context.vocabulary.clone(), patience);
        let connected = tokio::time::timeout(patience * 2, connect).await;
        let error = match connected {
            Ok(Ok(store)) => {
                number += 1;
                pause = SOON;
                if matches!(*state.borrow(), State::Down(_)) {
                    tracing::info!("Redis is back");
                }
                state.send_replace(State::Up(number, store.clone()));
                until_broken(&store, number, &broken).await;
                tracing::debug!("a call to Redis got no answer; connecting anew");
                // At once: who asks meanwhile waits for it.
                state.send_replace(State::Connecting);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no connection in time".to_owned(),
        };
        if !matches!(*state.borrow(), State::Down(_)) {
            tracing::warn!("Redis is away: {error}");
        }
        state.send_replace(State::Down(error.into()));
        // A probe does not wait.
        let _asked = tokio::time::timeout(pause, broken.0.notified()).await;
        pause = (pause * 2).min(LATE);
    }
}

/// Waits until a caller reports the connection, or it does not answer while nobody calls: servers, proxies and routers
/// drop connections that are idle.
async fn until_broken(store: &Store, number: u64, broken: &(Notify, std::sync::atomic::AtomicU64)) {
    while broken.1.load(std::sync::atomic::Ordering::Acquire) < number {
        let reported = tokio::time::timeout(PING, broken.0.notified()).await.is_ok();
        if !reported && matches!(store.ping().await, Err(StoreError::Unreachable { .. })) {
            return;
        }
    }
}
