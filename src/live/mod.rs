//! What the write API offers: recording, asking, and loading what is asked for.
//!
//! It stands above both stores, because a target that Redis does not hold is loaded from MySQL on first use. It knows
//! nothing of HTTP.

mod ask;
mod breaker;
mod degraded;
mod fill;
mod flight;
mod group_commit;
mod link;
mod load;
mod probe;
mod ready;
mod redis;
mod share;
mod unload;
mod warm;
mod write;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::breaker::BreakerState;
pub use self::ready::Ready;
pub use self::warm::Warmed;

use self::breaker::Breaker;
use self::degraded::Limits;
use self::group_commit::GroupCommit;
use self::link::Link;
use self::load::Loads;
use self::redis::Redis;
use self::share::Share;
use crate::metrics::BreakerMetrics;
use crate::model::Id;
use crate::sink::Sessions;
use crate::store::EventClock;
use crate::sync::Context;

/// Operations on their way to Redis at once: a few batches, some tens of milliseconds of it. More wait here, where they
/// do not make the answers to others late.
const ROOM: usize = 4096;

/// After how long it is worth asking again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A state to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateOp {
    /// Code of an interaction of kind `state`.
    pub interaction: u16,
    /// Code of a target type.
    pub target_type: u16,
    /// The target.
    pub target: Id,
    /// The user.
    pub user: Id,
    /// Whether the state becomes active.
    pub active: bool,
}

/// Who gave an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The live store.
    Redis,
    /// MySQL in its place: what is not synced yet is missing.
    Mysql,
}

/// What is told of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The count.
    pub count: i64,
    /// Whether the state that was asked for is active; `None` when none was.
    pub active: Option<bool>,
    /// Who says so.
    pub source: Source,
}

/// What a write answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether the state was another before.
    pub changed: bool,
    /// Whether it is active now.
    pub active: bool,
    /// The count now, where it is known.
    pub count: Option<i64>,
    /// Where the write went, and the count comes from.
    pub source: Source,
}

/// A question: the count of an interaction with a target, and the state of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Code of an interaction.
    pub interaction: u16,
    /// Code of a target type.
    pub target_type: u16,
    /// The target.
    pub target: Id,
    /// The user whose state is asked for, too; only with an interaction of kind `state`.
    pub user: Option<Id>,
}

/// What a user acted on, newest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPage {
    /// At most as many as were asked for.
    pub targets: Vec<UserTarget>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// Everything that was written before is in here.
    pub as_of: DateTime<Utc>,
}

/// One target that a user acted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserTarget {
    /// Code of the target type.
    pub target_type: u16,
    /// The target.
    pub target: Id,
    /// When the user acted.
    pub at: DateTime<Utc>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LiveError {
    /// A server that is needed is away. Nothing was acknowledged; the same may be asked again.
    #[error("{reason}")]
    Unavailable {
        /// What is away, and why.
        reason: String,
        /// After how long it is worth asking again.
        retry_after: Duration,
    },
    /// More than MySQL is asked to take in the place of Redis.
    #[error("{reason}")]
    Limited {
        /// Which limit.
        reason: String,
        /// After how long it is worth asking again.
        retry_after: Duration,
    },
    /// A key holds what it should not.
    #[error("{0}")]
    Content(String),
}

/// Why Redis gave no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Silent {
    /// It is down, or as good as: MySQL takes its place.
    Away(String),
    /// It refused.
    Refused(LiveError),
}

impl From<Silent> for LiveError {
    fn from(silent: Silent) -> Self {
        match silent {
            Silent::Away(why) => Self::unavailable(why),
            Silent::Refused(error) => error,
        }
    }
}

impl LiveError {
    fn unavailable(reason: String) -> Self {
        Self::Unavailable { reason, retry_after: RETRY_AFTER }
    }
}

/// The live data. Clones share it.
#[derive(Clone)]
pub struct Live {
    context: Arc<Context>,
    redis: Redis,
    share: Share,
    sessions: Sessions,
    loading: Arc<Loads>,
    /// Operations that may be on their way to Redis at once.
    room: Arc<Semaphore>,
    limits: Arc<Mutex<Arc<Limits>>>,
    group_commit: GroupCommit,
    _tasks: Arc<DropGuard>,
}

impl Live {
    /// Starts to connect, and does not wait for it. Within a tokio runtime.
    #[must_use]
    pub fn new(context: Arc<Context>, metrics: BreakerMetrics) -> Self {
        let (link, breaker) = (Link::new(context.clone()), Breaker::new(metrics));
        let stop = CancellationToken::new();
        let probe = probe::keep(context.clone(), breaker.clone(), link.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(probe));
        let clock: Arc<EventClock> = Arc::default();
        let (group_commit, commits) = GroupCommit::new(&context, clock.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(commits));
        let redis = Redis { context: context.clone(), link, breaker, clock };
        let (share, calls) = Share::new(redis.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(calls));
        let sessions = Sessions::new(&context.sink, context.config.mysql.max_connections as usize);
        Self {
            redis,
            share,
            sessions,
            loading: Arc::new(Loads::new()),
            room: Arc::new(Semaphore::new(ROOM)),
            limits: Arc::new(Mutex::new(Arc::new(Limits::new(context.config.degraded.max_qps)))),
            group_commit,
            _tasks: Arc::new(stop.drop_guard()),
            context,
        }
    }

    /// Where calls go: to MySQL also while no connection to Redis can be made, whether or not calls have opened the
    /// breaker.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        if self.redis.link.is_down() { BreakerState::Open } else { self.redis.breaker.state() }
    }

    /// For how long reads have not all been answered by Redis; `None` while they are.
    #[must_use]
    pub fn degraded_for(&self) -> Option<Duration> {
        self.redis.breaker.degraded_for()
    }
}
