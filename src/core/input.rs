//! Inputs: everything that the core can be told.

use crate::contract::definition::{SupervisorDef, WorkflowDef};
use crate::contract::directive::{Actor, Command, Directive};
use crate::contract::id::{ExecutionId, NodeId, SessionId, SupervisorId};
use crate::contract::time::HostTime;

use super::record::{AttemptEnd, Credential, Settings, Source};

/// When an input arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Host time; never before the input before it.
    pub now: HostTime,
    /// Wall time, unix milliseconds; for display only.
    pub wall: u64,
}

/// Names one caller who waits for a reply; made by the host, echoed by the core, meaning nothing to it.
pub type Token = u64;

impl Input {
    /// Sets the caller who waits for the reply, where the input has one.
    #[must_use]
    pub fn answering(mut self, token: Token) -> Self {
        match &mut self {
            Self::SaveSupervisor { reply, .. }
            | Self::SaveWorkflow { reply, .. }
            | Self::IssueCredential { reply, .. }
            | Self::Hello { reply, .. }
            | Self::Directive { reply, .. }
            | Self::Command { reply, .. } => *reply = token,
            Self::Opened { .. }
            | Self::Time
            | Self::Disconnected { .. }
            | Self::Acknowledge { .. }
            | Self::Fault { .. }
            | Self::Ended { .. } => {}
        }
        self
    }
}

/// Something that the core is told.
#[derive(Debug, Clone)]
pub enum Input {
    /// The host has opened its store. Always the first input, and after every restart.
    Opened {
        /// The boot of the machine.
        boot: String,
        /// CLOCK_MONOTONIC milliseconds at the stamp's host time.
        monotonic: u64,
        /// The settings from now on.
        settings: Settings,
    },
    /// Time has passed: what is due is decided. Every other input does that first as well.
    Time,
    /// Somebody saves a supervisor.
    SaveSupervisor {
        /// Who waits.
        reply: Token,
        /// The definition.
        def: Box<SupervisorDef>,
        /// Where it comes from.
        source: Source,
        /// Who saves it.
        actor: Actor,
    },
    /// Somebody saves a workflow.
    SaveWorkflow {
        /// Who waits.
        reply: Token,
        /// The definition.
        def: Box<WorkflowDef>,
        /// Where it comes from.
        source: Source,
        /// Who saves it.
        actor: Actor,
    },
    /// A credential was made for somebody.
    IssueCredential {
        /// Who waits.
        reply: Token,
        /// The credential, without its secret.
        credential: Box<Credential>,
        /// It takes the place of one with the same id, whose token ends with it.
        replace: bool,
        /// Who issues it.
        actor: Actor,
    },
    /// An authenticated engine says hello.
    Hello {
        /// Who waits.
        reply: Token,
        /// Its supervisor.
        supervisor: SupervisorId,
        /// The tick period that it asks for, in milliseconds, where the definition has none.
        tick_period: Option<u64>,
        /// Whether it takes `Review`s.
        reviews: bool,
    },
    /// A session's stream ended.
    Disconnected {
        /// Its supervisor.
        supervisor: SupervisorId,
        /// The session.
        session: SessionId,
    },
    /// An engine directs.
    Directive {
        /// Who waits.
        reply: Token,
        /// The engine's supervisor, by its credential.
        supervisor: SupervisorId,
        /// The session that it came by or names; absent for a unary call that names none.
        session: Option<SessionId>,
        /// What it directs.
        directive: Box<Directive>,
        /// When the event that its cause names was last delivered, as far as the session knows.
        delivered: Option<HostTime>,
    },
    /// An engine acknowledges its stream.
    Acknowledge {
        /// Its supervisor.
        supervisor: SupervisorId,
        /// The number of the cursor.
        cursor: u64,
    },
    /// An engine reports that it cannot handle a signal.
    Fault {
        /// Its supervisor.
        supervisor: SupervisorId,
        /// The signal's id, as sent.
        signal: String,
    },
    /// An operator commands.
    Command {
        /// Who waits.
        reply: Token,
        /// Who commands.
        actor: Actor,
        /// The command.
        command: Box<Command>,
        /// Why.
        reason: Option<String>,
        /// The idempotency key, scoped to the actor.
        key: Option<String>,
    },
    /// The runtime reports how an attempt ended.
    Ended {
        /// The run.
        run: ExecutionId,
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
    },
}
