//! What comes of an input beside records: replies, messages to sessions, effects on the runtime.
//! All of it leaves the host only after the records are durable.

use std::collections::BTreeMap;

use crate::contract::code::Code;
use crate::contract::definition::Problem;
use crate::contract::directive::{Actor, Command};
use crate::contract::id::{ExecutionId, NodeId, ReviewId, SessionId};
use crate::contract::outcome::Answer;
use crate::contract::signal::StartReason;
use crate::contract::time::HostTime;

use super::audit::AuditEntry;
use super::input::Token;
use super::record::Entry;

/// Everything that one input led to.
#[derive(Debug, Default)]
pub struct Decision {
    /// The new facts, in order, already applied.
    pub entries: Vec<Entry>,
    /// The new audit rows, in order.
    pub audit: Vec<AuditEntry>,
    /// What leaves once the facts are durable, in order.
    pub outputs: Vec<Output>,
}

/// Something that leaves the core.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// An answer to a caller.
    Reply {
        /// The caller.
        to: Token,
        /// The answer.
        reply: Reply,
    },
    /// A message on an engine's stream.
    Session {
        /// The session.
        to: SessionId,
        /// The message.
        message: SessionMessage,
    },
    /// Something for the runtime to do.
    Effect(Effect),
}

/// An answer to a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To a directive or a command.
    Answer(Box<Answer>),
    /// To a save or an issue of a credential that was accepted.
    Saved(Saved),
    /// To a hello that was accepted.
    Started(Box<SessionStart>),
    /// To anything else that was refused.
    Refused(Box<Refusal>),
}

/// What a save did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Whether anything changed; the same definition again changes nothing.
    pub changed: bool,
    /// Things that are allowed and probably not meant (C4).
    pub warnings: Vec<Problem>,
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// The name of the check.
    pub check: &'static str,
    /// What was wrong and what to change.
    pub message: String,
    /// For definitions: every bad field.
    pub problems: Vec<Problem>,
}

impl Refusal {
    /// Makes a refusal without field problems.
    pub fn new(code: Code, check: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            check,
            message: message.into(),
            problems: Vec::new(),
        }
    }
}

/// How a session begins. Its snapshot is the view of the state right after this decision.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStart {
    /// The session.
    pub session: SessionId,
    /// The supervisor's number, for reading its stream.
    pub supervisor: u32,
    /// Why it begins.
    pub reason: StartReason,
    /// The supervisor's newest cursor.
    pub as_of: u64,
    /// The newest cursor that was acknowledged; absent: none ever was.
    pub acknowledged: Option<u64>,
    /// The session that it replaces.
    pub replaces: Option<SessionId>,
    /// Reviews that wait for this engine, the oldest first.
    pub reviews: Vec<ReviewQuestion>,
}

/// A review as a session sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewQuestion {
    /// The review.
    pub id: ReviewId,
    /// The command, as sent.
    pub command: Command,
    /// The command's reason.
    pub reason: Option<String>,
    /// Who commands.
    pub actor: Actor,
    /// When it ends by itself.
    pub deadline: HostTime,
    /// The supervisor's newest cursor when it was asked.
    pub as_of: u64,
}

/// A message on an engine's stream that is not an event.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionMessage {
    /// A question.
    Review(ReviewQuestion),
    /// Time has passed.
    Tick {
        /// When it was due.
        scheduled: HostTime,
        /// When it was sent.
        now: HostTime,
        /// How many before it were not sent.
        missed: u64,
    },
    /// A newer session has taken this one's place.
    Replaced,
}

/// Something for the runtime to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Begin an attempt.
    Start(Box<StartEffect>),
    /// Signal an attempt.
    Stop {
        /// The run.
        run: ExecutionId,
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// SIGKILL instead of SIGTERM.
        kill: bool,
    },
}

/// An attempt to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartEffect {
    /// The run.
    pub run: ExecutionId,
    /// The node.
    pub node: NodeId,
    /// The attempt.
    pub attempt: u32,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The parameters and the node's own environment.
    pub env: BTreeMap<String, String>,
    /// The working directory, where the node names one.
    pub cwd: Option<String>,
}
