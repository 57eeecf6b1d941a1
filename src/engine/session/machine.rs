//! The life of a session as a pure machine: frames, ticks of a second and words of the host come in, effects go out.
//! No socket, no clock, no waiting; the task in [`super::task`] does what it says.
//!
//! ```text
//!              AwaitHello           Active                 Draining              Closed
//! Hello        open → Active        violation → Closed     –                     –
//! BadHello     violation → Closed   violation → Closed     –                     –
//! Directive    violation → Closed   direct, or answer      –                     –
//!                                   where malformed
//! Ack          violation → Closed   acknowledge            acknowledge           –
//! BadAck       violation → Closed   violation → Closed     –                     –
//! Fault        violation → Closed   report → Draining      –                     –
//! Alive        violation → Closed   –                      –                     –
//! Unknown      violation → Closed   violation → Closed     –                     –
//! HalfClosed   end → Closed         –                      –                     –
//! Broken       failure → Closed     failure → Closed       failure → Closed      –
//! Gone         end → Closed         end → Closed           end → Closed          –
//! Refused      –                    end → Closed           –                     –
//! Replaced     –                    goaway → Closed        goaway → Closed       –
//! Stopping     end → Closed         → Draining             –                     –
//! HostGone     end → Closed         goaway → Closed        goaway → Closed       –
//! Damaged      –                    end → Closed           end → Closed          –
//! Drained      –                    –                      goaway or end → Closed –
//! Second       10 s: violation      10 s idle: progress    10 s: as Drained      –
//!                                   30 s silent: failure
//! ```
//!
//! A violation is a failure too (C42). `–` is nothing. In Draining nothing is read any more, except what was read
//! before; what was directed is answered first (C12).

use std::time::Duration;

use crate::contract::code::Code;
use crate::contract::directive::Directive;
use crate::contract::id::Cursor;
use crate::contract::outcome::Answer;
use crate::core::effect::Refusal;
use crate::wire::directive::{self, Label};
use crate::wire::frame::Frame;
use crate::wire::hello::{BadHello, Hello};
use crate::wire::{Malformed, status};

#[cfg(test)]
mod tests;

/// The settings of a session's life, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the first message may take (C9).
    pub hello: u32,
    /// After how long a silence of the host it says how far it is (C13).
    pub idle: u32,
    /// After how long a silence an engine that promised a heartbeat counts as gone (C13).
    pub silence: u32,
    /// How long answering what was directed may take when the session ends (C12).
    pub drain: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: 10,
            idle: 10,
            silence: 30,
            drain: 10,
        }
    }
}

/// What comes in.
#[derive(Debug)]
pub(super) enum Input {
    /// A message from the engine.
    Frame(Frame),
    /// The engine sends nothing more, and still listens.
    HalfClosed,
    /// The stream broke, or its bytes are no messages.
    Broken {
        /// What happened.
        what: String,
        /// Whether the engine is to blame for what it sent.
        violation: bool,
    },
    /// Nobody listens any more.
    Gone,
    /// The host does not accept the session.
    Refused(Refusal),
    /// A newer session has taken this one's place.
    Replaced,
    /// The listener stops; the host still answers.
    Stopping,
    /// The host has stopped, or failed: no answer will come any more.
    HostGone,
    /// The stream's events cannot be read.
    Damaged(String),
    /// Everything that was directed is answered, and the answers are on their way.
    Drained,
    /// A second has passed.
    Second,
}

/// What goes out.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// Ask the host for a session.
    Open(Box<Hello>),
    /// Pass a directive on.
    Direct(Label, Box<Directive>),
    /// Answer a directive here.
    Answer(Label, Answer),
    /// Move the stored position.
    Acknowledge(Cursor),
    /// Tell the host that a signal could not be handled.
    Report(String),
    /// Say how far the stream is.
    Progress,
    /// End the stream.
    End(Box<End>),
}

/// How a session ends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct End {
    /// The last message.
    pub goaway: Option<Goaway>,
    /// The error that the engine gets; none for an end in order.
    pub error: Option<(Code, String)>,
    /// The field that is wrong, if it is one.
    pub malformed: Option<Malformed>,
    /// What failed, where the end counts as a failure of the engine (C42).
    pub failure: Option<String>,
}

/// Why the host ends a session in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goaway {
    Replaced,
    ShuttingDown,
}

impl Goaway {
    /// Returns the reason, what to do about it, and how long to wait.
    pub fn say(self) -> (&'static str, &'static str, Duration) {
        match self {
            Self::Replaced => (
                "REPLACED",
                "a newer session of this supervisor has taken over; run one engine, or let this one rest",
                Duration::ZERO,
            ),
            Self::ShuttingDown => (
                "SHUTTING_DOWN",
                "the host stops; come back when it is up again",
                Duration::from_secs(1),
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitHello,
    Active { heartbeat: bool },
    Draining { why: Why },
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Stopping,
    Fault,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Session {
    state: State,
    limits: Limits,
    /// Seconds in this state.
    age: u32,
    /// Seconds since the host said something.
    idle: u32,
    /// Seconds since the engine said something.
    silent: u32,
    fault: String,
}

impl Session {
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::AwaitHello,
            limits,
            age: 0,
            idle: 0,
            silent: 0,
            fault: String::new(),
        }
    }

    /// Takes note that the host said something.
    pub fn said(&mut self) {
        self.idle = 0;
    }

    /// Says whether messages of the engine are still read.
    pub fn reads(&self) -> bool {
        matches!(self.state, State::AwaitHello | State::Active { .. })
    }

    /// Says whether the session only waits for its answers.
    pub fn drains(&self) -> bool {
        matches!(self.state, State::Draining { .. })
    }

    /// Takes an input and returns what is to be done, in order.
    pub fn on(&mut self, input: Input) -> Vec<Effect> {
        if matches!(input, Input::Frame(_)) {
            self.silent = 0;
        }
        match (self.state, input) {
            (State::AwaitHello, Input::Frame(Frame::Hello(Ok(hello)))) => {
                self.enter(State::Active {
                    heartbeat: hello.heartbeat,
                });
                vec![Effect::Open(hello)]
            }
            (State::AwaitHello, Input::Frame(Frame::Hello(Err(bad))))
            | (State::Active { .. }, Input::Frame(Frame::Hello(Err(bad)))) => {
                self.end(bad_hello(bad))
            }
            (
                State::AwaitHello,
                Input::Frame(
                    Frame::Directive(..)
                    | Frame::Ack(_)
                    | Frame::Fault { .. }
                    | Frame::Alive
                    | Frame::Unknown,
                ),
            ) => self.violation("body", "the first message must be a hello; send it first"),
            (State::AwaitHello, Input::HalfClosed) => self.end(End {
                error: Some((
                    Code::InvalidArgument,
                    "the stream was closed before its hello".into(),
                )),
                ..End::default()
            }),
            (State::AwaitHello, Input::Stopping | Input::HostGone) => self.end(End {
                error: Some((
                    Code::Unavailable,
                    "the host stops; come back when it is up again".into(),
                )),
                ..End::default()
            }),
            (State::AwaitHello, Input::Second) => self.second_of_waiting(),

            (State::Active { .. }, Input::Frame(Frame::Hello(Ok(_)))) => self.violation(
                "body",
                "a session has one hello; open another stream for another session",
            ),
            (State::Active { .. }, Input::Frame(Frame::Directive(label, Ok(directive)))) => {
                vec![Effect::Direct(label, directive)]
            }
            (State::Active { .. }, Input::Frame(Frame::Directive(label, Err(malformed)))) => {
                vec![Effect::Answer(label, directive::refusal(&malformed))]
            }
            (
                State::Active { .. } | State::Draining { .. },
                Input::Frame(Frame::Ack(Ok(cursor))),
            ) => cursor.map(Effect::Acknowledge).into_iter().collect(),
            (State::Active { .. }, Input::Frame(Frame::Ack(Err(malformed)))) => {
                self.end(malformed_end(malformed))
            }
            (State::Active { .. }, Input::Frame(Frame::Fault { signal, message })) => {
                self.fault = format!("fault: {message}");
                self.enter(State::Draining { why: Why::Fault });
                signal.map(Effect::Report).into_iter().collect()
            }
            (State::Active { .. }, Input::Frame(Frame::Alive)) => Vec::new(),
            (State::Active { .. }, Input::Frame(Frame::Unknown)) => self.violation(
                "body",
                "missing, or of a kind that this version of the host does not know",
            ),
            (State::Active { .. }, Input::HalfClosed) => Vec::new(),
            (State::Active { .. }, Input::Refused(refusal)) => self.end(End {
                error: Some((refusal.code, refusal.message)),
                ..End::default()
            }),
            (State::Active { .. }, Input::Stopping) => {
                self.enter(State::Draining { why: Why::Stopping });
                Vec::new()
            }
            (State::Active { heartbeat }, Input::Second) => self.second_of_life(heartbeat),
            (State::Active { .. } | State::Draining { .. }, Input::Replaced) => {
                self.end(away(Goaway::Replaced))
            }
            (State::Active { .. } | State::Draining { .. }, Input::HostGone) => {
                self.end(away(Goaway::ShuttingDown))
            }
            (State::Active { .. } | State::Draining { .. }, Input::Damaged(what)) => {
                self.end(End {
                    error: Some((Code::Internal, what)),
                    ..End::default()
                })
            }

            (State::Draining { why }, Input::Drained) => self.drained(why),
            (State::Draining { why }, Input::Second) => {
                self.age += 1;
                if self.age >= self.limits.drain {
                    self.drained(why)
                } else {
                    Vec::new()
                }
            }

            (
                State::AwaitHello | State::Active { .. } | State::Draining { .. },
                Input::Broken { what, violation },
            ) => {
                let code = if violation {
                    Code::InvalidArgument
                } else {
                    Code::Unavailable
                };
                self.end(End {
                    error: Some((code, what.clone())),
                    failure: Some(what),
                    ..End::default()
                })
            }
            (State::AwaitHello | State::Active { .. } | State::Draining { .. }, Input::Gone) => {
                // A fault was told before the engine went away.
                let failure = Some(std::mem::take(&mut self.fault)).filter(|f| !f.is_empty());
                self.end(End {
                    failure,
                    ..End::default()
                })
            }

            (
                State::AwaitHello,
                Input::Refused(_) | Input::Replaced | Input::Damaged(_) | Input::Drained,
            )
            | (State::Active { .. }, Input::Drained)
            | (
                State::Draining { .. },
                Input::Frame(
                    Frame::Hello(_)
                    | Frame::Directive(..)
                    | Frame::Ack(Err(_))
                    | Frame::Fault { .. }
                    | Frame::Alive
                    | Frame::Unknown,
                )
                | Input::HalfClosed
                | Input::Refused(_)
                | Input::Stopping,
            )
            | (
                State::Closed,
                Input::Frame(_)
                | Input::HalfClosed
                | Input::Broken { .. }
                | Input::Gone
                | Input::Refused(_)
                | Input::Replaced
                | Input::Stopping
                | Input::HostGone
                | Input::Damaged(_)
                | Input::Drained
                | Input::Second,
            ) => Vec::new(),
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.age = 0;
        self.idle = 0;
        self.silent = 0;
    }

    fn end(&mut self, end: End) -> Vec<Effect> {
        self.enter(State::Closed);
        vec![Effect::End(Box::new(end))]
    }

    fn violation(&mut self, field: &str, message: &str) -> Vec<Effect> {
        self.end(malformed_end(Malformed::new(field, message)))
    }

    fn second_of_waiting(&mut self) -> Vec<Effect> {
        self.age += 1;
        if self.age < self.limits.hello {
            return Vec::new();
        }
        let what = format!(
            "no hello came within {} s; send it at once",
            self.limits.hello
        );
        self.end(End {
            error: Some((Code::DeadlineExceeded, what.clone())),
            failure: Some(what),
            ..End::default()
        })
    }

    fn second_of_life(&mut self, heartbeat: bool) -> Vec<Effect> {
        self.idle += 1;
        self.silent += 1;
        if heartbeat && self.silent >= self.limits.silence {
            let what = format!(
                "nothing came for {} s from an engine that promised a heartbeat; send `alive` every 10 s",
                self.limits.silence
            );
            return self.end(End {
                error: Some((Code::DeadlineExceeded, what.clone())),
                failure: Some(what),
                ..End::default()
            });
        }
        if self.idle >= self.limits.idle {
            self.idle = 0;
            return vec![Effect::Progress];
        }
        Vec::new()
    }

    fn drained(&mut self, why: Why) -> Vec<Effect> {
        match why {
            Why::Stopping => self.end(away(Goaway::ShuttingDown)),
            Why::Fault => {
                let failure = std::mem::take(&mut self.fault);
                self.end(End {
                    error: Some((
                        Code::Unavailable,
                        "the engine reported a fault; connect again after the time given".into(),
                    )),
                    failure: Some(failure),
                    ..End::default()
                })
            }
        }
    }
}

fn away(goaway: Goaway) -> End {
    End {
        goaway: Some(goaway),
        ..End::default()
    }
}

fn malformed_end(malformed: Malformed) -> End {
    End {
        error: Some((Code::InvalidArgument, malformed.to_string())),
        failure: Some(malformed.to_string()),
        malformed: Some(malformed),
        goaway: None,
    }
}

fn bad_hello(bad: BadHello) -> End {
    match bad {
        BadHello::Malformed(malformed) => malformed_end(malformed),
        BadHello::Version(_) => End {
            error: Some((Code::VersionNotServed, bad.to_string())),
            failure: Some(bad.to_string()),
            ..End::default()
        },
    }
}

impl End {
    /// Makes the status that the engine gets; `wait` is how long it should stay away.
    pub fn status(&self, wait: Option<Duration>) -> Option<tonic::Status> {
        if let Some(malformed) = &self.malformed {
            return Some(status::malformed(malformed));
        }
        let (code, message) = self.error.as_ref()?;
        Some(match wait {
            Some(wait) if code.is_transient() => status::retry_after(*code, message, wait),
            _ => status::refused(*code, message),
        })
    }
}
