//! What happens to the host: the steps that the generator makes and that both the reference and the
//! real core are given.

use std::fmt;

use signalbox::contract::definition::{SupervisorDef, WorkflowDef};
use signalbox::contract::directive::{Actor, Command, Directive};
use signalbox::contract::id::{NodeId, SupervisorId};

/// The host's settings, fixed for a whole sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many runs may be RUNNING, PAUSING or STOPPING at once.
    pub max_running_runs: u32,
    /// How many nodes may be RUNNING at once, over all runs.
    pub max_running_nodes: u32,
    /// How many runs may be QUEUED before a start is refused.
    pub max_queued_runs: u32,
    /// How long a review stays open where the definition does not say, in milliseconds.
    pub review_timeout_ms: u64,
    /// Whether the default supervisor lets operators command unowned units.
    pub default_enabled: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_running_runs: 10,
            max_running_nodes: 20,
            max_queued_runs: 100,
            review_timeout_ms: 5_000,
            default_enabled: true,
        }
    }
}

/// A step and the host time at which it comes, in milliseconds. Times never go back in a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Host time, milliseconds.
    pub now: u64,
    /// What happens.
    pub step: Step,
}

/// Where a new session asks to go on (C38).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Says nothing: after the last acknowledged cursor.
    Unsaid,
    /// After this cursor's number.
    After(u64),
    /// From a snapshot of now.
    Snapshot,
}

/// How an attempt is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Its process runs.
    Started,
    /// It ended with this exit code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It could not be started.
    NotStarted,
    /// It was lost with its shim.
    Lost,
}

/// One thing that happens to the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// An admin saves a workflow.
    SaveWorkflow {
        /// Its definition.
        def: WorkflowDef,
    },
    /// An admin saves a supervisor.
    SaveSupervisor {
        /// Its definition.
        def: SupervisorDef,
    },
    /// An engine opens a session; an older one of the same supervisor is replaced.
    Hello {
        /// Whose engine.
        supervisor: SupervisorId,
        /// Where it wants to go on.
        resume: Resume,
        /// The kinds of signals that it named; none means all.
        signals: Option<Vec<String>>,
        /// The tick period that it asks for, in milliseconds; counts only where the definition has none.
        tick_ms: Option<u64>,
    },
    /// The engine's session ends without a word.
    Disconnect {
        /// Whose engine.
        supervisor: SupervisorId,
    },
    /// An engine sends a directive.
    Directive {
        /// Whose engine.
        supervisor: SupervisorId,
        /// The number of the session that it names (always the own one on a stream).
        session: Option<u64>,
        /// Whether it came by the unary call.
        unary: bool,
        /// What it sends.
        directive: Directive,
        /// When the session last delivered the event that the directive cites, if it still knows.
        cause_delivered: Option<u64>,
    },
    /// An operator gives a command.
    Command {
        /// Who.
        actor: Actor,
        /// What.
        command: Command,
        /// Why.
        reason: Option<String>,
        /// The idempotency key.
        key: Option<String>,
    },
    /// The runtime reports on an attempt.
    Report {
        /// The run's number.
        execution: u64,
        /// The node.
        node: NodeId,
        /// The attempt's number.
        attempt: u32,
        /// What happened.
        exit: Exit,
    },
    /// Nothing but time passes.
    Time,
    /// An engine acknowledges events.
    Ack {
        /// Whose engine.
        supervisor: SupervisorId,
        /// The number of the last event that it has dealt with.
        cursor: u64,
    },
    /// The host is killed and opened again.
    Crash,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = |value: serde_json::Result<String>| value.unwrap_or_else(|e| e.to_string());
        write!(f, "{:>8} ", self.now)?;
        match &self.step {
            Step::SaveWorkflow { def } => {
                write!(f, "save workflow {}", json(serde_json::to_string(def)))
            }
            Step::SaveSupervisor { def } => {
                write!(f, "save supervisor {}", json(serde_json::to_string(def)))
            }
            Step::Directive {
                supervisor,
                session,
                unary,
                directive,
                cause_delivered,
            } => {
                let way = if *unary { "unary" } else { "stream" };
                write!(
                    f,
                    "{supervisor} directs ({way}, session {session:?}, delivered {cause_delivered:?}) "
                )?;
                f.write_str(&json(serde_json::to_string(directive)))
            }
            Step::Command {
                actor,
                command,
                reason,
                key,
            } => {
                write!(
                    f,
                    "{actor} commands (key {key:?}, reason {reason:?}) {}",
                    json(serde_json::to_string(command))
                )
            }
            other => write!(f, "{other:?}"),
        }
    }
}
