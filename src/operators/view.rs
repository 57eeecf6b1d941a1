//! What reads show, as plain data. The same types are printed by the skins and read by the command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::definition::Transport;
use crate::contract::id::{ExecutionId, NodeId, SessionId, SupervisorId, WorkflowId};
use crate::contract::outcome::Answer;
use crate::contract::signal::{Event, HoldView};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::core::audit::AuditEntry;

use super::LogStream;
use super::auth::Role;

/// The body of `POST /api/commands`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandRequest {
    /// The operation's name.
    pub op: String,
    /// The target (C25).
    pub target: String,
    /// The arguments; absent ones have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, serde_json::Value>,
    /// Only if the run or node acted on has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_status: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// The new execution of a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
}

/// A problem that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The path of the field.
    pub path: String,
    /// What is probably not meant.
    pub message: String,
}

/// What a save did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaveResult {
    /// The id of what was saved.
    pub id: String,
    /// Whether anything changed; the same definition again changes nothing.
    pub changed: bool,
    /// The workflow's revision from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Things that are allowed and probably not meant (C4).
    pub warnings: Vec<Warning>,
}

/// The body of `POST /api/credentials`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRequest {
    /// The key's name: how the audit and holds call its holder.
    pub name: String,
    /// What the key allows.
    pub role: Role,
}

/// A new credential. The token is shown this once and kept nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewCredential {
    /// Its id.
    pub id: String,
    /// The secret.
    pub token: String,
    /// Whose engine it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<SupervisorId>,
    /// What it allows an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl std::fmt::Debug for NewCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewCredential")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A read with the place in the journal that it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AsOf<T> {
    /// The number of the last record behind it (C41).
    pub as_of: u64,
    /// What was read.
    #[serde(flatten)]
    pub body: T,
}

/// Where a definition came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceView {
    /// A file; the API cannot change it.
    File,
    /// The API.
    Api,
}

/// The workflows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflows {
    /// By id.
    pub workflows: Vec<WorkflowView>,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowView {
    /// Its id.
    pub id: WorkflowId,
    /// Its newest revision.
    pub revision: u32,
    /// Where it came from.
    pub source: SourceView,
    /// How many nodes it has.
    pub nodes: usize,
    /// The owner of its run-level commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SupervisorId>,
    /// Its definition; in lists left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<serde_json::Value>,
}

/// The supervisors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Supervisors {
    /// By id.
    pub supervisors: Vec<SupervisorView>,
}

/// A supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SupervisorView {
    /// Its id.
    pub id: SupervisorId,
    /// Where it came from.
    pub source: SourceView,
    /// The units it owns.
    pub owns: Vec<String>,
    /// Its engine.
    pub engine: EngineView,
    /// The ids of the reviews that wait for its engine.
    pub open_reviews: Vec<String>,
    /// Its definition, without the engine's environment; in lists left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<serde_json::Value>,
}

/// The engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Engines {
    /// By supervisor id.
    pub engines: Vec<EngineView>,
}

/// A supervisor's engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineView {
    /// Its supervisor.
    pub supervisor: SupervisorId,
    /// How it is reached.
    pub transport: Transport,
    /// The newest place of its stream.
    pub last_cursor: u64,
    /// The newest place that it acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u64>,
    /// How it is connected.
    #[serde(flatten)]
    pub status: EngineStatus,
}

/// How an engine is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineStatus {
    /// Whether a session is live.
    pub connected: bool,
    /// The live session, else the newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Its name, version and kit, as it says; text from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Since when it is connected, or not, unix milliseconds; absent where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Its last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// When it may come back, unix milliseconds; absent where it may now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<u64>,
    /// How often it failed since the host opened.
    #[serde(default)]
    pub failures: u64,
}

/// A failure of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// When, unix milliseconds.
    pub at_ms: u64,
    /// What failed.
    pub message: String,
}

/// Which executions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionsQuery {
    /// Only those of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only those with one of these statuses, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// How many at most, 1 to 500; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// Where to go on, from the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

/// A page of executions, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executions {
    /// The page.
    pub executions: Vec<ExecutionRow>,
    /// Where to go on; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// An execution in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRow {
    /// Its id.
    pub id: ExecutionId,
    /// Its workflow.
    pub workflow: WorkflowId,
    /// The revision of the definition that it keeps.
    pub revision: u32,
    /// Its status.
    pub status: RunStatus,
    /// Its priority, −100 to 100.
    pub priority: i32,
    /// When it was started, unix milliseconds.
    pub started_ms: u64,
    /// When its status last changed, unix milliseconds.
    pub changed_ms: u64,
    /// Its holds, the oldest first.
    pub holds: Vec<HoldView>,
}

/// An execution with everything about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionDetail {
    /// What lists show.
    #[serde(flatten)]
    pub row: ExecutionRow,
    /// Its parameters, defaults filled in.
    pub params: BTreeMap<String, String>,
    /// How many commands were applied to it (C26).
    pub order: u64,
    /// The owner of its run-level commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SupervisorId>,
    /// The ids of reviews about it that are open.
    pub open_reviews: Vec<String>,
    /// Its nodes, by id.
    pub nodes: Vec<NodeView>,
}

/// A node of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its status.
    pub status: NodeStatus,
    /// Why it is in its status, where that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// The number of its newest attempt; 0 before the first.
    pub attempt: u32,
    /// Whether any attempt ever started, so that there may be logs.
    pub started: bool,
    /// The exit code of its newest attempt that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// When its status last changed, unix milliseconds.
    pub changed_ms: u64,
    /// The nodes that it needs.
    pub needs: Vec<NodeId>,
    /// The owner of its commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SupervisorId>,
}

/// Which log to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// The node; may be absent where the execution has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The attempt; the newest when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `stdout` (when absent) or `stderr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<LogStream>,
    /// How many bytes of the end at most, 1 to 1 MiB; 64 KiB when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Only what was produced after this many bytes: the `next` of an earlier read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogView {
    /// The execution.
    pub execution: ExecutionId,
    /// The node.
    pub node: NodeId,
    /// The attempt.
    pub attempt: u32,
    /// Which output.
    pub stream: LogStream,
    /// The text; bytes that are no UTF-8 are shown as `�`.
    pub text: String,
    /// Whether something before the text was left out.
    pub truncated: bool,
    /// All bytes that the process has produced.
    pub total: u64,
    /// How many of those are kept no more.
    pub dropped: u64,
    /// Where to go on with `after`.
    pub next: u64,
    /// Whether the attempt still runs, so that more may come.
    pub running: bool,
}

/// Which rows of the audit to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only rows with a larger number; absent: the newest `limit` rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many at most, 1 to 1,000; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only rows about this execution or its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// Only rows of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Rows of the audit, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// The rows.
    pub rows: Vec<AuditRowView>,
    /// Where to go on with `after`.
    pub next: u64,
    /// Whether there may be more after that.
    pub more: bool,
    /// The hash of the newest row of all, hexadecimal, to be kept elsewhere (C49).
    pub head: String,
}

/// A row of the audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRowView {
    /// Its number, from 1 without gaps.
    pub no: u64,
    /// What it says.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// Its hash, hexadecimal, which covers every row before it.
    pub hash: String,
}

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedEvent {
    /// Its place in the journal.
    pub seq: u64,
    /// When it happened, unix milliseconds.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What an event of the stream says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum What {
    /// What a supervisor sees too, with the same fields.
    Event(Box<Event>),
    /// What only operators see.
    Host(HostEvent),
}

/// What only operators see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub enum HostEvent {
    /// The host opened its store.
    Opened,
    /// A definition was saved.
    Saved {
        /// `workflow:<id>` or `supervisor:<id>`.
        target: String,
    },
    /// A session of an engine was accepted.
    SessionAccepted {
        /// Its supervisor; absent where it is not known any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supervisor: Option<SupervisorId>,
        /// The session.
        session: SessionId,
    },
    /// An engine is asked about a command.
    ReviewOpened {
        /// The review.
        review: String,
        /// The supervisor that is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supervisor: Option<SupervisorId>,
        /// The command's targets.
        targets: Vec<String>,
        /// The command's operation.
        op: String,
        /// Who gave it.
        actor: String,
    },
    /// A review ended.
    ReviewClosed {
        /// The review.
        review: String,
        /// `allowed`, `denied`, `timeout` or `noOpinion`.
        end: String,
    },
    /// Records that retention took away before they were read.
    Missed {
        /// The first one.
        from: u64,
        /// The last one.
        to: u64,
    },
}
