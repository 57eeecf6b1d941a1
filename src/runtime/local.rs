//! Runs attempts as processes of this machine, each under a [`shim`] that outlives the host.
//!
//! One thread of the host starts shims and waits for all of them at once by process descriptors; it knows
//! no other way to learn of an end, whether it started the shim or took it up after a restart.
//!
//! Invariants
//! - What happened to an attempt is in its directory before it is reported; a lost report is found again.
//! - The host signals no process of an attempt while its shim lives: the shim does, on request.
//! - No process that cannot be proved to be an attempt's is ever signalled.
//! - Values of variables are never in arguments, files or the shim's own environment.
//!
//! Absent on purpose: freezing, cgroups, redaction and limits of resources.

mod files;
mod layout;
mod logs;
mod process;
mod remains;
pub mod shim;
mod watcher;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use crate::host::runtime::{AttemptId, ReportSink, Runtime, StartAttempt, StopSignal};
pub use logs::{LogTail, ReadError, Stream, read_log};
use watcher::{Command, Inbox};

/// Asks a shim for SIGTERM to the process group.
const CTL_TERMINATE: u8 = b'T';
/// Asks a shim for SIGKILL to the process group.
const CTL_KILL: u8 = b'K';

/// The variable that tells a program its execution.
const ENV_EXECUTION: &str = "SIGNALBOX_EXECUTION";
/// The variable that tells a program its node.
const ENV_NODE: &str = "SIGNALBOX_NODE";
/// The variable that tells a program the number of its attempt.
const ENV_ATTEMPT: &str = "SIGNALBOX_ATTEMPT";

/// How attempts are run on this machine.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// The program that is started as `<program> shim <dir>`; usually the host's own.
    pub program: PathBuf,
    /// The directory that holds attempts, logs and working directories. Made if it is not there.
    pub data_dir: PathBuf,
    /// How many bytes of each output stream of an attempt are kept. Default 16 MiB.
    pub max_log_bytes: u64,
    /// The variables of the host that every attempt gets, where they are set.
    /// Default PATH, HOME, LANG, TZ, TMPDIR, USER.
    pub env_allow: Vec<String>,
}

impl LocalConfig {
    /// Configures the defaults for this program and this data directory.
    #[must_use]
    pub fn new(program: PathBuf, data_dir: PathBuf) -> Self {
        Self {
            program,
            data_dir,
            max_log_bytes: 16 * 1024 * 1024,
            env_allow: ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

/// Why the runtime cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be made or found.
    #[error(
        "data directory {path} cannot be used ({source}): check that it can be made and is yours"
    )]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data directory's name cannot be handed to a shim.
    #[error("data directory {0:?} is not UTF-8: choose another name")]
    NotUtf8(PathBuf),
    /// The system lacks what the runtime waits with.
    #[error(
        "processes cannot be watched ({0}): Linux 5.3 or newer with /proc is needed, and free file descriptors"
    )]
    System(#[source] io::Error),
}

/// Runs attempts as processes of this machine.
///
/// Dropping it waits for the report that is being delivered, then leaves all attempts running; another one
/// on the same data directory takes them up with [`Runtime::recover`]. The report sink must therefore not
/// wait for whoever drops it.
pub struct LocalRuntime {
    inbox: Inbox,
    thread: Option<JoinHandle<()>>,
}

impl LocalRuntime {
    /// Sets the runtime up and starts its thread. Nothing is taken up before [`Runtime::recover`].
    ///
    /// # Errors
    /// [`Error`]: the data directory or the system does not serve.
    pub fn new(config: LocalConfig, sink: ReportSink) -> Result<Self, Error> {
        let data_error = |source| Error::DataDir {
            path: config.data_dir.clone(),
            source,
        };
        layout::make_dirs(&config.data_dir).map_err(data_error)?;
        let data_dir = config.data_dir.canonicalize().map_err(data_error)?;
        if data_dir.to_str().is_none() {
            return Err(Error::NotUtf8(data_dir));
        }
        let layout = layout::Layout::new(&data_dir);
        layout::make_dirs(&layout.live_dir()).map_err(data_error)?;
        let base_env = allowed_variables(&config.env_allow);
        let (inbox, watcher) =
            watcher::Watcher::new(config, layout, base_env, sink).map_err(Error::System)?;
        let thread = std::thread::Builder::new()
            .name("local-runtime".to_owned())
            .spawn(move || watcher.run())
            .map_err(Error::System)?;
        Ok(Self {
            inbox,
            thread: Some(thread),
        })
    }
}

/// Reads the variables of the host that attempts may see.
fn allowed_variables(names: &[String]) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for name in names {
        match std::env::var(name) {
            Ok(value) => {
                env.insert(name.clone(), value);
            }
            Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => {
                tracing::warn!(name, "variable is not UTF-8 and is not passed to attempts");
            }
        }
    }
    env
}

impl Runtime for LocalRuntime {
    fn start(&self, start: StartAttempt) {
        self.inbox.push(Command::Start(start));
    }

    fn stop(&self, id: &AttemptId, signal: StopSignal) {
        self.inbox.push(Command::Stop(id.clone(), signal));
    }

    fn recover(&self, running: Vec<StartAttempt>) {
        self.inbox.push(Command::Recover(running));
    }
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        self.inbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the runtime's thread has panicked");
        }
    }
}
