//! The history: lists of plain facts in the order in which they happened, each with its time.

use std::rc::Rc;

use signalbox::contract::definition::{SupervisorDef, WorkflowDef};
use signalbox::contract::directive::{Actor, Command};
use signalbox::contract::id::{NodeId, SupervisorId, WorkflowId};
use signalbox::contract::operation::Op;
use signalbox::contract::status::{NodeStatus, RunStatus};

use super::view::{RunFact, RunView};
use crate::operations::Deed;
use crate::seen::Reply;

/// A definition was saved.
#[derive(Debug, Clone)]
pub enum Save {
    Workflow(Rc<WorkflowDef>),
    Supervisor(Rc<SupervisorDef>),
}

/// What happened on the wires. All of it but the numbers, times and acknowledgements is lost when the host opens.
#[derive(Debug, Clone)]
pub enum Wire {
    /// The host opened.
    Opened,
    SessionBegan {
        supervisor: SupervisorId,
        session: u64,
        takes_reviews: bool,
        tick_ms: Option<u64>,
    },
    SessionEnded {
        supervisor: SupervisorId,
    },
    TickSent {
        supervisor: SupervisorId,
        session: u64,
        scheduled: u64,
    },
    /// A directive or command arrived, in whatever shape. The text names its sender.
    Message {
        from: String,
    },
    Acked {
        supervisor: SupervisorId,
        cursor: u64,
    },
}

/// An event took the next place in a supervisor's stream.
#[derive(Debug, Clone)]
pub struct Streamed {
    pub supervisor: SupervisorId,
    pub cursor: u64,
}

/// A directive passed all checks up to allowedCommands and was not refused by its target stage.
#[derive(Debug, Clone)]
pub struct Passed {
    pub supervisor: SupervisorId,
    pub op: Op,
    pub cause: String,
}

/// An answer is remembered under a key.
#[derive(Debug, Clone)]
pub struct Remembered {
    pub scope: String,
    pub key: String,
    pub fingerprint: String,
    pub reply: Reply,
}

/// One place that a command acts on, after its target was expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nothing is there; the text names it.
    Nowhere(String),
    /// A start of this workflow.
    Workflow(WorkflowId),
    Run(u64),
    Node(u64, NodeId),
}

/// An operator's command that is being reviewed.
#[derive(Debug)]
pub struct Request {
    pub actor: Actor,
    pub command: Command,
    pub reason: Option<String>,
    pub deed: Deed,
    pub places: Vec<Place>,
    pub matched: Option<u64>,
}

/// What happened to reviews.
#[derive(Debug, Clone)]
pub enum ReviewFact {
    /// The host opened: who waited for an answer is gone.
    Opened,
    Asked {
        id: u64,
        supervisor: SupervisorId,
        deadline: u64,
        request: Rc<Request>,
    },
    /// A caller waits for its end; `key` is its key with the fingerprint, `replayed` what its answer will say.
    Waits {
        id: u64,
        step: usize,
        scope: String,
        key: Option<String>,
        fingerprint: String,
        replayed: bool,
    },
    Ended {
        id: u64,
    },
}

/// Something that nobody outside sees, noted for the coverage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A command met a state.
    Met {
        /// The operation.
        op: Op,
        /// The state of the run or node, or `-`.
        state: String,
        /// The outcome, or the refusal's code.
        outcome: String,
        /// The channel.
        channel: &'static str,
    },
    /// A cause was judged: its kind and what came of it.
    Cause(&'static str, &'static str),
    /// A review ended, in words.
    Review(&'static str),
    /// A run changed its status.
    Run(Option<RunStatus>, RunStatus),
    /// A node changed its status.
    Node(NodeStatus, NodeStatus),
    /// A deadline was decided, or something else that is rare happened.
    Rare(&'static str),
}

/// One run: its log, and the log folded.
#[derive(Debug)]
pub struct RunHistory {
    pub log: Vec<(u64, RunFact)>,
    pub view: Rc<RunView>,
}

/// Everything that ever happened.
#[derive(Debug, Default)]
pub struct History {
    pub saves: Vec<(u64, Save)>,
    pub wires: Vec<(u64, Wire)>,
    pub stream: Vec<(u64, Streamed)>,
    pub passed: Vec<(u64, Passed)>,
    pub keys: Vec<Remembered>,
    pub reviews: Vec<(u64, ReviewFact)>,
    pub runs: Vec<RunHistory>,
}

impl History {
    pub fn opened() -> Self {
        Self {
            wires: vec![(0, Wire::Opened)],
            ..Self::default()
        }
    }

    /// Adds a fact to a run's log and folds the whole log anew.
    pub fn tell(&mut self, now: u64, run: u64, fact: RunFact) {
        let Some(history) = usize::try_from(run)
            .ok()
            .and_then(|n| self.runs.get_mut(n.wrapping_sub(1)))
        else {
            return;
        };
        history.log.push((now, fact));
        history.view = Rc::new(RunView::fold(run, &history.log));
    }

    /// Begins the log of a new run; gives its number.
    pub fn begin_run(&mut self, now: u64, fact: RunFact) -> u64 {
        let run = self.runs.len() as u64 + 1;
        let log = vec![(now, fact)];
        let view = Rc::new(RunView::fold(run, &log));
        self.runs.push(RunHistory { log, view });
        run
    }

    pub fn run(&self, run: u64) -> Option<Rc<RunView>> {
        let at = usize::try_from(run).ok()?.checked_sub(1)?;
        self.runs.get(at).map(|r| Rc::clone(&r.view))
    }

    /// All runs, the oldest first.
    pub fn all_runs(&self) -> impl DoubleEndedIterator<Item = &Rc<RunView>> {
        self.runs.iter().map(|r| &r.view)
    }

    pub fn workflow(&self, id: &WorkflowId) -> Option<Rc<WorkflowDef>> {
        self.saves.iter().rev().find_map(|(_, save)| match save {
            Save::Workflow(def) if def.id == *id => Some(Rc::clone(def)),
            _ => None,
        })
    }
}
