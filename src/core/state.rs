//! The state in two parts. [`Durable`] is changed only by applying records, and replaying the journal
//! gives it again; [`Transient`] is empty after every open. The [`Index`] is derived from the durable part.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use imbl::OrdMap;

use crate::contract::definition::SupervisorDef;
use crate::contract::directive::{Actor, Command};
use crate::contract::id::{ExecutionId, NodeId, ReviewId, SessionId, SupervisorId, WorkflowId};
use crate::contract::time::HostTime;
use crate::contract::unit::Unit;

use super::record::{Credential, Fingerprint, ReviewEnd, Settings, Source};

mod apply;
mod image;
pub mod index;
pub mod run;
pub mod supervisor;

use index::Index;
use run::{Plan, Run};
use supervisor::{Keys, Supervisor};

pub use image::Error as ImageError;

/// A workflow: its newest revision, and the older ones that runs keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// The newest revision.
    pub plan: Arc<Plan>,
    /// The newest definition as it was saved.
    pub json: Arc<str>,
    /// Where it came from.
    pub source: Source,
}

/// Who owns and who sees what, for one revision of a workflow (C3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audience {
    /// The owner of the run-level commands.
    pub run_owner: Option<u32>,
    /// The owner of each node's commands, by index.
    pub node_owners: Vec<Option<u32>>,
    /// Everybody who sees the run's status, by number.
    pub run_readers: Vec<u32>,
}

/// A review.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// Its id.
    pub id: ReviewId,
    /// The supervisor that is asked.
    pub supervisor: u32,
    /// The command, as sent.
    pub command: Command,
    /// The command's reason.
    pub reason: Option<String>,
    /// Who commands.
    pub actor: Actor,
    /// The keys of the requests that wait for it, the first one's first.
    pub keys: Vec<String>,
    /// What the keys stand for.
    pub fingerprint: Fingerprint,
    /// The targets as expanded when it was asked.
    pub targets: Vec<String>,
    /// When it was opened.
    pub opened: HostTime,
    /// When it ends by itself.
    pub deadline: HostTime,
    /// The supervisor's newest cursor when it was asked.
    pub as_of: u64,
    /// How it ended.
    pub end: Option<ReviewEnd>,
}

/// What the journal holds, folded. A clone is cheap and is a consistent view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durable {
    /// The place of the last applied record.
    pub seq: u64,
    /// The host time of the last applied record.
    pub now: HostTime,
    /// The wall time of the last applied record, unix milliseconds.
    pub wall: u64,
    /// The boot and monotonic time of the last open, and the host time that they stand for.
    pub opened: Option<(String, u64, HostTime)>,
    /// The settings of the last open.
    pub settings: Settings,
    /// Supervisors by number.
    pub supervisors: OrdMap<u32, Arc<Supervisor>>,
    /// Supervisor numbers by id.
    pub numbers: OrdMap<SupervisorId, u32>,
    /// Owners by unit; derived from the supervisors.
    pub owners: OrdMap<Unit, u32>,
    /// Workflows.
    pub workflows: OrdMap<WorkflowId, Arc<Workflow>>,
    /// Every revision that is newest or kept by a run.
    pub plans: OrdMap<(WorkflowId, u32), Arc<Plan>>,
    /// Who owns and sees what, for each of these; derived from owners and plans.
    pub audiences: OrdMap<(WorkflowId, u32), Arc<Audience>>,
    /// Runs.
    pub runs: OrdMap<ExecutionId, Arc<Run>>,
    /// Reviews: open ones, and closed ones while they can be cited.
    pub reviews: OrdMap<ReviewId, Arc<Review>>,
    /// Operators' keys, by actor.
    pub operator_keys: OrdMap<String, Keys>,
    /// Credentials by id.
    pub credentials: OrdMap<String, Arc<Credential>>,
    /// The newest run's number.
    pub last_run: u64,
    /// The newest review's number.
    pub last_review: u64,
    /// The newest session's number.
    pub last_session: u64,
}

impl Durable {
    /// Finds a supervisor by id.
    #[must_use]
    pub fn supervisor(&self, id: &SupervisorId) -> Option<&Arc<Supervisor>> {
        self.supervisors.get(self.numbers.get(id)?)
    }

    /// Finds a run.
    #[must_use]
    pub fn run(&self, id: ExecutionId) -> Option<&Arc<Run>> {
        self.runs.get(&id)
    }

    /// Returns who owns and sees what in a run.
    #[must_use]
    pub fn audience(&self, run: &Run) -> Option<&Arc<Audience>> {
        self.audiences.get(&(run.workflow.clone(), run.revision))
    }

    /// Returns the owner of a run's run-level commands.
    #[must_use]
    pub fn run_owner(&self, run: &Run) -> Option<u32> {
        self.owners
            .get(&Unit::Workflow(run.workflow.clone()))
            .copied()
    }

    /// Returns the owner of a node's commands.
    #[must_use]
    pub fn node_owner(&self, run: &Run, node: &NodeId) -> Option<u32> {
        let index = run.index(node)?;
        self.audience(run)?
            .node_owners
            .get(index)
            .copied()
            .flatten()
    }

    /// Works out who owns and sees what in a revision of a workflow.
    #[must_use]
    pub fn make_audience(&self, plan: &Plan) -> Audience {
        let workflow = &plan.def.id;
        let run_owner = self.owners.get(&Unit::Workflow(workflow.clone())).copied();
        let claim = |unit: Unit| self.owners.get(&unit).copied();
        let node_owners: Vec<Option<u32>> = plan
            .def
            .nodes
            .iter()
            .map(|(id, node)| {
                claim(Unit::Node(workflow.clone(), id.clone()))
                    .or_else(|| {
                        node.group
                            .as_ref()
                            .and_then(|g| claim(Unit::Group(workflow.clone(), g.clone())))
                    })
                    .or(run_owner)
            })
            .collect();
        let mut run_readers: Vec<u32> = node_owners
            .iter()
            .flatten()
            .copied()
            .chain(run_owner)
            .collect();
        run_readers.sort_unstable();
        run_readers.dedup();
        Audience {
            run_owner,
            node_owners,
            run_readers,
        }
    }
}

/// A live session of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The session.
    pub session: SessionId,
    /// Whether it takes `Review`s.
    pub reviews: bool,
    /// The period of its ticks, in milliseconds.
    pub tick: Option<u64>,
    /// The period that its hello asked for, where the definition has none.
    pub asked: Option<u64>,
    /// The newest point of the tick grid that it was sent, or the last one before its period began.
    pub ticked: HostTime,
}

/// What is forgotten when the host stops.
#[derive(Debug, Default)]
pub struct Transient {
    /// When the host opened its store.
    pub opened_at: HostTime,
    /// Live sessions by supervisor number.
    pub live: BTreeMap<u32, Live>,
    /// When the last session of a supervisor ended.
    pub gone_since: BTreeMap<u32, HostTime>,
    /// Supervisors that were sent a tick since the host opened.
    pub ticked: std::collections::BTreeSet<u32>,
    /// The times of the newest messages of each sender, at most as many as its rate.
    pub floods: BTreeMap<Sender, VecDeque<HostTime>>,
    /// Refusals that stand in the audit as one row a second.
    pub refusals: BTreeMap<(u64, String, &'static str), (u64, super::audit::AuditEntry)>,
    /// Callers who wait for a review.
    pub waiting: BTreeMap<ReviewId, Vec<(super::input::Token, bool)>>,
    /// The next point of the tick grid, over all live sessions.
    pub next_ticks: std::collections::BTreeSet<(HostTime, u32)>,
}

/// Whose messages are counted against a rate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// An engine's, by its supervisor's number.
    Engine(u32),
    /// A person's or program's, by kind and id.
    Operator(String),
}

/// The whole state.
#[derive(Debug, Default)]
pub struct State {
    durable: Durable,
    index: Index,
    pub(super) transient: Transient,
}

impl State {
    /// Takes up a durable state that was read from a snapshot.
    #[must_use]
    pub fn from_durable(durable: Durable) -> Self {
        let index = Index::rebuild(&durable);
        Self {
            durable,
            index,
            transient: Transient::default(),
        }
    }

    /// Returns the durable part; a clone of it is a view.
    #[must_use]
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the supervisors whose sessions are live, by number.
    pub fn live_sessions(&self) -> impl Iterator<Item = (u32, SessionId)> + '_ {
        self.transient
            .live
            .iter()
            .map(|(number, live)| (*number, live.session))
    }

    /// Checks that the derived side is what the durable part says; for tests.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check(&self) -> Result<(), String> {
        let fresh = Index::rebuild(&self.durable);
        let late = |index: &Index| {
            // A retry delay that has passed since the last record may stand on either side.
            let mut due = index.due.clone();
            due.retain(|(_, d)| !matches!(d, index::Due::Retry(..)));
            due
        };
        if late(&fresh) == late(&self.index)
            && fresh.queue == self.index.queue
            && fresh.live == self.index.live
            && fresh.open_reviews == self.index.open_reviews
            && fresh.running_runs == self.index.running_runs
            && fresh.running_nodes == self.index.running_nodes
        {
            Ok(())
        } else {
            Err(format!(
                "the index differs from a fresh one:\n{:?}\n{fresh:?}",
                self.index
            ))
        }
    }
}

/// Reads a stored definition.
pub(super) fn parse_supervisor(json: &str) -> Option<SupervisorDef> {
    serde_json::from_str(json).ok()
}
