//! What somebody outside sees of a step: answers, signals and effects on processes. The reference and the
//! real core are compared by nothing else.
//!
//! What goes to different places has no order between them; [`Seen::place`] says where something goes,
//! and [`by_place`] sorts a step's sights by it, so that only the order within one place counts.

use std::collections::BTreeMap;
use std::fmt;

use signalbox::contract::code::Code;
use signalbox::contract::directive::Actor;
use signalbox::contract::id::{NodeId, SupervisorId};
use signalbox::contract::outcome::{Answer, Outcome, ResultStatus, TargetResult};
use signalbox::contract::signal::{Event, EventKind};

/// What came of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSeen {
    /// The target, expanded.
    pub target: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The outcome's detail.
    pub detail: Option<String>,
    /// The place in its run's order, where applied.
    pub order: Option<u64>,
}

/// An answer without its message, which is prose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub status: ResultStatus,
    /// The refusal's code.
    pub code: Option<Code>,
    /// The name of the check that refused; saves have none.
    pub check: Option<String>,
    /// The targets' outcomes, in the order applied.
    pub targets: Vec<TargetSeen>,
    /// How many targets matched, when more than 200.
    pub matched: Option<u64>,
    /// Whether the answer is a repeat.
    pub replayed: bool,
}

impl Reply {
    /// Makes the answer of something that was done.
    #[must_use]
    pub fn done(targets: Vec<TargetSeen>) -> Self {
        Self {
            status: ResultStatus::Done,
            code: None,
            check: None,
            targets,
            matched: None,
            replayed: false,
        }
    }

    /// Makes a refusal.
    #[must_use]
    pub fn refused(code: Code, check: &str) -> Self {
        Self {
            status: ResultStatus::Refused,
            code: Some(code),
            check: Some(check.to_owned()),
            targets: Vec::new(),
            matched: None,
            replayed: false,
        }
    }
}

impl From<&TargetResult> for TargetSeen {
    fn from(t: &TargetResult) -> Self {
        Self {
            target: t.target.clone(),
            outcome: t.outcome,
            detail: t.detail.clone(),
            order: t.order,
        }
    }
}

impl From<&Answer> for Reply {
    fn from(a: &Answer) -> Self {
        Self {
            status: a.status,
            code: a.code,
            check: a.check.clone(),
            targets: a.targets.iter().map(TargetSeen::from).collect(),
            matched: a.matched,
            replayed: a.replayed,
        }
    }
}

/// One thing that somebody outside sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// An answer to the step with this index (from 0) in the sequence; a reviewed command's comes later.
    Answer {
        /// The index of the step that asked.
        to: usize,
        /// The answer.
        reply: Reply,
    },
    /// `Started`, the first signal of a session.
    SessionStarted {
        /// Whose engine.
        supervisor: SupervisorId,
        /// The session's number.
        session: u64,
        /// `first` or `resubscribe`.
        reason: String,
        /// The number of the event after which events follow.
        after: u64,
        /// The numbers of the reviews that wait for the engine, the oldest first.
        open_reviews: Vec<u64>,
    },
    /// A session is told to go.
    Goaway {
        /// The session's number.
        session: u64,
        /// Why.
        reason: String,
    },
    /// An event took a place in a supervisor's stream.
    Event {
        /// Whose stream.
        supervisor: SupervisorId,
        /// Its number.
        cursor: u64,
        /// Its kind.
        kind: EventKind,
        /// Its fields by their JSON names; lists are sorted and joined by commas.
        fields: BTreeMap<String, String>,
    },
    /// An engine is asked about a command, when the review opens. (What is still open when a session starts is
    /// in `SessionStarted`.)
    Review {
        /// The session that is asked.
        session: u64,
        /// The review's number.
        id: u64,
        /// Milliseconds to answer.
        timeout_ms: u64,
        /// The operation.
        op: String,
        /// The target as given.
        target: String,
        /// The arguments as JSON.
        args: String,
        /// The guard.
        if_status: Option<String>,
        /// The reason given.
        reason: Option<String>,
        /// Who asks.
        actor: Actor,
    },
    /// Time is told.
    Tick {
        /// To this session.
        session: u64,
        /// When it was due, host milliseconds.
        scheduled: u64,
        /// How many before it were not sent.
        missed: u64,
    },
    /// The runtime shall start an attempt.
    Start {
        /// The run's number.
        execution: u64,
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
    },
    /// The runtime shall end an attempt.
    Stop {
        /// The run's number.
        execution: u64,
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// SIGKILL instead of SIGTERM.
        kill: bool,
    },
}

impl Seen {
    /// Names the place that it goes to. The order of what goes to one place counts.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Answer { to, .. } => format!("answer to {to:05}"),
            Self::Event { supervisor, .. } => format!("events of {supervisor}"),
            Self::SessionStarted { session, .. }
            | Self::Goaway { session, .. }
            | Self::Review { session, .. }
            | Self::Tick { session, .. } => format!("session {session:05}"),
            Self::Start { .. } | Self::Stop { .. } => "processes".to_owned(),
        }
    }
}

/// Sorts sights by the place they go to; keeps the order within one place.
#[must_use]
pub fn by_place(mut seen: Vec<Seen>) -> Vec<Seen> {
    seen.sort_by_key(Seen::place);
    seen
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place())?;
        match self {
            Self::Answer { reply, .. } => {
                write!(f, "{}", reply.status.as_str())?;
                if let Some(code) = reply.code {
                    write!(f, " {code} by {}", reply.check.as_deref().unwrap_or("-"))?;
                }
                for t in &reply.targets {
                    write!(f, " [{} {}", t.target, t.outcome.as_str())?;
                    if let Some(detail) = &t.detail {
                        write!(f, " ({detail})")?;
                    }
                    if let Some(order) = t.order {
                        write!(f, " #{order}")?;
                    }
                    f.write_str("]")?;
                }
                if let Some(matched) = reply.matched {
                    write!(f, " of {matched}")?;
                }
                if reply.replayed {
                    f.write_str(" replayed")
                } else {
                    Ok(())
                }
            }
            Self::Event {
                cursor,
                kind,
                fields,
                ..
            } => {
                write!(f, "{cursor} {}", kind.as_str())?;
                fields.iter().try_for_each(|(k, v)| write!(f, " {k}={v}"))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Gives an event's fields as the reference writes them: by JSON name, without `kind`, lists sorted and
/// joined by commas.
#[must_use]
pub fn fields_of(event: &Event) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let serde_json::Value::Object(map) = serde_json::to_value(event).unwrap_or_default() else {
        return out;
    };
    for (name, value) in map {
        let text = match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Array(items) => {
                let mut items: Vec<String> = items
                    .iter()
                    .map(|i| i.as_str().map_or_else(|| i.to_string(), str::to_owned))
                    .collect();
                items.sort();
                items.join(",")
            }
            other => other.to_string(),
        };
        if name != "kind" {
            out.insert(name, text);
        }
    }
    out
}
