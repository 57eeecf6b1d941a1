//! Managed engines: processes that the host starts, watches, and starts again with growing pauses (C42).
//!
//! Invariants:
//! - One process a supervisor, in a process group of its own. It ends with the host: by a stop that escalates, by the
//!   end of its standard input if the host dies, and by SIGKILL if its task is dropped.
//! - It gets a fresh credential at every start of the host, and a small environment: an allow-list of the host's own,
//!   the definition's `env`, and where and as whom to connect.
//! - Its output goes into the host's log, line by line, and is never waited for.
//!
//! Absent on purpose: the session, which a managed engine opens over the network like any other engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::contract::definition::{SupervisorDef, Transport};
use crate::contract::directive::Actor;
use crate::contract::id::SupervisorId;
use crate::core::effect::Refusal;
use crate::core::record::Access;
use crate::host::{HostHandle, credentials};

use super::registry::{Moment, Registry};

mod output;
mod process;

use process::{Process, Recipe};

/// How long a process has to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The managed engines of a host. Dropping it kills them.
#[derive(Debug)]
pub struct Managed {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Managed {
    /// Starts the engines of those supervisors whose transport is `managed`; `addr` is where they connect, for
    /// instance `http://127.0.0.1:7420`, and `program` is what the command word `signalbox` means. An engine that
    /// cannot be started is tried again; the registry tells how it is.
    pub async fn start(
        host: HostHandle,
        registry: Registry,
        addr: String,
        data_dir: PathBuf,
        program: PathBuf,
        defined: impl IntoIterator<Item = SupervisorDef>,
    ) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let managed = defined
            .into_iter()
            .filter(|def| def.engine.transport == Transport::Managed);
        for def in managed {
            let supervisor = def.id.clone();
            let keeper = Keeper {
                recipe: Recipe::new(&def, &addr, &data_dir, &program),
                supervisor,
                host: host.clone(),
                registry: registry.clone(),
                stop: stop.clone(),
                grace: GRACE,
            };
            tasks.spawn(keeper.run());
        }
        Self { stop, tasks }
    }

    /// Stops all engines: their input ends and they get SIGTERM; what is left after five seconds is killed.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // A task that panicked has dropped its process, which kills it.
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Keeps one engine running.
struct Keeper {
    supervisor: SupervisorId,
    recipe: Recipe,
    host: HostHandle,
    registry: Registry,
    stop: CancellationToken,
    grace: Duration,
}

impl Keeper {
    async fn run(self) {
        let mut token = None;
        loop {
            let began = self.moment();
            let what = match self.attempt(&mut token).await {
                Ok(Some(what)) => what,
                Ok(None) => return,
                Err(why) => why,
            };
            let wait_ms = self
                .registry
                .exited(&self.supervisor, began.now, &what, self.moment());
            tracing::warn!(supervisor = %self.supervisor, what, wait_ms, "managed engine ended");
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            }
        }
    }

    /// Runs the engine once and says how it ended; nothing when it was stopped.
    async fn attempt(
        &self,
        token: &mut Option<credentials::Token>,
    ) -> Result<Option<String>, String> {
        if token.is_none() {
            *token = Some(
                self.issue()
                    .await
                    .map_err(|refusal| format!("no credential for it: {}", refusal.message))?,
            );
        }
        let Some(token) = token else {
            return Err("no credential for it".to_owned());
        };
        let mut process =
            Process::start(&self.supervisor, &self.recipe, token).map_err(|error| {
                format!(
                    "`{}` cannot be started: {error}; check the supervisor's engine.command",
                    self.recipe.name()
                )
            })?;
        tokio::select! {
            ended = process.ended() => Ok(Some(ended)),
            () = self.stop.cancelled() => {
                process.stop(self.grace).await;
                Ok(None)
            }
        }
    }

    /// Makes a credential that lives as long as this start of the host.
    async fn issue(&self) -> Result<credentials::Token, Refusal> {
        let id = format!("managed-{}", self.supervisor);
        let access = Access::Engine(self.supervisor.clone());
        let (token, credential) = credentials::issue(&id, access, self.host.clock().wall_ms());
        let by = Actor {
            kind: "SYSTEM".into(),
            id: "managed".into(),
        };
        self.host.replace_credential(credential, by).await?;
        Ok(token)
    }

    fn moment(&self) -> Moment {
        let clock: &Arc<_> = self.host.clock();
        Moment {
            now: clock.now(),
            wall: clock.wall_ms(),
        }
    }
}
