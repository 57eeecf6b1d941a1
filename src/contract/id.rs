//! Ids. Names that people choose are checked (C2); numbers that the host makes are counters.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Says that a text is not an id of the named kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {kind}; {hint}")]
pub struct BadId {
    /// What was looked for, with its article.
    pub kind: &'static str,
    /// The text as given, shortened to 80 characters.
    pub text: String,
    /// How such an id is written.
    pub hint: &'static str,
}

impl BadId {
    fn new(kind: &'static str, text: &str, hint: &'static str) -> Self {
        Self {
            kind,
            text: text.chars().take(80).collect(),
            hint,
        }
    }
}

const NAME_HINT: &str = "use 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit";

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=64).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                if is_name(text) { Ok(Self(text.into())) } else { Err(BadId::new($kind, text, NAME_HINT)) }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl<C> minicbor::Encode<C> for $type {
            fn encode<W: minicbor::encode::Write>(
                &self,
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.str(&self.0)?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $type {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                Ok(Self(d.str()?.into()))
            }
        }
    };
}

name!(
    /// Names a supervisor.
    SupervisorId, "a supervisor id"
);
name!(
    /// Names a workflow.
    WorkflowId, "a workflow id"
);
name!(
    /// Names a node of a workflow; may be a dotted path such as `build.compile`.
    NodeId, "a node id"
);
name!(
    /// Names a group of nodes of a workflow.
    GroupId, "a group id"
);

macro_rules! number {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $kind:literal, $hint:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
        #[cbor(transparent)]
        pub struct $type(#[n(0)] pub u64);

        impl FromStr for $type {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                // Only the printed form counts: no sign, no leading zero, so that equal ids are equal texts.
                text.strip_prefix($prefix)
                    .filter(|n| !n.starts_with('0') && n.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|n| n.parse().ok())
                    .map(Self)
                    .ok_or_else(|| BadId::new($kind, text, $hint))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

number!(
    /// Numbers an execution (run); printed `x1`.
    ExecutionId, "x", "an execution id", "it looks like `x1`"
);
number!(
    /// Numbers a review; printed `r-1`.
    ReviewId, "r-", "a review id", "it looks like `r-1`"
);
number!(
    /// Numbers an event within its supervisor's stream; printed `e-1`. The number is also its cursor's.
    EventId, "e-", "an event id", "it looks like `e-1`"
);
number!(
    /// Numbers a session of an engine; printed `s-1`. Larger is newer.
    SessionId, "s-", "a session id", "it looks like `s-1`"
);

/// A place in a supervisor's stream: the log's epoch and the number of an event. Printed `c<epoch>-<n>`,
/// opaque to engines (C37).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The epoch of the log that made the number; another epoch's numbers mean nothing here.
    pub epoch: u32,
    /// The number of the event in the supervisor's stream; 0 is before the first.
    pub n: u64,
}

impl FromStr for Cursor {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let parse = || {
            let (epoch, n) = text.strip_prefix('c')?.split_once('-')?;
            Some(Self {
                epoch: epoch.parse().ok()?,
                n: n.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            BadId::new(
                "a cursor",
                text,
                "give back a cursor exactly as the host sent it",
            )
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}-{}", self.epoch, self.n)
    }
}
