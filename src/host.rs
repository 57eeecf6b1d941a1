//! The host: the loop that owns the state and the journal, and the traits of what it drives.
//!
//! One thread decides and commits: it takes what the inbox holds, decides each input, writes all
//! records as one batch, and only then lets replies, messages to sessions and effects go. While it
//! syncs, the next batch fills in the inbox.

pub mod credentials;
mod driver;
pub mod handle;
pub mod mailbox;
mod open;
pub mod runtime;
pub mod time;

pub use driver::Stopped;
pub use handle::{HostHandle, Started, View};
pub use open::{Error, Options, open};
