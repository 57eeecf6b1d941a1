//! Targets of commands (C25).

use std::fmt;
use std::str::FromStr;

use super::id::{BadId, ExecutionId, NodeId, WorkflowId};

/// What a command acts on, as its sender wrote it. The host expands it once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// `execution:<id>`.
    Execution(ExecutionId),
    /// `workflow:<id>`: the workflow for a start, else all its live executions that the sender may touch.
    Workflow(WorkflowId),
    /// `node:<execution>/<node>[,…]`, in the order given. Never empty.
    Nodes(Vec<(ExecutionId, NodeId)>),
    /// `input:<id>`; the id is the host's, opaque here.
    Input(String),
    /// `owned.running`: all owned executions that have not ended.
    OwnedRunning,
    /// `owned.held`: all owned executions that the sender's holds keep.
    OwnedHeld,
    /// `server`.
    Server,
}

/// The most targets that one command may name or that a selector expands to (C25).
pub const MAX_TARGETS: usize = 200;

/// Says that a text is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// The text has none of the forms.
    #[error(
        "`{0}` is not a target; write execution:<id>, workflow:<id>, node:<execution>/<node>, input:<id>, owned.running, owned.held or server"
    )]
    Form(String),
    /// A node target names more than 200 nodes.
    #[error("the target names {0} nodes; name at most 200 in one command")]
    TooMany(usize),
    /// An id in it is malformed.
    #[error(transparent)]
    Id(#[from] BadId),
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Form(text.chars().take(80).collect());
        match text {
            "server" => return Ok(Self::Server),
            "owned.running" => return Ok(Self::OwnedRunning),
            "owned.held" => return Ok(Self::OwnedHeld),
            _ => {}
        }
        match text.split_once(':').ok_or_else(bad)? {
            ("execution", id) => Ok(Self::Execution(id.parse()?)),
            ("workflow", id) => Ok(Self::Workflow(id.parse()?)),
            ("input", id)
                if !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_graphic()) =>
            {
                Ok(Self::Input(id.to_owned()))
            }
            ("node", list) => nodes(list, bad),
            _ => Err(bad()),
        }
    }
}

fn nodes(list: &str, bad: impl Fn() -> BadTarget) -> Result<Target, BadTarget> {
    let count = list.split(',').count();
    if count > MAX_TARGETS {
        return Err(BadTarget::TooMany(count));
    }
    let mut out: Vec<(ExecutionId, NodeId)> = Vec::with_capacity(count);
    for part in list.split(',') {
        let (execution, node) = match (part.split_once('/'), out.last()) {
            (Some((x, n)), _) => (x.parse()?, n),
            (None, Some((x, _))) => (*x, part),
            (None, None) => return Err(bad()),
        };
        let pair = (execution, node.parse()?);
        // A node that is named twice is acted on once.
        if !out.contains(&pair) {
            out.push(pair);
        }
    }
    Ok(Target::Nodes(out))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execution(x) => write!(f, "execution:{x}"),
            Self::Workflow(w) => write!(f, "workflow:{w}"),
            Self::Input(i) => write!(f, "input:{i}"),
            Self::OwnedRunning => f.write_str("owned.running"),
            Self::OwnedHeld => f.write_str("owned.held"),
            Self::Server => f.write_str("server"),
            Self::Nodes(nodes) => {
                f.write_str("node:")?;
                for (i, (x, n)) in nodes.iter().enumerate() {
                    write!(f, "{}{x}/{n}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}
