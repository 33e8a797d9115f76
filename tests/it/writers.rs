//! Clients that like and cancel at full speed while something else goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tallyd::store::{EventClock, Store, StoreError, Unloaded, WriteOp, Written};
use tallyd::sync::Context;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::likes::{LIKE, NOTES, SOON, Table, context, id};
use crate::support::Rig;

/// Some clients. Each has users of its own and remembers what it was told last: the truth that both stores are held
/// to.
pub struct Writers {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<(Table, u64)>>,
}

impl Writers {
    /// `tasks` clients on loaded `targets`, with `users` users each, `pause` between two writes.
    ///
    /// When Redis is away they come again with the same write until it is answered; a write that is answered with
    /// anything but success fails the test.
    pub fn start(rig: &Rig, tasks: i64, targets: &[i64], users: i64, pause: Option<Duration>) -> Self {
        let stop = CancellationToken::new();
        let context = Arc::new(context(rig));
        let spawn = |task: i64| {
            let first = task * 10_000 + 1;
            let client = Client {
                context: context.clone(),
                store: None,
                clock: EventClock::default(),
                random: Random::new(task.unsigned_abs()),
                targets: targets.to_vec(),
                users: (first..first + users).collect(),
            };
            tokio::spawn(client.write(pause, stop.clone()))
        };
        Self { tasks: (1..=tasks).map(spawn).collect(), stop }
    }

    /// What the states must be, and how many writes there were.
    pub async fn finish(self) -> (Table, u64) {
        self.stop.cancel();
        let (mut last, mut writes) = (Table::new(), 0);
        for task in self.tasks {
            let (states, number) = task.await.unwrap();
            last.extend(states);
            writes += number;
        }
        (last, writes)
    }
}

struct Client {
    context: Arc<Context>,
    store: Option<Store>,
    clock: EventClock,
    random: Random,
    targets: Vec<i64>,
    users: Vec<i64>,
}

impl Client {
    async fn write(mut self, pause: Option<Duration>, stop: CancellationToken) -> (Table, u64) {
        let (mut last, mut writes) = (Table::new(), 0);
        while !stop.is_cancelled() {
            let ops: Vec<_> = (0..=self.random.below(4)).map(|_| self.operation()).collect();
            let written = self.until_answered(&ops).await;
            assert!(written.iter().all(|w| matches!(w, Written::Recorded { .. })), "{written:?}");
            last.extend(ops.iter().map(|op| ((op.target.get(), op.user.get()), i64::from(op.active))));
            writes += ops.len() as u64;
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => tokio::task::yield_now().await,
            }
        }
        (last, writes)
    }

    fn operation(&mut self) -> WriteOp {
        let (target, user) = (self.random.of(&self.targets), self.random.of(&self.users));
        WriteOp { interaction: LIKE, target: id(target), user: id(user), active: self.random.below(2) == 0 }
    }

    async fn until_answered(&mut self, ops: &[WriteOp]) -> Vec<Written> {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < SOON, "a like was not answered within {SOON:?}");
            if let Some(written) = self.attempt(ops).await {
                return written;
            }
            self.store = None;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `None` when Redis is away.
    async fn attempt(&mut self, ops: &[WriteOp]) -> Option<Vec<Written>> {
        if self.store.is_none() {
            self.store = self.context.store().await.ok();
        }
        match self.store.as_ref()?.write(NOTES, ops, Unloaded::Refuse, &self.clock, Duration::from_secs(5)).await {
            Ok((_, written)) => Some(written),
            Err(StoreError::Unreachable { .. }) => None,
            Err(error) if error.to_string().contains("BusyLoading") => None,
            Err(error) => panic!("a like failed: {error}"),
        }
    }
}

/// Numbers that look random and are the same at every run (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}
