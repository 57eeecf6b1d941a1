//! Records: the durable facts. State changes by applying them and in no other way.
//!
//! Stored bytes are a version byte and CBOR with indexed fields, so fields can be added within a
//! version. Definitions and commands stand in records as JSON, as they were saved or sent.

use minicbor::{Decode, Encode};

use crate::contract::directive::Actor;
use crate::contract::id::{ExecutionId, NodeId, ReviewId, SessionId, SupervisorId, WorkflowId};
use crate::contract::operation::Op;
use crate::contract::outcome::{Answer, Outcome};
use crate::contract::signal::EventKind;
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;

/// A record with its place, its time, and the streams that it goes to.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// Its place in the journal, dense from 1.
    #[n(0)]
    pub seq: u64,
    /// The host time of the decision.
    #[n(1)]
    pub time: HostTime,
    /// The wall time of the decision, unix milliseconds; for display only.
    #[n(2)]
    pub wall: u64,
    /// The (supervisor number, cursor) pairs whose streams it belongs to, fixed here for ever.
    #[n(3)]
    pub to: Vec<(u32, u64)>,
    /// The fact.
    #[n(4)]
    pub record: Record,
}

/// The version of stored records; the first byte of each.
pub const VERSION: u8 = 1;

/// Says that stored bytes are not a record of a version that this host knows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The version is newer.
    #[error(
        "a stored record has version {0}, this host knows up to {VERSION}; run the host version that wrote it"
    )]
    Version(u8),
    /// The bytes do not decode.
    #[error("a stored record does not decode ({0}); run `signalbox doctor check`")]
    Damaged(#[from] minicbor::decode::Error),
    /// The record cannot be encoded.
    #[error("a record cannot be stored ({0}); please report it, it is a fault of the host")]
    Unstorable(String),
    /// There are no bytes.
    #[error("a stored record is empty; run `signalbox doctor check`")]
    Empty,
}

impl Entry {
    /// Appends the stored form to `out`.
    ///
    /// # Errors
    /// Fails if the record cannot be encoded, which would be a fault of the host.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(VERSION);
        minicbor::encode(self, out).map_err(|e| Error::Unstorable(e.to_string()))
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Fails on another version and on bytes that are no record.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.split_first() {
            None => Err(Error::Empty),
            Some((&VERSION, rest)) => Ok(minicbor::decode(rest)?),
            Some((&other, _)) => Err(Error::Version(other)),
        }
    }
}

/// The way by which a command came (C6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Channel {
    /// A directive of an engine.
    #[n(0)]
    Engine,
    /// A command of a person or program on the operators' surface.
    #[n(1)]
    Operator,
    /// The host itself.
    #[n(2)]
    System,
}

impl Channel {
    /// Returns the channel's name in audits and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "ENGINE",
            Self::Operator => "OPERATOR",
            Self::System => "SYSTEM",
        }
    }
}

/// Who changed something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct By {
    /// The channel.
    #[n(0)]
    pub channel: Channel,
    /// `supervisor:<id>`, `KIND:<id>` of a person, or `SYSTEM`.
    #[n(1)]
    pub actor: String,
    /// The cause as sent.
    #[n(2)]
    pub cause: Option<String>,
    /// The reason as given.
    #[n(3)]
    pub reason: Option<String>,
}

/// Who keeps a run from going on (C28).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Holder {
    /// A supervisor.
    #[n(0)]
    Supervisor(#[n(0)] SupervisorId),
    /// A person, by kind and id.
    #[n(1)]
    Person(#[n(0)] String),
    /// The host.
    #[n(2)]
    System,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Supervisor(s) => write!(f, "supervisor:{s}"),
            Self::Person(p) => write!(f, "person:{p}"),
            Self::System => f.write_str("SYSTEM"),
        }
    }
}

/// A named reason not to go on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hold {
    /// Who holds.
    #[n(0)]
    pub holder: Holder,
    /// Why, as given.
    #[n(1)]
    pub reason: Option<String>,
    /// Since when, unix milliseconds.
    #[n(2)]
    pub since_wall: u64,
}

/// How hard a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum StopMode {
    /// Running nodes finish.
    #[n(0)]
    Drain,
    /// Running nodes are told to end, and killed after the grace.
    #[n(1)]
    Immediate,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum AttemptEnd {
    /// The process returned this code.
    #[n(0)]
    Code(#[n(0)] i32),
    /// This signal ended the process.
    #[n(1)]
    Signal(#[n(0)] i32),
    /// The process could not be started.
    #[n(2)]
    NotStarted,
    /// The attempt was lost with its shim.
    #[n(3)]
    Lost,
}

/// Why a running attempt is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Ending {
    /// It took longer than the node's `timeout`.
    #[n(0)]
    Timeout,
    /// Its run stops at once.
    #[n(1)]
    RunStop,
}

/// How a review ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ReviewEnd {
    /// The engine allowed the command.
    #[n(0)]
    Allowed,
    /// The engine denied it.
    #[n(1)]
    Denied,
    /// Nobody answered in time.
    #[n(2)]
    Timeout,
    /// The engine said that it has no opinion, or reported a fault for it.
    #[n(3)]
    NoOpinion,
}

/// What a command cites as its cause, where it counts against a budget (C20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Cited {
    /// An event, by its number in the supervisor's stream.
    #[n(0)]
    Event(#[n(0)] u64),
    /// A review.
    #[n(1)]
    Review(#[n(0)] ReviewId),
    /// The `Started` of a session.
    #[n(2)]
    Started(#[n(0)] SessionId),
}

/// A digest of what a key stands for (C19).
pub type Fingerprint = [u8; 16];

/// The host's settings that decisions depend on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Settings {
    /// How many runs may be RUNNING, PAUSING or STOPPING at once.
    #[n(0)]
    pub max_running_runs: u32,
    /// How many nodes may run at once, over all runs.
    #[n(1)]
    pub max_running_nodes: u32,
    /// How many runs may be QUEUED at once.
    #[n(2)]
    pub max_queued_runs: u32,
    /// The review timeout of supervisors that name none, in milliseconds.
    #[n(3)]
    pub review_timeout_ms: u64,
    /// Whether units without an owner can be commanded by operators.
    #[n(4)]
    pub default_enabled: bool,
    /// How many commands an operator may send in any second.
    #[n(5)]
    pub operator_rate: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_running_runs: 16,
            max_running_nodes: 32,
            max_queued_runs: 10_000,
            review_timeout_ms: 5_000,
            default_enabled: true,
            operator_rate: 200,
        }
    }
}

/// Where a definition came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Source {
    /// A file; the operator API cannot change it (C4).
    #[n(0)]
    File,
    /// The operator API.
    #[n(1)]
    Api,
}

/// What a credential opens.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Access {
    /// The engine of a supervisor.
    #[n(0)]
    Engine(#[n(0)] SupervisorId),
    /// The operators' surface, to read.
    #[n(1)]
    Viewer,
    /// The operators' surface, to do everything.
    #[n(2)]
    Admin,
}

/// A credential, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Credential {
    /// Its id: the part of the token before the dot.
    #[n(0)]
    pub id: String,
    /// The SHA-256 of the secret part.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub digest: [u8; 32],
    /// What it opens.
    #[n(2)]
    pub access: Access,
    /// When it was issued, unix milliseconds.
    #[n(3)]
    pub issued_wall: u64,
}

/// A durable fact.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Record {
    /// The host opened the store.
    #[n(0)]
    Opened {
        /// The boot of the machine, for host time over restarts.
        #[n(0)]
        boot: String,
        /// CLOCK_MONOTONIC milliseconds at host time `time` of this entry.
        #[n(1)]
        monotonic: u64,
        /// The settings from now on.
        #[n(2)]
        settings: Settings,
    },
    /// A supervisor was saved.
    #[n(1)]
    SupervisorSaved {
        /// Its number: dense, in the order of first saves.
        #[n(0)]
        number: u32,
        /// Its definition as JSON.
        #[n(1)]
        json: String,
        /// Where it came from.
        #[n(2)]
        source: Source,
    },
    /// Units went to or from a supervisor.
    #[n(2)]
    Ownership {
        /// Units gained.
        #[n(0)]
        gained: Vec<String>,
        /// Units lost.
        #[n(1)]
        lost: Vec<String>,
    },
    /// A workflow was saved.
    #[n(3)]
    WorkflowSaved {
        /// Its revision: dense from 1.
        #[n(0)]
        revision: u32,
        /// Its definition as JSON.
        #[n(1)]
        json: String,
        /// Where it came from.
        #[n(2)]
        source: Source,
    },
    /// A credential was issued.
    #[n(4)]
    CredentialIssued(#[n(0)] Credential),
    /// A session of an engine was accepted.
    #[n(5)]
    SessionAccepted {
        /// The supervisor's number.
        #[n(0)]
        supervisor: u32,
        /// The session.
        #[n(1)]
        session: SessionId,
    },
    /// An engine acknowledged its stream up to a cursor.
    #[n(6)]
    Acknowledged {
        /// The supervisor's number.
        #[n(0)]
        supervisor: u32,
        /// The cursor's number.
        #[n(1)]
        cursor: u64,
    },
    /// A run was created; it is QUEUED.
    #[n(7)]
    RunCreated {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// Its workflow.
        #[n(1)]
        workflow: WorkflowId,
        /// The revision of the definition that it keeps.
        #[n(2)]
        revision: u32,
        /// Its parameters, defaults filled in.
        #[n(3)]
        params: Vec<(String, String)>,
        /// Its priority.
        #[n(4)]
        priority: i32,
        /// When it ends by timeout.
        #[n(5)]
        deadline: Option<HostTime>,
        /// Who started it.
        #[n(6)]
        by: By,
    },
    /// A run changed its status.
    #[n(8)]
    RunStatus {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// Its workflow.
        #[n(1)]
        workflow: WorkflowId,
        /// The status before.
        #[n(2)]
        from: RunStatus,
        /// The new status.
        #[n(3)]
        to: RunStatus,
        /// Who changed it; absent where it followed from the work.
        #[n(4)]
        by: Option<By>,
    },
    /// A node changed its status.
    #[n(9)]
    NodeStatus {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// Its workflow.
        #[n(1)]
        workflow: WorkflowId,
        /// The node.
        #[n(2)]
        node: NodeId,
        /// The status before.
        #[n(3)]
        from: NodeStatus,
        /// The new status.
        #[n(4)]
        to: NodeStatus,
        /// The node's attempt from now on.
        #[n(5)]
        attempt: u32,
        /// Why, where the status does not say.
        #[n(6)]
        why: Option<Why>,
        /// How the attempt ended.
        #[n(7)]
        end: Option<AttemptEnd>,
        /// READY: not before; RUNNING: the attempt's timeout.
        #[n(8)]
        deadline: Option<HostTime>,
        /// READY after a failure: the delay in milliseconds.
        #[n(9)]
        retry_in: Option<u64>,
        /// Who changed it; absent where it followed from the work.
        #[n(10)]
        by: Option<By>,
    },
    /// A hold was added to a run.
    #[n(10)]
    HoldAdded {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// The hold.
        #[n(1)]
        hold: Hold,
    },
    /// Holds of a run ended.
    #[n(11)]
    HoldsCleared {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// Whose.
        #[n(1)]
        holders: Vec<Holder>,
    },
    /// How a run stops was settled, or made harder.
    #[n(12)]
    StopSet {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// How hard.
        #[n(1)]
        mode: StopMode,
        /// The grace between SIGTERM and SIGKILL, in milliseconds.
        #[n(2)]
        grace: u64,
        /// Drain: when it becomes immediate. Immediate: when what still runs is killed.
        #[n(3)]
        deadline: Option<HostTime>,
    },
    /// A running attempt is told to end.
    #[n(13)]
    AttemptEnding {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// The node.
        #[n(1)]
        node: NodeId,
        /// Why.
        #[n(2)]
        ending: Ending,
        /// When it is killed; absent: it has been.
        #[n(3)]
        kill_at: Option<HostTime>,
    },
    /// A command was applied to a target; carries its place in the run's order (C26).
    #[n(14)]
    ControlOutcome {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// Its workflow.
        #[n(1)]
        workflow: WorkflowId,
        /// The node, for a node-level command.
        #[n(2)]
        node: Option<NodeId>,
        /// The operation.
        #[n(3)]
        op: Op,
        /// What happened.
        #[n(4)]
        outcome: Outcome,
        /// More about it.
        #[n(5)]
        detail: Option<String>,
        /// Its place in the run's order.
        #[n(6)]
        order: u64,
        /// Who gave it.
        #[n(7)]
        by: By,
    },
    /// A directive was answered; the key keeps the answer.
    #[n(15)]
    Directed {
        /// The supervisor's number.
        #[n(0)]
        supervisor: u32,
        /// The key.
        #[n(1)]
        key: String,
        /// What the key stands for.
        #[cbor(n(2), with = "minicbor::bytes")]
        fingerprint: Fingerprint,
        /// The answer.
        #[n(3)]
        answer: Answer,
        /// The cause whose budget it spent.
        #[n(4)]
        cited: Option<Cited>,
        /// It spent initiative budget.
        #[n(5)]
        initiative: bool,
        /// It spent notify budget.
        #[n(6)]
        notify: bool,
    },
    /// An operator's command with a key was answered, or waits for a review.
    #[n(16)]
    Commanded {
        /// Who gave it.
        #[n(0)]
        actor: Actor,
        /// The key.
        #[n(1)]
        key: String,
        /// What the key stands for.
        #[cbor(n(2), with = "minicbor::bytes")]
        fingerprint: Fingerprint,
        /// The answer; absent while it waits.
        #[n(3)]
        answer: Option<Answer>,
        /// The review that it waits for.
        #[n(4)]
        review: Option<ReviewId>,
    },
    /// An engine is asked about an operator's command.
    #[n(17)]
    ReviewOpened {
        /// The review.
        #[n(0)]
        id: ReviewId,
        /// The supervisor's number.
        #[n(1)]
        supervisor: u32,
        /// The command as JSON.
        #[n(2)]
        command: String,
        /// The command's reason.
        #[n(3)]
        reason: Option<String>,
        /// Who gave it.
        #[n(4)]
        actor: Actor,
        /// What the command's key stands for.
        #[cbor(n(5), with = "minicbor::bytes")]
        fingerprint: Fingerprint,
        /// The targets as expanded when it was asked.
        #[n(6)]
        targets: Vec<String>,
        /// When nobody is waited for any longer.
        #[n(7)]
        deadline: HostTime,
        /// The supervisor's newest cursor when it was asked.
        #[n(8)]
        as_of: u64,
    },
    /// A review ended.
    #[n(18)]
    ReviewClosed {
        /// The review.
        #[n(0)]
        id: ReviewId,
        /// How.
        #[n(1)]
        end: ReviewEnd,
    },
    /// A run has taken longer than its workflow's `timeout`; said once.
    #[n(20)]
    RunTimedOut {
        /// The run.
        #[n(0)]
        run: ExecutionId,
    },
    /// A report came for an attempt that is not the current one; it changes nothing.
    #[n(19)]
    StaleReport {
        /// The run.
        #[n(0)]
        run: ExecutionId,
        /// The node.
        #[n(1)]
        node: NodeId,
        /// The attempt.
        #[n(2)]
        attempt: u32,
        /// What it said.
        #[n(3)]
        end: AttemptEnd,
    },
}

impl Record {
    /// Returns the kind of event that the record is to supervisors, if it is one.
    #[must_use]
    pub fn kind(&self) -> Option<EventKind> {
        match self {
            Self::RunCreated { .. } | Self::RunStatus { .. } => Some(EventKind::WorkflowStatus),
            Self::NodeStatus { .. } => Some(EventKind::NodeStatus),
            Self::ControlOutcome { .. } => Some(EventKind::ControlOutcome),
            Self::Ownership { .. } => Some(EventKind::Ownership),
            Self::Opened { .. }
            | Self::SupervisorSaved { .. }
            | Self::WorkflowSaved { .. }
            | Self::CredentialIssued(_)
            | Self::SessionAccepted { .. }
            | Self::Acknowledged { .. }
            | Self::HoldAdded { .. }
            | Self::HoldsCleared { .. }
            | Self::StopSet { .. }
            | Self::AttemptEnding { .. }
            | Self::Directed { .. }
            | Self::Commanded { .. }
            | Self::ReviewOpened { .. }
            | Self::ReviewClosed { .. }
            | Self::RunTimedOut { .. }
            | Self::StaleReport { .. } => None,
        }
    }
}
