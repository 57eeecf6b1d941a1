//! What operators can do, once for every skin: [`OperatorService`] answers, the skins only translate.
//!
//! Invariants:
//! - A read is made from one consistent view and says the place in the journal that it shows (`asOf`, C41).
//! - Nothing here decides: commands and saves go into the core as inputs, and its answer is passed on.
//! - The role is checked before anything else is looked at (C47). A token is shown once and never logged.
//! - A reader that is slow, or that has gone, holds nobody up: events are read from the journal at its own pace.
//!
//! Absent on purpose: engines' surface (the engine room's), and how logs are kept and engines connected, which
//! come in as [`LogSource`] and [`EngineStatuses`].

pub mod auth;
mod error;
pub mod feed;
mod page;
mod read;
pub mod rest;
mod service;
pub mod view;

pub use auth::{Caller, Role};
pub use error::{Error, FieldError};
pub use service::{Commanded, OperatorService, Parts};

use crate::contract::id::{ExecutionId, NodeId, SupervisorId};

/// Tells how engines are connected.
pub trait EngineStatuses: Send + Sync {
    /// Returns what is known of the engine of a supervisor; never connected where nothing is.
    fn engine(&self, supervisor: &SupervisorId) -> view::EngineStatus;
}

/// Reads the output of attempts.
pub trait LogSource: Send + Sync {
    /// Reads the last bytes of a stream, `most` of them at most, also while the attempt runs. May block.
    ///
    /// # Errors
    /// [`LogError`]: there is no such log, or it cannot be read.
    fn tail(&self, log: &LogName, most: u64) -> Result<LogPart, LogError>;
}

/// Names one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogName {
    /// The execution.
    pub execution: ExecutionId,
    /// The node.
    pub node: NodeId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Which of its outputs.
    pub stream: LogStream,
}

/// One of the two outputs of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPart {
    /// The last kept bytes, as they were produced.
    pub bytes: Vec<u8>,
    /// All bytes that the process has produced.
    pub total: u64,
    /// How many of those are kept no more.
    pub dropped: u64,
    /// Where in `bytes` the dropped ones are missing, if that place is within them.
    pub gap_at: Option<usize>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The attempt has no log.
    #[error("{0}")]
    NotThere(String),
    /// The files cannot be read.
    #[error("{0}")]
    Unreadable(String),
}
