//! Units: what a supervisor can own (C2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::id::{BadId, GroupId, NodeId, WorkflowId};

/// A part of the system that has at most one owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// `workflow:<id>`: the run-level commands on all executions of the workflow.
    Workflow(WorkflowId),
    /// `group:<workflow>/<group>`: the node-level commands on the group's nodes.
    Group(WorkflowId, GroupId),
    /// `node:<workflow>/<node>`: the node-level commands on the node.
    Node(WorkflowId, NodeId),
    /// `server`: limits and drain.
    Server,
}

impl Unit {
    /// Returns the workflow that the unit belongs to; none for the server.
    #[must_use]
    pub fn workflow(&self) -> Option<&WorkflowId> {
        match self {
            Self::Workflow(w) | Self::Group(w, _) | Self::Node(w, _) => Some(w),
            Self::Server => None,
        }
    }
}

/// Says that a text is not a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUnit {
    /// The text has none of the four forms.
    #[error(
        "`{0}` is not a unit; write workflow:<id>, group:<workflow>/<group>, node:<workflow>/<node> or server"
    )]
    Form(String),
    /// An id in it is malformed.
    #[error(transparent)]
    Id(#[from] BadId),
}

impl FromStr for Unit {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bad = || BadUnit::Form(text.chars().take(80).collect());
        if text == "server" {
            return Ok(Self::Server);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        match (kind, rest.split_once('/')) {
            ("workflow", None) => Ok(Self::Workflow(rest.parse()?)),
            ("group", Some((w, g))) => Ok(Self::Group(w.parse()?, g.parse()?)),
            ("node", Some((w, n))) => Ok(Self::Node(w.parse()?, n.parse()?)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow(w) => write!(f, "workflow:{w}"),
            Self::Group(w, g) => write!(f, "group:{w}/{g}"),
            Self::Node(w, n) => write!(f, "node:{w}/{n}"),
            Self::Server => f.write_str("server"),
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
