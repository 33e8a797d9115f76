//! The durable mirror: everything that talks to MySQL, and nothing else does.
//!
//! Nothing here knows Redis.

mod answer;
mod commit;
mod compare;
mod count;
mod degrade;
mod drift;
mod enumerate;
mod error;
mod facts;
mod figures;
mod halves;
mod journal;
mod layout;
mod lease;
mod ledger;
mod load;
mod meta;
mod passes;
mod privileges;
mod reads;
mod restore;
mod schema;
mod session;
mod sessions;
mod settle;
mod sizing;
mod standing;
mod unload;
mod upsert;

pub use answer::Asked;
pub use commit::{Committed, Writer};
pub use degrade::Degraded;
pub use drift::{DriftRow, PassRow};
pub use error::SinkError;
pub use facts::{PartitionRow, ServerFacts};
pub use figures::{Figures, Held, WantedRows};
pub use journal::Journaled;
pub use layout::Layout;
pub use lease::{LEASE_SECONDS, Lease, Taken};
pub use ledger::RunRow;
pub use load::FirstLook;
pub use passes::KeptPass;
pub use privileges::{Grant, Privileges};
pub use reads::UserPlace;
pub use session::{Session, Sink};
pub use sessions::{Borrowed, Sessions};
pub use standing::Standing;
pub use unload::Kept;
