//! The live store: everything that talks to Redis, and nothing else does.
//!
//! A lease holder works through [`Holder`], whose every script first compares the checkpoint; writers use
//! [`Store::write`]. Nothing here knows MySQL.

mod ask;
mod clock;
mod connect;
mod error;
mod holder;
mod inspect;
mod kept;
pub mod keys;
mod load;
mod load_end;
mod mark;
mod peek;
mod permissions;
mod read;
mod recount;
mod replay;
mod restore;
mod scan;
mod script;
mod unload;
mod verify;
mod wanted;
mod write;

pub use ask::{Known, Viewed};
pub use clock::EventClock;
pub use error::StoreError;
pub use holder::{Acked, Claim, Holder, Loss, LossKind, Marks, Verdict};
pub use inspect::{Inspected, Repair, Seen};
pub use keys::Keys;
pub use load::{Busy, Loader, Loading, Merged};
pub use load_end::{Ended, Uncounted, Why};
pub use mark::BadMark;
pub use peek::{Backlog, Replica, ServerFacts};
pub use permissions::{Permissions, least_rules};
pub use read::{ChangePage, Following};
pub use recount::StatePage;
pub use restore::{KnownPage, Restorer};
pub use scan::{ScanItem, Scanned, revalue};
pub use unload::Idle;
pub use verify::Corrected;
pub use wanted::Wanted;
pub use write::{Unloaded, WriteOp, Written};

use std::sync::Arc;

use redis::aio::MultiplexedConnection;

use crate::model::Vocabulary;

/// A connection to the live store. Clones share it.
///
/// It does not reconnect: a run opens its own and ends with it, so that a half-open socket is never met again.
#[derive(Clone)]
pub struct Store {
    connection: MultiplexedConnection,
    address: Arc<str>,
    keys: Keys,
    vocabulary: Arc<Vocabulary>,
}

impl Store {
    /// The names of the keys.
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.keys
    }

    fn failed(&self, what: &'static str) -> impl Fn(redis::RedisError) -> StoreError {
        move |error| StoreError::of(&self.address, what, &error)
    }

    /// Name of an interaction; codes come from the vocabulary, so that there always is one.
    fn name(&self, interaction: u16) -> &str {
        self.vocabulary.interaction_code(interaction).map_or("", |i| &i.name)
    }
}
