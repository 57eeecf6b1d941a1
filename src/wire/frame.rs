//! The messages of an engine's stream, as the session sees them.

use super::directive::{self, Label};
use super::hello::{BadHello, Hello};
use super::proto::v1 as pb;
use super::{Malformed, given};
use crate::contract::directive::Directive;
use crate::contract::id::Cursor;

/// The longest text of a fault that is kept, in characters.
const FAULT_MOST: usize = 4_096;

/// One message from an engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Opens the session.
    Hello(Result<Box<Hello>, BadHello>),
    /// Asks for an effect or answers a question.
    Directive(Label, Result<Box<Directive>, Malformed>),
    /// Says what was handled.
    Ack(Result<Option<Cursor>, Malformed>),
    /// Says that the engine could not handle a signal.
    Fault {
        /// The signal.
        signal: Option<String>,
        /// What went wrong.
        message: String,
    },
    /// Says that the engine is alive.
    Alive,
    /// A body that this version of the host does not know, or none.
    Unknown,
}

impl From<pb::ConnectRequest> for Frame {
    fn from(raw: pb::ConnectRequest) -> Self {
        use pb::connect_request::Body;
        let pb::ConnectRequest { body } = raw;
        match body {
            None => Self::Unknown,
            Some(Body::Hello(hello)) => Self::Hello(Hello::try_from(hello).map(Box::new)),
            Some(Body::Directive(directive)) => {
                let (label, directive) = directive::receive(directive);
                Self::Directive(label, directive.map(Box::new))
            }
            Some(Body::Ack(pb::Ack {
                cursor,
                // No signal of this version comes again until it is acknowledged by id (C17), and unknown ids are
                // ignored.
                signal_ids: _,
            })) => Self::Ack(read_cursor(cursor)),
            Some(Body::Fault(pb::Fault { signal_id, message })) => Self::Fault {
                signal: given(signal_id),
                message: message.chars().take(FAULT_MOST).collect(),
            },
            Some(Body::Alive(pb::Alive {})) => Self::Alive,
        }
    }
}

fn read_cursor(text: String) -> Result<Option<Cursor>, Malformed> {
    given(text)
        .map(|cursor| {
            cursor
                .parse()
                .map_err(|e| Malformed::new("ack.cursor", format!("{e}")))
        })
        .transpose()
}
