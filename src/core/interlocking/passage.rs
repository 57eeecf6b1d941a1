//! A directive on its way through the checks, and what the checks have made of it so far.

use crate::contract::code::Code;
use crate::contract::directive::Directive;
use crate::contract::id::{ReviewId, SessionId};
use crate::contract::outcome::Answer;
use crate::contract::target::Target;
use crate::contract::time::HostTime;
use crate::core::effect::Refusal;
use crate::core::record::{By, Channel, Cited, Fingerprint, Holder};
use crate::core::runs::act::{Act, Caller};
use crate::core::state::State;
use crate::core::state::supervisor::Supervisor;

/// A directive that is being checked.
pub(in crate::core) struct Passage<'a> {
    pub state: &'a State,
    pub supervisor: &'a Supervisor,
    pub session: Option<SessionId>,
    pub directive: &'a Directive,
    /// When the cited event was last delivered, as far as the session knows.
    pub delivered: Option<HostTime>,
    pub now: HostTime,
    /// Whether the sender is over its rate.
    pub floods: bool,
    /// Set by the shape check.
    pub request: Option<Request>,
    /// Set by the shape check: the key, given or implied.
    pub key: Option<String>,
    /// Set by the shape check: the cause, given or implied.
    pub cause: Option<String>,
    /// Set by the key check.
    pub fingerprint: Fingerprint,
    /// Set by the cause check: the cause whose budget is spent.
    pub cited: Option<Cited>,
    /// Set by the cause check: it comes by a tick or at own initiative.
    pub initiative: bool,
}

/// What a directive asks for, once its form is checked.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::core) enum Request {
    Command(Call),
    Verdict {
        answers: String,
        allow: bool,
    },
    Notify {
        level: String,
        message: String,
        data: Option<String>,
    },
    NoOpinion {
        answers: Option<String>,
    },
}

/// A command, once its form is checked.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::core) struct Call {
    pub act: Act,
    pub target: Target,
    pub if_status: Option<String>,
}

/// Why a directive goes no further.
#[derive(Debug)]
pub(in crate::core) enum Stop {
    /// A check says no.
    Refused(Refusal),
    /// It was answered before.
    Replayed(Box<Answer>),
}

impl Stop {
    /// Makes a refusal.
    pub fn refused(code: Code, check: &'static str, message: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(code, check, message))
    }
}

impl Passage<'_> {
    /// Returns who commands, for records and holds.
    pub fn caller(&self) -> Caller {
        let id = &self.supervisor.def.id;
        Caller {
            by: By {
                channel: Channel::Engine,
                actor: format!("supervisor:{id}"),
                cause: self.cause.clone(),
                reason: self.directive.reason.clone(),
            },
            holder: Holder::Supervisor(id.clone()),
        }
    }

    /// Returns the review that the request answers, where its id has the form of one.
    pub fn answered(&self) -> Option<ReviewId> {
        match &self.request {
            Some(
                Request::Verdict { answers, .. }
                | Request::NoOpinion {
                    answers: Some(answers),
                },
            ) => answers.parse().ok(),
            _ => None,
        }
    }
}
