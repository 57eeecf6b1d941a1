//! Signals: what an engine receives (contract §5), in the seed's JSON form.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::directive::{Actor, Command};
use super::id::{ExecutionId, NodeId, SessionId, WorkflowId};
use super::status::RunStatus;

/// A kind of event (C14).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
pub enum EventKind {
    /// A node changed its status.
    #[n(1)]
    #[serde(rename = "NODE_STATUS")]
    NodeStatus,
    /// A run changed its status.
    #[n(2)]
    #[serde(rename = "WORKFLOW_STATUS")]
    WorkflowStatus,
    /// What came of somebody else's command on an owned unit.
    #[n(3)]
    #[serde(rename = "CONTROL_OUTCOME")]
    ControlOutcome,
    /// A line of a node's output.
    #[n(4)]
    #[serde(rename = "LOG")]
    Log,
    /// An input was asked for, answered or withdrawn.
    #[n(5)]
    #[serde(rename = "INPUT")]
    Input,
    /// Events were lost; says exactly which (C39).
    #[n(6)]
    #[serde(rename = "EventsMissed")]
    EventsMissed,
    /// Units were gained or lost (C5).
    #[n(7)]
    #[serde(rename = "OWNERSHIP")]
    Ownership,
}

impl EventKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::NodeStatus,
        Self::WorkflowStatus,
        Self::ControlOutcome,
        Self::Log,
        Self::Input,
        Self::EventsMissed,
        Self::Ownership,
    ];

    /// Returns the kind as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodeStatus => "NODE_STATUS",
            Self::WorkflowStatus => "WORKFLOW_STATUS",
            Self::ControlOutcome => "CONTROL_OUTCOME",
            Self::Log => "LOG",
            Self::Input => "INPUT",
            Self::EventsMissed => "EventsMissed",
            Self::Ownership => "OWNERSHIP",
        }
    }
}

/// An event of something owned. Fields that do not apply to its kind are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What kind of event it is.
    pub kind: EventKind,
    /// The execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The execution's workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowId>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The new status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The status before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The number of the node's newest attempt; 0 before the first is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why, in the words of [`super::status::Why`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The exit code of the attempt's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the attempt's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// Milliseconds until the next attempt of the node begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// CONTROL_OUTCOME: the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// CONTROL_OUTCOME: the outcome, or the code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// CONTROL_OUTCOME: the outcome's detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// CONTROL_OUTCOME: the command's place in its run's order (C26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The channel that the change came from: `ENGINE`, `OPERATOR`, `SYSTEM`; absent when the work itself changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Who gave the command that changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The cause that the command named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The reason that the command gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// OWNERSHIP: units gained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gained: Vec<String>,
    /// OWNERSHIP: units lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// EventsMissed: what was missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
}

impl Event {
    /// Makes an event of a kind with every other field absent.
    #[must_use]
    pub fn of(kind: EventKind) -> Self {
        Self {
            kind,
            execution: None,
            workflow: None,
            node: None,
            status: None,
            previous: None,
            attempt: None,
            why: None,
            exit_code: None,
            exit_signal: None,
            retry_in_ms: None,
            op: None,
            outcome: None,
            detail: None,
            order: None,
            channel: None,
            actor: None,
            cause: None,
            reason: None,
            gained: Vec::new(),
            lost: Vec::new(),
            missed: None,
        }
    }
}

/// The range of events that will not come (C39).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missed {
    /// The first cursor missed.
    pub from_cursor: String,
    /// The last cursor missed; also the cursor of the event that says so.
    pub to_cursor: String,
    /// How many events were missed.
    pub count: u64,
    /// How many of each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_kind: BTreeMap<String, u64>,
    /// `RETENTION`, `SNAPSHOT`, `CRASH`, `EPOCH` or `QUARANTINED`.
    pub reason: String,
}

/// Why an engine is started (C16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartReason {
    /// No session of this supervisor was ever accepted before.
    First,
    /// It was connected before.
    Resubscribe,
    /// It is back on a new token.
    CredentialRotated,
}

impl StartReason {
    /// Returns the reason as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Resubscribe => "resubscribe",
            Self::CredentialRotated => "credential-rotated",
        }
    }
}

/// One hold of a run, as snapshots and reads show it (C28).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldView {
    /// Who holds: `supervisor:<id>`, `person:<actor>` or `SYSTEM`.
    pub holder: String,
    /// Why, as given with the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when, unix milliseconds.
    pub since_ms: u64,
}

/// One execution, as snapshots and reads show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    /// The execution.
    pub id: ExecutionId,
    /// Its workflow.
    pub workflow: WorkflowId,
    /// Its status.
    pub status: RunStatus,
    /// Its priority, −100 to 100.
    pub priority: i32,
    /// When it was started, unix milliseconds.
    pub started_ms: u64,
    /// Its holds, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldView>,
}

/// What a supervisor owns, at one place in its stream (C41).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The cursor whose state this is.
    pub as_of: String,
    /// Owned executions that have not ended, the oldest first.
    pub executions: Vec<ExecutionView>,
    /// The ids of the reviews that wait for this engine.
    pub open_reviews: Vec<String>,
}

/// A signal to an engine.
#[expect(
    clippy::large_enum_variant,
    reason = "a signal is made, printed and dropped; none is kept"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all_fields = "camelCase")]
pub enum Signal {
    /// Something owned changed.
    Event {
        /// The event's id, for causes.
        id: String,
        /// Its place in the stream, for resuming.
        cursor: String,
        /// When it happened, unix milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_ms: Option<u64>,
        /// The snapshot of `Started` already holds it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        history: bool,
        /// What happened.
        event: Event,
    },
    /// Time has passed.
    Tick {
        /// The tick's id.
        id: String,
        /// When it was due, host milliseconds.
        scheduled_ms: u64,
        /// When it was sent, host milliseconds.
        now_ms: u64,
        /// How many ticks before it were not sent.
        missed: u64,
    },
    /// Somebody wants to send a command to an owned unit.
    Review {
        /// The review's id.
        id: String,
        /// Milliseconds left to answer.
        timeout_ms: u64,
        /// The command.
        command: Command,
        /// The command's reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who wants to send it.
        actor: Actor,
        /// The cursor of the state behind the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_of: Option<String>,
    },
    /// A child asks.
    Delegated {
        /// The request's id.
        id: String,
        /// The child.
        from: String,
        /// `APPROVAL`, `INPUT` or `CONSULT`.
        kind: String,
        /// The question.
        payload: Value,
        /// Milliseconds left to answer.
        timeout_ms: u64,
    },
    /// The parents have answered.
    Consulted {
        /// The signal's id.
        id: String,
        /// The key of the `Delegate`.
        key: String,
        /// Each parent's answer.
        answers: BTreeMap<String, Value>,
    },
    /// The engine starts or is back; the snapshot follows in parts on the stream.
    Started {
        /// The signal's id, for causes.
        id: String,
        /// Why.
        reason: StartReason,
        /// The session.
        session: SessionId,
        /// The place from which events follow.
        cursor: String,
        /// What is owned now.
        snapshot: Snapshot,
    },
}
