//! A run and its nodes, and the questions that decisions ask about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::contract::definition::{NodeDef, WorkflowDef};
use crate::contract::id::{ExecutionId, NodeId, WorkflowId};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;
use crate::core::record::{AttemptEnd, Ending, Hold, Holder, StopMode};

/// One revision of a workflow, with what its needs imply.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// The definition.
    pub def: WorkflowDef,
    /// Its revision.
    pub revision: u32,
    /// The node ids, in byte order; a node's place here is its index everywhere else.
    pub ids: Vec<NodeId>,
    /// For each node the nodes that it needs.
    pub needs: Vec<Vec<usize>>,
    /// For each node the nodes that need it.
    pub dependents: Vec<Vec<usize>>,
}

impl Plan {
    /// Works out what a checked definition implies.
    #[must_use]
    pub fn new(def: WorkflowDef, revision: u32) -> Self {
        let ids: Vec<NodeId> = def.nodes.keys().cloned().collect();
        let mut needs = vec![Vec::new(); ids.len()];
        let mut dependents = vec![Vec::new(); ids.len()];
        for (i, node) in def.nodes.values().enumerate() {
            for need in &node.needs {
                if let Ok(n) = ids.binary_search(need) {
                    needs[i].push(n);
                    dependents[n].push(i);
                }
            }
        }
        Self {
            def,
            revision,
            ids,
            needs,
            dependents,
        }
    }

    /// Returns the index of a node.
    #[must_use]
    pub fn index(&self, node: &NodeId) -> Option<usize> {
        self.ids.binary_search(node).ok()
    }

    /// Returns the definition of the node at an index.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<&NodeDef> {
        self.def.nodes.get(self.ids.get(index)?)
    }

    /// Returns everything below a node, in id order, without the node.
    #[must_use]
    pub fn downstream(&self, node: usize) -> Vec<usize> {
        let mut seen = vec![false; self.ids.len()];
        let mut open = vec![node];
        while let Some(n) = open.pop() {
            for &d in &self.dependents[n] {
                if !seen[d] {
                    seen[d] = true;
                    open.push(d);
                }
            }
        }
        (0..seen.len()).filter(|&i| seen[i]).collect()
    }
}

/// How a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Stop {
    /// How hard.
    #[n(0)]
    pub mode: StopMode,
    /// The grace between SIGTERM and SIGKILL, in milliseconds.
    #[n(1)]
    pub grace: u64,
    /// Drain: when it becomes immediate. Immediate: when what still runs is killed.
    #[n(2)]
    pub deadline: Option<HostTime>,
}

/// One start of a workflow.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Run {
    /// Its id.
    #[n(0)]
    pub id: ExecutionId,
    /// Its workflow.
    #[n(1)]
    pub workflow: WorkflowId,
    /// The revision of the definition that it keeps.
    #[n(2)]
    pub revision: u32,
    /// Its parameters, defaults filled in.
    #[n(3)]
    pub params: BTreeMap<String, String>,
    /// Its priority, −100 to 100.
    #[n(4)]
    pub priority: i32,
    /// Its status.
    #[n(5)]
    pub status: RunStatus,
    /// When it was started, unix milliseconds.
    #[n(6)]
    pub started_wall: u64,
    /// When its status last changed, unix milliseconds.
    #[n(7)]
    pub changed_wall: u64,
    /// When it ends by timeout.
    #[n(8)]
    pub deadline: Option<HostTime>,
    /// Who keeps it from going on, the oldest first.
    #[n(9)]
    pub holds: Vec<Hold>,
    /// How it is being stopped.
    #[n(10)]
    pub stop: Option<Stop>,
    /// How many commands were applied to it (C26).
    #[n(11)]
    pub order: u64,
    /// Its nodes, by index.
    #[n(12)]
    pub nodes: Vec<Node>,
    /// Whether its timeout has come.
    #[n(13)]
    pub timed_out: bool,
    /// The plan; not stored, found again by workflow and revision.
    #[cbor(skip)]
    pub plan: Option<Arc<Plan>>,
}

/// A node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// Its status.
    #[n(0)]
    pub status: NodeStatus,
    /// The number of its newest attempt; 0 before the first is due.
    #[n(1)]
    pub attempt: u32,
    /// The attempt from which automatic retries are counted.
    #[n(2)]
    pub first_attempt: u32,
    /// Whether any attempt ever started.
    #[n(3)]
    pub started: bool,
    /// Why it is in its status, where that does not say.
    #[n(4)]
    pub why: Option<Why>,
    /// How the newest attempt ended.
    #[n(5)]
    pub end: Option<AttemptEnd>,
    /// READY: not before. RUNNING: the attempt's timeout.
    #[n(6)]
    pub deadline: Option<HostTime>,
    /// RUNNING: why it is told to end.
    #[n(7)]
    pub ending: Option<Ending>,
    /// RUNNING and told to end: when it is killed; absent once it was.
    #[n(8)]
    pub kill_at: Option<HostTime>,
    /// When its status last changed, unix milliseconds.
    #[n(9)]
    pub changed_wall: u64,
}

impl Node {
    /// Makes a node that waits for its needs.
    #[must_use]
    pub fn new(wall: u64) -> Self {
        Self {
            status: NodeStatus::Pending,
            attempt: 0,
            first_attempt: 0,
            started: false,
            why: None,
            end: None,
            deadline: None,
            ending: None,
            kill_at: None,
            changed_wall: wall,
        }
    }

    /// Says whether nodes that need this one may start.
    #[must_use]
    pub fn satisfies(&self) -> bool {
        match self.status {
            NodeStatus::Succeeded => true,
            NodeStatus::Skipped => matches!(self.why, Some(Why::Command | Why::Condition)),
            _ => false,
        }
    }

    /// Says whether it has ended in a way that nodes below cannot pass.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.status.is_terminal() && !self.satisfies()
    }

    /// Says whether a retry or skip above may set it back to PENDING: it never ran and did not end by a skip.
    #[must_use]
    pub fn can_wait_again(&self) -> bool {
        let ended = match self.status {
            NodeStatus::Stopped => true,
            NodeStatus::Skipped => self.why == Some(Why::Upstream),
            _ => false,
        };
        ended && !self.started
    }
}

impl Run {
    /// Returns the index of a node.
    #[must_use]
    pub fn index(&self, node: &NodeId) -> Option<usize> {
        self.plan.as_ref()?.index(node)
    }

    /// Returns a node by id.
    #[must_use]
    pub fn node(&self, node: &NodeId) -> Option<&Node> {
        self.nodes.get(self.index(node)?)
    }

    /// Returns the nodes with their ids, in id order.
    pub fn named_nodes(&self) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.plan.iter().flat_map(|p| p.ids.iter()).zip(&self.nodes)
    }

    /// Says whether any attempt runs.
    #[must_use]
    pub fn has_running(&self) -> bool {
        self.nodes.iter().any(|n| n.status == NodeStatus::Running)
    }

    /// Returns the holds' holders as one text, the oldest first.
    #[must_use]
    pub fn holders(&self) -> String {
        let names: Vec<String> = self.holds.iter().map(|h| h.holder.to_string()).collect();
        names.join(", ")
    }

    /// Says whether this holder holds it.
    #[must_use]
    pub fn is_held_by(&self, holder: &Holder) -> bool {
        self.holds.iter().any(|h| h.holder == *holder)
    }
}
