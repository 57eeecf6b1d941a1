//! A whole host in one process: configuration in, listeners and engines running; what `serve` and `demo` start.
//!
//! Order of the start: definitions are read (a mistake ends it before anything is touched), the journal is
//! opened and checked, both addresses are taken, the host takes its runs up, files are saved, the admin key is made,
//! both listeners are served, and only then are engines started. Order of the stop: engines and listeners first, so that what
//! was received is answered, then the host, whose journal ends cleanly.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::config::Config;
use crate::contract::directive::Actor;
use crate::core::effect::Refusal;
use crate::core::record::{Settings, Source};
use crate::definitions::{Definition, Loaded, Problems, load_dir};
use crate::engine::{self, Managed, Registry};
use crate::host::{self, HostHandle, Stopped};
use crate::journal::{self, SledJournal};
use crate::operators::{OperatorService, Parts, auth, rest};
use crate::runtime::local::{LocalConfig, LocalRuntime};

pub(crate) mod adapters;

/// How many records there are between two state snapshots.
const SNAPSHOT_EVERY: u64 = 50_000;

/// Why a host did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be made.
    #[error("data directory {} cannot be made ({source}): check its parent's rights and space", .path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Definitions in files are wrong.
    #[error("{0}")]
    Definitions(#[from] Problems),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The host.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The admin key.
    #[error(transparent)]
    Key(#[from] auth::KeyError),
    /// The listener for engines.
    #[error(transparent)]
    Engines(#[from] engine::Error),
    /// The listener for operators.
    #[error(
        "the listener for operators on {0} failed ({1}): choose another address, or end what uses it"
    )]
    Operators(SocketAddr, #[source] std::io::Error),
    /// The machine does not tell its clocks or where this program is.
    #[error("the machine cannot be asked for its {0}: {1}; check that /proc is there")]
    Machine(&'static str, #[source] std::io::Error),
    /// The host refused what the start needs.
    #[error("the host did not take what its start needs: {}", .0.message)]
    Refused(Refusal),
    /// The host's loop is gone.
    #[error("the host ended without a word; its log says more")]
    Gone,
}

impl Error {
    /// Returns the exit code of `serve` (C48).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Definitions(_) => 78,
            Self::Journal(error) | Self::Host(host::Error::Journal(error)) => error.exit_code(),
            Self::Host(host::Error::Record(_) | host::Error::State(_)) => 70,
            Self::DataDir { .. }
            | Self::Host(_)
            | Self::Key(_)
            | Self::Engines(_)
            | Self::Operators(..)
            | Self::Machine(..)
            | Self::Refused(_)
            | Self::Gone => 1,
        }
    }
}

/// A host that runs.
pub struct Running {
    /// The way into it.
    pub host: HostHandle,
    /// Where engines connect, as `http://…`.
    pub grpc: String,
    /// Where operators connect, as `http://…`.
    pub http: String,
    /// The file with the admin key; absent where it was taken away.
    pub admin_key: Option<PathBuf>,
    stopping: CancellationToken,
    engines: tokio::task::JoinHandle<Result<(), engine::Error>>,
    operators: tokio::task::JoinHandle<std::io::Result<()>>,
    http_addr: SocketAddr,
    grace: Duration,
    managed: Managed,
    stopped: tokio::sync::oneshot::Receiver<Stopped>,
}

/// Starts a host.
///
/// # Errors
/// See [`Error`]; nothing keeps running then.
pub async fn start(config: &Config) -> Result<Running, Error> {
    let dir = make_data_dir(&config.data_dir)?;
    let files = load_dir(&dir)?;
    let clock = SystemClock::new().map_err(|e| Error::Machine("boot id", e))?;
    let program = std::env::current_exe().map_err(|e| Error::Machine("own program", e))?;
    let journal = open_journal(&dir).await?;
    // Both addresses are taken before anything begins; nobody is answered before everything is there.
    let grpc_listener = engine::bind(config.grpc.listen).await?;
    let no_http = |error| Error::Operators(config.http.listen, error);
    let http_listener = tokio::net::TcpListener::bind(config.http.listen)
        .await
        .map_err(no_http)?;
    let http_addr = http_listener.local_addr().map_err(no_http)?;
    let (grpc, http) = (grpc_listener.url(), format!("http://{http_addr}"));
    let options = host::Options {
        journal,
        clock: Arc::new(clock),
        settings: settings(config),
        snapshot_every: SNAPSHOT_EVERY,
    };
    let local = LocalConfig {
        max_log_bytes: config.logs.max_bytes,
        ..LocalConfig::new(program.clone(), dir.clone())
    };
    let (host, stopped) = host::open(options, |sink| match LocalRuntime::new(local, sink) {
        Ok(runtime) => Ok(Arc::new(runtime)),
        Err(error) => Err(error.to_string()),
    })?;
    let prepared = async {
        save_files(&host, &files).await?;
        Ok(auth::ensure_admin_key(&host, &dir).await?)
    };
    let admin_key = match prepared.await {
        Ok(admin_key) => admin_key,
        Err(error) => {
            host.stop().await;
            return Err(error);
        }
    };
    let registry = Registry::default();
    let stopping = CancellationToken::new();
    let server = engine::Server::new(host.clone(), registry.clone(), engine::Options::default());
    let engines = tokio::spawn(server.serve(grpc_listener, stopping.clone().cancelled_owned()));
    let service = OperatorService::new(Parts {
        host: host.clone(),
        engines: Arc::new(adapters::Engines::new(registry.clone(), host.clone())),
        logs: Arc::new(adapters::Logs::new(dir.clone())),
        stopping: stopping.clone(),
    });
    let hosts = rest::Hosts::new(&config.http.allowed_hosts);
    let operators = tokio::spawn(rest::serve(http_listener, service, hosts));
    let defined = files.into_iter().filter_map(|loaded| match loaded.def {
        Definition::Supervisor(def) => Some(*def),
        Definition::Workflow(_) => None,
    });
    let managed = Managed::start(host.clone(), registry, grpc.clone(), dir, program, defined).await;
    let grace = Duration::from_millis(config.shutdown.grace.0);
    Ok(Running {
        host,
        grpc,
        http,
        admin_key,
        stopping,
        engines,
        operators,
        http_addr,
        grace,
        managed,
        stopped,
    })
}

impl Running {
    /// Runs until `told` or until something fails, then stops everything in order.
    ///
    /// # Errors
    /// What failed; the journal's failure first.
    pub async fn until(mut self, told: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::pin!(told);
        let mut ended = None;
        tokio::select! {
            () = &mut told => {}
            stopped = &mut self.stopped => ended = Some(stopped),
            result = &mut self.engines => return self.stop(Some(flat(result).map_err(Error::Engines))).await,
            result = &mut self.operators => {
                let address = self.http_addr;
                return self.stop(Some(flat(result).map_err(|e| Error::Operators(address, e)))).await;
            }
        }
        if let Some(stopped) = ended {
            self.stopping.cancel();
            self.managed.stop().await;
            return match stopped {
                Ok(Stopped::Clean) => Ok(()),
                Ok(Stopped::Journal(error)) => Err(Error::Journal(error)),
                Err(_) => Err(Error::Gone),
            };
        }
        self.stop(None).await
    }

    async fn stop(self, failed: Option<Result<(), Error>>) -> Result<(), Error> {
        let Self {
            host,
            stopping,
            engines,
            operators,
            managed,
            stopped,
            grace,
            ..
        } = self;
        tracing::info!("host stopping");
        stopping.cancel();
        let listeners = async {
            // A listener that has failed is the reason for the stop, or has been told of already.
            if failed.is_none() {
                let _ = engines.await;
                let _ = operators.await;
            }
        };
        // Whoever does not let go of a connection is left behind.
        if tokio::time::timeout(grace, async { tokio::join!(managed.stop(), listeners) })
            .await
            .is_err()
        {
            tracing::warn!("connections were still open after the grace");
        }
        host.stop().await;
        let result = match stopped.await {
            Ok(Stopped::Clean) => Ok(()),
            Ok(Stopped::Journal(error)) => Err(Error::Journal(error)),
            Err(_) => Err(Error::Gone),
        };
        result.and(failed.unwrap_or(Ok(())))
    }
}

/// A task that panicked has said so by itself; for its caller it has ended.
fn flat<E>(result: Result<Result<(), E>, tokio::task::JoinError>) -> Result<(), E> {
    result.unwrap_or(Ok(()))
}

fn make_data_dir(path: &Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |source| Error::DataDir {
        path: path.to_owned(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    path.canonicalize().map_err(failed)
}

/// Opens the journal on a thread of its own: a large one takes a while.
async fn open_journal(dir: &Path) -> Result<journal::Opened<SledJournal>, Error> {
    let path = dir.join("journal");
    let opened =
        tokio::task::spawn_blocking(move || SledJournal::open(&path, journal::Options::default()))
            .await;
    Ok(opened.map_err(|_| Error::Gone)??)
}

fn settings(config: &Config) -> Settings {
    Settings {
        max_running_runs: config.scheduler.max_running_runs,
        max_running_nodes: config.scheduler.max_running_nodes,
        max_queued_runs: config.scheduler.max_queued_runs,
        review_timeout_ms: config.supervisor.review_timeout.0,
        default_enabled: config.supervisor.default.enabled,
        operator_rate: config.operators.max_commands_per_second,
    }
}

fn by_file() -> Actor {
    Actor {
        kind: "SYSTEM".into(),
        id: "files".into(),
    }
}

/// Takes units away from supervisors of files whose files do not claim them any more, so that units can move from
/// one file to another in whatever order the files are saved.
async fn release_units(host: &HostHandle, files: &[Loaded]) -> Result<(), Error> {
    let mut claims = BTreeMap::new();
    for loaded in files {
        if let Definition::Supervisor(def) = &loaded.def {
            claims.extend(def.owns.iter().map(|unit| (unit.clone(), def.id.clone())));
        }
    }
    let view = host.view().await.map_err(Error::Refused)?;
    for supervisor in view
        .supervisors
        .values()
        .filter(|s| s.source == Source::File)
    {
        let mut def = supervisor.def.as_ref().clone();
        def.owns
            .retain(|unit| claims.get(unit).is_none_or(|id| *id == def.id));
        if def != *supervisor.def {
            host.save_supervisor(def, Source::File, by_file())
                .await
                .map_err(Error::Refused)?;
        }
    }
    Ok(())
}

/// Saves what the files define, and frees for the API what no file defines any more.
async fn save_files(host: &HostHandle, files: &[Loaded]) -> Result<(), Error> {
    release_units(host, files).await?;
    free_orphans(host, files).await?;
    let mut problems = Vec::new();
    for loaded in files {
        let saved = match &loaded.def {
            Definition::Workflow(def) => {
                host.save_workflow(def.clone(), Source::File, by_file())
                    .await
            }
            Definition::Supervisor(def) => {
                host.save_supervisor(def.as_ref().clone(), Source::File, by_file())
                    .await
            }
        };
        let name = loaded.def.name();
        match saved {
            Ok(saved) => {
                for warning in saved.warnings {
                    tracing::warn!(definition = %name, path = %warning.path, warning = %warning.message, "definition is doubtful");
                }
            }
            Err(refusal) if refusal.problems.is_empty() => {
                problems.push(loaded.problem("", refusal.message))
            }
            Err(refusal) => problems.extend(
                refusal
                    .problems
                    .iter()
                    .map(|p| loaded.problem(&p.path, p.message.clone())),
            ),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems).into())
    }
}

/// What came from a file that is not there any more stays as it is, and can be changed over the API.
async fn free_orphans(host: &HostHandle, files: &[Loaded]) -> Result<(), Error> {
    let view = host.view().await.map_err(Error::Refused)?;
    let defined = |name: String| files.iter().any(|f| f.def.name() == name);
    for workflow in view.workflows.values().filter(|w| w.source == Source::File) {
        let def = workflow.plan.def.clone();
        if !defined(format!("workflow:{}", def.id)) {
            tracing::info!(workflow = %def.id, "file is gone; the definition stays and the API may change it");
            host.save_workflow(def, Source::Api, by_file())
                .await
                .map_err(Error::Refused)?;
        }
    }
    for supervisor in view
        .supervisors
        .values()
        .filter(|s| s.source == Source::File)
    {
        let def = supervisor.def.as_ref().clone();
        if !defined(format!("supervisor:{}", def.id)) {
            tracing::info!(supervisor = %def.id, "file is gone; the definition stays and the API may change it");
            host.save_supervisor(def, Source::Api, by_file())
                .await
                .map_err(Error::Refused)?;
        }
    }
    Ok(())
}
