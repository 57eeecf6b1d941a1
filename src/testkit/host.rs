//! A host in the test's process: made, asked, commanded, crashed and opened again.

mod builder;
mod command;
mod listen;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

pub use builder::Builder;
pub use command::OperatorCommand;

use self::builder::Blueprint;
use self::listen::Listeners;
use super::clock::ManualClock;
use super::runtime::FakeRuntime;
use super::store::{CrashPoint, Switch};
use super::{Definition, EngineClient, FakeEngine, PATIENCE, hello, patience};
use crate::contract::code::Code;
use crate::contract::definition::{SupervisorDef, WorkflowDef};
use crate::contract::directive::Actor;
use crate::contract::id::ExecutionId;
use crate::contract::outcome::Answer;
use crate::contract::status::{NodeStatus, RunStatus};
use crate::core::audit::AuditEntry;
use crate::core::effect::{Refusal, Saved};
use crate::core::record::{Access, Entry, Source};
use crate::core::state::Durable;
use crate::core::state::run::{Node, Run};
use crate::engine::{EngineStatus, Moment};
use crate::host::{HostHandle, Stopped, View, credentials};

/// A host in this process. Dropping it stops it cleanly.
#[derive(Debug)]
pub struct Host {
    blueprint: Blueprint,
    open: Option<Open>,
    tokens: Mutex<Tokens>,
}

/// What is gone when the host stops.
struct Open {
    handle: HostHandle,
    stopped: oneshot::Receiver<Stopped>,
    switch: Switch,
    listeners: Listeners,
}

/// The tokens that were handed out, which the host itself does not keep.
#[derive(Debug, Default)]
struct Tokens {
    issued: u64,
    by_supervisor: BTreeMap<String, String>,
}

/// Who saves and commands where a test names nobody: `KEY:test`.
#[must_use]
pub(super) fn tester() -> Actor {
    Actor {
        kind: "KEY".to_owned(),
        id: "test".to_owned(),
    }
}

impl Host {
    /// Describes a host: a journal in memory, a manual clock, a fake runtime, unless told otherwise.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a host with nothing defined.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    fn open(&self) -> &Open {
        self.open
            .as_ref()
            .expect("the host is open; `restart` opens it again after `stop` or `crash`")
    }

    /// Returns the way into the host, for everything that has no helper here.
    #[must_use]
    pub fn handle(&self) -> &HostHandle {
        &self.open().handle
    }

    /// Returns the address at which engines connect, for instance `127.0.0.1:40123`; the same over restarts.
    #[must_use]
    pub fn engine_addr(&self) -> SocketAddr {
        self.open().listeners.places().engines
    }

    /// Returns the address of the operators' surface; the same over restarts.
    ///
    /// # Panics
    /// When the host was built without [`Builder::operators`].
    #[must_use]
    pub fn http_addr(&self) -> SocketAddr {
        match self.open().listeners.places().operators {
            Some(addr) => addr,
            None => panic!("this host has no listener for operators; build it with `operators()`"),
        }
    }

    /// Returns what the host knows of a supervisor's engine; none where it never heard of it.
    #[must_use]
    pub fn engine_status(&self, supervisor: &str) -> Option<EngineStatus> {
        let id = supervisor
            .parse()
            .expect("the text is the id of a supervisor");
        let clock = self.handle().clock();
        let at = Moment {
            now: clock.now(),
            wall: clock.wall_ms(),
        };
        self.open().listeners.registry().get(&id, at)
    }

    /// Waits until the host knows that a supervisor's engine is gone.
    ///
    /// # Panics
    /// When it does not notice in time.
    pub async fn until_offline(&self, supervisor: &str) {
        let gone = async {
            // Nothing durable changes, so there is nothing to be woken by.
            while self.engine_status(supervisor).is_some_and(|s| s.connected) {
                tokio::task::yield_now().await;
            }
        };
        patience("the host to notice that an engine is gone", gone).await;
        // The session has told the host's loop before.
        self.settled().await;
    }

    /// Returns the fake runtime.
    ///
    /// # Panics
    /// When the host was built with another one.
    #[must_use]
    pub fn runtime(&self) -> &FakeRuntime {
        self.blueprint.fake_runtime()
    }

    /// Returns the manual clock.
    ///
    /// # Panics
    /// When the host was built with the machine's clock.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        self.blueprint.manual_clock()
    }

    /// Returns the directory of the host's data; none for a journal in memory.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.blueprint.store.dir()
    }

    /// Moves the manual clock, in milliseconds, and returns when everything that is due is decided and durable.
    pub async fn advance(&self, ms: u64) {
        self.clock().advance(ms);
        self.settled().await;
    }

    /// Returns when everything that was sent to the host before has been decided and is durable, stops and reports
    /// of the runtime included.
    pub async fn settled(&self) {
        patience("the host to look at the time", self.handle().time_passed()).await;
    }

    /// Ends the running attempt of a node with an exit code; returns when the host has decided what follows.
    pub async fn exit(&self, execution: &str, node: &str, code: i32) {
        self.runtime().exit(execution, node, code).await;
        self.settled().await;
    }

    /// Saves a supervisor as an operator.
    ///
    /// # Errors
    /// The refusal, with every bad field.
    pub async fn save_supervisor(
        &self,
        definition: impl Definition<SupervisorDef>,
    ) -> Result<Saved, Refusal> {
        let definition = definition.definition();
        let save = self
            .handle()
            .save_supervisor(definition, Source::Api, tester());
        patience("a supervisor to be saved", save).await
    }

    /// Saves a workflow as an operator.
    ///
    /// # Errors
    /// The refusal, with every bad field.
    pub async fn save_workflow(
        &self,
        definition: impl Definition<WorkflowDef>,
    ) -> Result<Saved, Refusal> {
        let definition = definition.definition();
        let save = self
            .handle()
            .save_workflow(definition, Source::Api, tester());
        patience("a workflow to be saved", save).await
    }

    /// Returns a token with which the supervisor's engine can connect; the same one for each call.
    pub async fn credential(&self, supervisor: &str) -> String {
        let known = self.tokens().by_supervisor.get(supervisor).cloned();
        match known {
            Some(token) => token,
            None => {
                let token = self.new_credential(supervisor).await;
                self.tokens()
                    .by_supervisor
                    .insert(supervisor.to_owned(), token.clone());
                token
            }
        }
    }

    /// Issues another token for the supervisor's engine.
    ///
    /// # Panics
    /// When there is no such supervisor.
    pub async fn new_credential(&self, supervisor: &str) -> String {
        let id = supervisor
            .parse()
            .expect("the text is the id of a supervisor");
        self.issue(Access::Engine(id)).await
    }

    /// Issues a token that opens the operators' surface, to do everything.
    pub async fn admin_key(&self) -> String {
        self.issue(Access::Admin).await
    }

    /// Issues a token that opens the operators' surface, to read.
    pub async fn viewer_key(&self) -> String {
        self.issue(Access::Viewer).await
    }

    async fn issue(&self, access: Access) -> String {
        let number = {
            let mut tokens = self.tokens();
            tokens.issued += 1;
            tokens.issued
        };
        let wall = self.handle().clock().wall_ms();
        let (token, credential) = credentials::issue(&format!("test-{number}"), access, wall);
        let keep = self.handle().keep_credential(credential, tester());
        match patience("a credential to be kept", keep).await {
            Ok(_) => token.reveal().to_owned(),
            Err(refusal) => panic!("the credential was refused: {}", refusal.message),
        }
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection of its own for the supervisor's engine, and says nothing on it.
    pub async fn dial(&self, supervisor: &str) -> EngineClient {
        EngineClient::dial(self.engine_addr(), &self.credential(supervisor).await).await
    }

    /// Connects an engine for a supervisor, in the place of one that may be there.
    ///
    /// # Panics
    /// When the host refuses it.
    pub async fn engine(&self, supervisor: &str) -> FakeEngine {
        match self.dial(supervisor).await.begin(hello(supervisor)).await {
            Ok(engine) => engine,
            Err(status) => panic!("the host refuses the engine of {supervisor}: {status}"),
        }
    }

    /// Prepares an operator's command; awaiting it sends it and waits for its answer, a review included.
    pub fn command(&self, op: &str, target: &str) -> OperatorCommand {
        OperatorCommand::new(self.handle().clone(), op, target)
    }

    /// Starts a run as an operator and returns its id.
    ///
    /// # Panics
    /// When the start is not applied.
    pub async fn start_run(&self, workflow: &str) -> String {
        let answer = self
            .command("run.start", &format!("workflow:{workflow}"))
            .await;
        started(&answer)
    }

    /// Returns the state as it is now; not older than the call.
    pub async fn view(&self) -> View {
        match patience("a view of the state", self.handle().view()).await {
            Ok(view) => view,
            Err(refusal) => panic!("the host gives no view: {}", refusal.message),
        }
    }

    /// Waits until the state is as asked, and returns it. Looks again after every commit.
    ///
    /// # Panics
    /// After [`PATIENCE`], with the state as it is then.
    pub async fn until(&self, asked: impl Fn(&Durable) -> bool) -> View {
        let mut changes = self.handle().last_seq();
        let wait = async {
            loop {
                changes.borrow_and_update();
                let view = self.view().await;
                if asked(&view) {
                    return view;
                }
                changes
                    .changed()
                    .await
                    .expect("the host goes on while a test waits for it");
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(view) => view,
            Err(_) => panic!(
                "waited {} s in vain for the state; it is:\n{}",
                PATIENCE.as_secs(),
                summary(&*self.view().await)
            ),
        }
    }

    /// Waits until a run has a status, for instance `PAUSED`.
    pub async fn until_run(&self, execution: &str, status: &str) -> View {
        let id = run_id(execution);
        self.until(|view| {
            view.run(id)
                .is_some_and(|run| run.status.as_str() == status)
        })
        .await
    }

    /// Waits until a node has a status, for instance `RUNNING`.
    pub async fn until_node(&self, execution: &str, node: &str, status: &str) -> View {
        let id = run_id(execution);
        self.until(|view| {
            view.run(id)
                .and_then(|run| find_node(run, node))
                .is_some_and(|node| node.status.as_str() == status)
        })
        .await
    }

    /// Returns a run.
    ///
    /// # Panics
    /// When there is none.
    pub async fn run(&self, execution: &str) -> Arc<Run> {
        let view = self.view().await;
        match view.run(run_id(execution)) {
            Some(run) => Arc::clone(run),
            None => panic!(
                "there is no run {execution}; there are:\n{}",
                summary(&view)
            ),
        }
    }

    /// Returns a run's status.
    ///
    /// # Panics
    /// When there is no such run.
    pub async fn run_status(&self, execution: &str) -> RunStatus {
        self.run(execution).await.status
    }

    /// Returns a node of a run.
    ///
    /// # Panics
    /// When there is none.
    pub async fn node(&self, execution: &str, node: &str) -> Node {
        let run = self.run(execution).await;
        match find_node(&run, node) {
            Some(node) => node.clone(),
            None => panic!("run {execution} has no node {node}"),
        }
    }

    /// Returns a node's status.
    ///
    /// # Panics
    /// When there is no such node.
    pub async fn node_status(&self, execution: &str, node: &str) -> NodeStatus {
        self.node(execution, node).await.status
    }

    /// Returns every audit row, in order.
    #[must_use]
    pub fn audit(&self) -> Vec<AuditEntry> {
        let rows = self
            .handle()
            .journal()
            .audit(1, usize::MAX)
            .expect("the audit can be read");
        rows.iter()
            .map(|row| AuditEntry::from_bytes(&row.bytes).expect("a stored audit row decodes"))
            .collect()
    }

    /// Returns every record, in order.
    #[must_use]
    pub fn records(&self) -> Vec<Entry> {
        let items = self
            .handle()
            .journal()
            .records(1, usize::MAX)
            .expect("the journal can be read");
        items
            .iter()
            .map(|item| Entry::decode(&item.bytes).expect("a stored record decodes"))
            .collect()
    }

    /// Stops the host cleanly: what it received is answered, sessions are told, the journal is closed.
    ///
    /// # Panics
    /// When the journal cannot be closed.
    pub async fn stop(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        open.listeners.close_politely().await;
        patience("the host to stop", open.handle.stop()).await;
        match patience("the host to end", &mut open.stopped).await {
            Ok(Stopped::Clean) => {}
            Ok(Stopped::Journal(error)) => panic!("the host did not stop cleanly: {error}"),
            Err(_) => panic!("the host's thread has panicked; its words are above"),
        }
        self.let_go(open).await;
    }

    /// Lets the host die at its next commit; the test goes on and gives it something to commit.
    /// [`Host::restart`] or [`Host::crash`] comes after that.
    pub fn crash_at(&self, point: CrashPoint) {
        self.open().switch.arm(point);
    }

    /// Waits until a host that was told by [`Host::crash_at`] to die has died, and cuts every connection.
    pub async fn crashed(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        match patience("the host to die", &mut open.stopped).await {
            Ok(Stopped::Journal(_)) => {}
            Ok(Stopped::Clean) => panic!("the host stopped cleanly instead of dying"),
            Err(_) => panic!("the host's thread has panicked; its words are above"),
        }
        self.let_go(open).await;
    }

    /// Lets the host die now: connections are cut, what is not committed is gone. The fake runtime, the clock and
    /// the store live on.
    pub async fn crash(&mut self) {
        let Some(open) = &self.open else { return };
        open.switch.arm(CrashPoint::BeforeCommit);
        // Anything that makes a record will do: it is never stored.
        let (_, credential) = credentials::issue("never-kept", Access::Viewer, 0);
        let kept = open.handle.keep_credential(credential, tester());
        let refused = patience("the host to die", kept).await;
        assert!(
            refused.is_err_and(|r| r.code == Code::Unavailable),
            "a host that dies answers nobody"
        );
        self.crashed().await;
    }

    /// Opens the same store again: after [`Host::stop`] as after a clean stop, otherwise as after a crash.
    pub async fn restart(&mut self) {
        self.crash().await;
        let open = self.blueprint.open().await;
        self.open = Some(open);
    }

    async fn let_go(&self, open: Open) {
        self.blueprint.detach();
        let Open {
            handle, listeners, ..
        } = open;
        drop(handle);
        listeners.cut().await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Open {
            handle, listeners, ..
        } = open;
        self.blueprint.detach();
        // On a thread of its own, since this may be an async worker. A test that panics does not wait for it.
        let ending = std::thread::Builder::new()
            .name("test-host-ends".to_owned())
            .spawn(move || {
                listeners.cut_blocking();
                match tokio::runtime::Builder::new_current_thread().build() {
                    Ok(runtime) => runtime.block_on(handle.stop()),
                    Err(error) => tracing::warn!(%error, "host of a test is not stopped"),
                }
            });
        match ending {
            Ok(ending) if !std::thread::panicking() => {
                if ending.join().is_err() {
                    tracing::warn!("host of a test did not stop cleanly");
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "host of a test is not stopped"),
        }
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").finish_non_exhaustive()
    }
}

fn run_id(execution: &str) -> ExecutionId {
    execution
        .parse()
        .expect("the text is the id of an execution, for instance `x1`")
}

fn find_node<'a>(run: &'a Run, node: &str) -> Option<&'a Node> {
    run.named_nodes()
        .find(|(id, _)| id.as_str() == node)
        .map(|(_, node)| node)
}

/// Returns the execution that a start made.
fn started(answer: &Answer) -> String {
    match answer.targets.as_slice() {
        [one] if one.outcome.as_str() == "APPLIED" => one
            .target
            .strip_prefix("execution:")
            .expect("a start answers with the new execution")
            .to_owned(),
        _ => panic!("the run was not started: {answer:?}"),
    }
}

/// Says how all runs and nodes are, for a test that fails.
fn summary(view: &Durable) -> String {
    let mut lines: Vec<String> = Vec::new();
    for run in view.runs.values() {
        let nodes: Vec<String> = run
            .named_nodes()
            .map(|(id, node)| format!("{id} {} #{}", node.status.as_str(), node.attempt))
            .collect();
        lines.push(format!(
            "{} of {}: {}; holds: [{}]; {}",
            run.id,
            run.workflow,
            run.status.as_str(),
            run.holders(),
            nodes.join(", ")
        ));
    }
    if lines.is_empty() {
        lines.push("no runs".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
