//! The words of the domain, without I/O: what `store` and `sink` both speak.

pub mod change;
pub mod checkpoint;
pub mod digest;
pub mod id;
pub mod partition;
pub mod vocabulary;

pub use change::{Change, Chunk, CountRow, CountValue, Reason, RecordRow, Rejected, Source};
pub use checkpoint::Checkpoint;
pub use digest::{Digest, Salt};
pub use id::Id;
pub use partition::Partition;
pub use vocabulary::{Interaction, Kind, Scan, TargetType, Vocabulary};
