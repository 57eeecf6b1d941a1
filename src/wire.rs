//! Translates between the bytes of the engine contract and the host's own vocabulary, and knows the one
//! mapping from codes to gRPC statuses.
//!
//! Invariants:
//! - Every field of an incoming message is taken apart by name, so a new field of `proto/` breaks the build
//!   until somebody decides what it means.
//! - A missing oneof or an unspecified enum is an error that names the field, never a default.
//! - A field of a directive that the host does not know is refused by name (see [`codec`]): an ignored guard
//!   would be dangerous.
//!
//! Absent on purpose: any rule that needs a state. Whether a directive may have effect is the core's.

pub mod codec;
pub mod directive;
pub mod frame;
pub mod hello;
pub mod proto;
pub mod signal;
pub mod status;
mod strict;
#[cfg(test)]
mod tests;
pub mod value;

/// Says which field of a message is wrong and what to send instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Malformed {
    /// The path of the field, as `proto/` names it.
    pub field: String,
    /// What is wrong and what to send instead.
    pub message: String,
}

impl Malformed {
    /// Makes it from a path and a message.
    #[must_use]
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// An empty string of the wire means that nothing was given.
fn given(text: String) -> Option<String> {
    Some(text).filter(|t| !t.is_empty())
}
