//! The operations of contract §7 as data: name, level, arguments, risk.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What an operation acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A run, or a workflow for a start.
    Run,
    /// Nodes of runs.
    Node,
    /// An open input.
    Input,
    /// The server.
    Server,
    /// Nothing: a message.
    Other,
}

/// How much an operation can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Changes nothing.
    None,
    /// Undone by another command.
    Low,
    /// Starts or ends work in an orderly way.
    Medium,
    /// Ends work at once, or changes the server.
    High,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgType {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A text.
    Text,
    /// One of the texts listed.
    Choice(&'static [&'static str]),
    /// A map from text to text.
    Texts,
    /// Any JSON value.
    Any,
}

/// One argument of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ArgSpec {
    /// The argument's name.
    pub name: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ArgType,
    /// What holds when it is absent, in words.
    pub default: &'static str,
    /// The least and greatest number allowed; for integers only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(i64, i64)>,
}

const fn arg(name: &'static str, kind: ArgType, default: &'static str) -> ArgSpec {
    ArgSpec {
        name,
        kind,
        default,
        range: None,
    }
}

const fn ranged(name: &'static str, least: i64, most: i64, default: &'static str) -> ArgSpec {
    ArgSpec {
        name,
        kind: ArgType::Integer,
        default,
        range: Some((least, most)),
    }
}

/// The longest grace or limit that a command may ask for, in milliseconds (seven days).
pub const MAX_WAIT_MS: i64 = 7 * 86_400_000;

const STOP_MODES: ArgType = ArgType::Choice(&["drain", "immediate"]);
const GRACE: ArgSpec = ranged("graceMs", 0, MAX_WAIT_MS, "10000");
const ENABLED: ArgSpec = arg("enabled", ArgType::Boolean, "true");
const PRIORITY: ArgSpec = ranged("priority", -100, 100, "0");

/// Everything that is fixed about one operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Operation {
    /// The operation.
    #[serde(rename = "name")]
    pub op: Op,
    /// What it acts on.
    pub level: Level,
    /// Its default risk; `run.stop` and `run.restart` with `mode: immediate` are `high`.
    pub risk: Risk,
    /// Its arguments; any other is `INVALID_ARGUMENT`.
    pub args: &'static [ArgSpec],
    /// Whether this version of the host serves it; if not it is `UNKNOWN_OPERATION`.
    pub served: bool,
}

macro_rules! operations {
    ($($n:literal $variant:ident $name:literal $level:ident $risk:ident $served:literal [$($arg:expr),*],)*) => {
        /// An operation of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
        #[cbor(index_only)]
        pub enum Op {
            $(#[doc = concat!("`", $name, "`")] #[n($n)] #[serde(rename = $name)] $variant,)*
        }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the operation's name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns what is fixed about it.
            #[must_use]
            pub fn spec(self) -> &'static Operation {
                &OPERATIONS[self as usize]
            }
        }

        /// The operations in the contract's order.
        pub const OPERATIONS: &[Operation] = &[
            $(Operation { op: Op::$variant, level: Level::$level, risk: Risk::$risk, served: $served, args: &[$($arg),*] },)*
        ];
    };
}

operations! {
    0 RunStart "run.start" Run Medium true [arg("params", ArgType::Texts, "none"), PRIORITY],
    1 RunPause "run.pause" Run Low true [arg("suspend", ArgType::Boolean, "false")],
    2 RunResume "run.resume" Run Low true [],
    3 RunResumeHeld "run.resumeHeld" Run Low true [],
    4 RunStop "run.stop" Run Medium true [arg("mode", STOP_MODES, "drain"), GRACE, ranged("drainTimeoutMs", 0, MAX_WAIT_MS, "no limit")],
    5 RunRestart "run.restart" Run Medium false [arg("mode", STOP_MODES, "drain"), GRACE],
    6 RunRestartFromNode "run.restartFromNode" Run Medium false [arg("node", ArgType::Text, "required")],
    7 RunPriority "run.priority" Run Low false [PRIORITY],
    8 NodePause "node.pause" Node Low false [],
    9 NodeResume "node.resume" Node Low false [],
    10 NodeStop "node.stop" Node High false [GRACE],
    11 NodeSkip "node.skip" Node Medium true [],
    12 NodeRetry "node.retry" Node Low true [],
    13 NodeStepMode "node.stepMode" Node Low false [ENABLED],
    14 NodeBreakpoint "node.breakpoint" Node Low false [ENABLED, arg("at", ArgType::Choice(&["before", "after"]), "before")],
    15 InputAnswer "input.answer" Input Low false [arg("value", ArgType::Any, "required")],
    16 InputEscalate "input.escalate" Input Low false [],
    17 ServerSetLimits "server.setLimits" Server High false [ranged("maxRunningRuns", 0, 1_000_000, "as it is"), ranged("maxRunningNodes", 0, 1_000_000, "as it is"), ranged("maxQueuedRuns", 0, 1_000_000, "as it is")],
    18 ServerDrain "server.drain" Server High false [ranged("timeoutMs", 0, MAX_WAIT_MS, "no limit"), ENABLED],
    19 Notify "notify" Other None true [arg("level", ArgType::Choice(&["info", "warning", "error"]), "info"), arg("message", ArgType::Text, "required"), arg("data", ArgType::Any, "none")],
    20 Delegate "delegate" Other None false [arg("kind", ArgType::Choice(&["CONSULT"]), "required"), arg("payload", ArgType::Any, "required"), arg("choices", ArgType::Any, "none"), arg("key", ArgType::Text, "none")],
}

impl Op {
    /// Finds an operation by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.as_str() == name)
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry of a command list: an operation's name, or a prefix such as `run.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpPattern {
    /// One operation.
    One(Op),
    /// All operations whose name begins with the text, which ends in a dot; `*` alone is all.
    Prefix(String),
}

/// Says that a text is neither an operation nor a prefix of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an operation; write a name such as run.pause, or a prefix such as run.*")]
pub struct UnknownPattern(pub String);

impl OpPattern {
    /// Says whether the pattern names the operation.
    #[must_use]
    pub fn matches(&self, op: Op) -> bool {
        match self {
            Self::One(one) => *one == op,
            Self::Prefix(prefix) => op.as_str().starts_with(prefix.as_str()),
        }
    }
}

impl std::str::FromStr for OpPattern {
    type Err = UnknownPattern;

    fn from_str(text: &str) -> Result<Self, UnknownPattern> {
        let unknown = || UnknownPattern(text.chars().take(80).collect());
        let Some(prefix) = text.strip_suffix('*') else {
            return Op::from_name(text).map(Self::One).ok_or_else(unknown);
        };
        let whole = prefix.is_empty() || prefix.ends_with('.');
        if whole && Op::ALL.iter().any(|op| op.as_str().starts_with(prefix)) {
            Ok(Self::Prefix(prefix.to_owned()))
        } else {
            Err(unknown())
        }
    }
}

impl std::fmt::Display for OpPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(op) => f.write_str(op.as_str()),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl Serialize for OpPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OpPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
