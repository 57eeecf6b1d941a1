//! The links to engines: the gRPC service that they connect to, the sessions, the processes of managed engines, and
//! the pace at which failed ones come back.
//!
//! Invariants:
//! - An engine reaches nothing but its own supervisor: the credential names it before anything else is looked at (C8).
//! - A hung, slow, crashed or hostile engine holds up nobody else (C27): every session has its own task and bounded
//!   queues, and nothing here waits for an engine.
//! - Whatever an engine does, runs are untouched; the host is told when a session ends.
//!
//! Built in: the engine `operator-gateway` of the default supervisor needs nothing here. It leaves the operators'
//! endpoints unchanged, so the core lets their commands pass without asking (C3), and no stream is ever opened for it.
//!
//! Absent on purpose: any decision about directives, which is the core's, and the meaning of protobuf types, which is
//! [`crate::wire`]'s.

pub mod backoff;
mod managed;
pub mod registry;
mod server;
mod service;
mod session;

pub use managed::Managed;
pub use registry::{EngineStatus, Moment, Registry};
pub use server::{Error, Listener, Options, Server, bind};
pub use session::Limits;
