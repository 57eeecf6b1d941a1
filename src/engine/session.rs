//! Sessions of engines: one stream, one task, one pure machine.
//!
//! - [`machine`] says what each message and word of the host leads to; its table is the protocol.
//! - [`handshake`] begins a session, [`resume`] says where its stream goes on.
//! - [`task`] owns the stream, the mailbox and the timers, and does what the machine says.
//!
//! Invariants:
//! - `Started` is the first signal; events wait for the last part of the snapshot; results, reviews and ticks go before
//!   events.
//! - Nothing queues without bound: 64 messages are on their way to the transport, at most 256 directives wait for their
//!   answers, and events stay in the journal until there is room. An engine that does not read stops being read when
//!   its answers pile up, and holds up nobody else.
//! - Whatever way a session ends, the host is told.

mod delivery;
mod feed;
mod handshake;
mod machine;
mod outbox;
mod outgoing;
mod resume;
mod snapshot;
mod task;

pub use machine::Limits;
pub(super) use outgoing::Outgoing;
pub(super) use task::{Link, start};
