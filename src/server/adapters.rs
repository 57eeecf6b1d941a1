//! What the operators' room asks for and other rooms have: engines' states and logs.

use std::path::PathBuf;

use crate::contract::id::SupervisorId;
use crate::engine::{Moment, Registry};
use crate::host::HostHandle;
use crate::operators::view::{EngineStatus, Failure};
use crate::operators::{EngineStatuses, LogError, LogName, LogPart, LogSource, LogStream};
use crate::runtime::local::{LogTail, ReadError, Stream, read_log};

/// Engines' states from the engine room's registry.
pub(crate) struct Engines {
    registry: Registry,
    host: HostHandle,
}

impl Engines {
    pub fn new(registry: Registry, host: HostHandle) -> Self {
        Self { registry, host }
    }
}

impl EngineStatuses for Engines {
    fn engine(&self, supervisor: &SupervisorId) -> EngineStatus {
        let clock = self.host.clock();
        let at = Moment {
            now: clock.now(),
            wall: clock.wall_ms(),
        };
        let Some(known) = self.registry.get(supervisor, at) else {
            return EngineStatus {
                connected: false,
                session: None,
                engine: None,
                since_ms: None,
                last_failure: None,
                next_try_ms: None,
                failures: 0,
            };
        };
        EngineStatus {
            connected: known.connected,
            session: known.session,
            engine: known.engine,
            since_ms: known.since,
            last_failure: known
                .last_failure
                .map(|(at_ms, message)| Failure { at_ms, message }),
            next_try_ms: known.next_try,
            failures: known.failures,
        }
    }
}

/// Logs from the local runtime's files.
pub(crate) struct Logs {
    data_dir: PathBuf,
}

impl Logs {
    pub fn new(data_dir: PathBuf) -> Self {
        Self { data_dir }
    }
}

impl LogSource for Logs {
    fn tail(&self, log: &LogName, most: u64) -> Result<LogPart, LogError> {
        let stream = match log.stream {
            LogStream::Stdout => Stream::Stdout,
            LogStream::Stderr => Stream::Stderr,
        };
        let execution = log.execution.to_string();
        match read_log(
            &self.data_dir,
            &execution,
            log.node.as_str(),
            log.attempt,
            stream,
            most,
        ) {
            Ok(LogTail {
                bytes,
                total,
                dropped,
                gap_at,
            }) => Ok(LogPart {
                bytes,
                total,
                dropped,
                gap_at,
            }),
            Err(error @ (ReadError::BadId(_) | ReadError::NoLog { .. })) => {
                Err(LogError::NotThere(error.to_string()))
            }
            Err(error @ ReadError::Io { .. }) => Err(LogError::Unreadable(error.to_string())),
        }
    }
}
