//! How a run stands, folded from its log.

use std::collections::BTreeMap;
use std::rc::Rc;

use signalbox::contract::definition::WorkflowDef;
use signalbox::contract::id::NodeId;
use signalbox::contract::status::{NodeStatus, RunStatus, Why};

/// One fact about a run.
#[derive(Debug, Clone)]
pub enum RunFact {
    /// It was started from this definition.
    Created {
        /// The definition that it keeps.
        def: Rc<WorkflowDef>,
        /// Its priority.
        priority: i32,
    },
    /// It has this status now.
    Became(RunStatus),
    /// A node has this status now; a node that becomes READY begins a new attempt.
    Node {
        /// The node.
        node: NodeId,
        /// Its status.
        status: NodeStatus,
        /// Why.
        why: Option<Why>,
        /// Milliseconds before which the new attempt does not begin.
        delay_ms: u64,
    },
    /// Somebody holds it.
    Held(String),
    /// Somebody holds it no more.
    Released(String),
    /// A command took the next place in its order.
    Ordered,
    /// A stop was applied.
    StopOrdered {
        /// At once instead of draining.
        immediate: bool,
        /// Milliseconds from SIGTERM to SIGKILL.
        grace_ms: u64,
        /// Milliseconds to drain.
        drain_ms: Option<u64>,
    },
    /// The drain took too long.
    DrainOver,
    /// An attempt took too long and was told to end.
    AttemptTimedOut(NodeId),
    /// An attempt was killed.
    Killed(NodeId),
    /// The wait before the node's next attempt is over.
    DelayOver(NodeId),
    /// The run took too long.
    TimedOut,
}

/// Why an attempt was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It took too long.
    Timeout,
    /// Its run is stopped at once.
    RunStop,
}

/// How a node stands.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Its status.
    pub status: NodeStatus,
    /// Why.
    pub why: Option<Why>,
    /// The number of its latest attempt; 0 before the first.
    pub attempt: u32,
    /// Whether any attempt ever ran.
    pub ever_ran: bool,
    /// Automatic retries since it last became READY otherwise.
    pub retries: u32,
    /// When its attempt may begin.
    pub not_before: u64,
    /// Whether it waits for that time still to be decided.
    pub delay_open: bool,
    /// When its attempt began.
    pub running_since: u64,
    /// Why its attempt was told to end.
    pub ending: Option<Ending>,
    /// When its attempt will be killed.
    pub kill_at: Option<u64>,
}

/// How a stop stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopView {
    /// At once instead of draining.
    pub immediate: bool,
    /// Milliseconds from SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// When the drain is over.
    pub drain_at: Option<u64>,
    /// When what still runs is killed.
    pub kill_at: Option<u64>,
}

/// How a run stands.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its number.
    pub id: u64,
    /// Its definition.
    pub def: Rc<WorkflowDef>,
    /// Its priority.
    pub priority: i32,
    /// When it was started.
    pub started: u64,
    /// Its status.
    pub status: RunStatus,
    /// Its holders, the oldest first.
    pub holds: Vec<String>,
    /// Its nodes.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// How many commands were applied to it.
    pub order: u64,
    /// Its stop, while it is STOPPING.
    pub stop: Option<StopView>,
    /// Whether its timeout was decided.
    pub timed_out: bool,
}

impl RunView {
    /// Folds a run's whole log. The first fact is its creation.
    pub fn fold(id: u64, log: &[(u64, RunFact)]) -> Self {
        let Some((started, RunFact::Created { def, priority })) = log.first() else {
            unreachable!("a run's log begins with its creation")
        };
        let node = NodeView {
            status: NodeStatus::Pending,
            why: None,
            attempt: 0,
            ever_ran: false,
            retries: 0,
            not_before: 0,
            delay_open: false,
            running_since: 0,
            ending: None,
            kill_at: None,
        };
        let mut view = Self {
            id,
            def: Rc::clone(def),
            priority: *priority,
            started: *started,
            status: RunStatus::Queued,
            holds: Vec::new(),
            nodes: def
                .nodes
                .keys()
                .map(|n| (n.clone(), node.clone()))
                .collect(),
            order: 0,
            stop: None,
            timed_out: false,
        };
        for (at, fact) in log {
            view.take(*at, fact);
        }
        view
    }

    fn take(&mut self, at: u64, fact: &RunFact) {
        match fact {
            RunFact::Created { .. } => {}
            RunFact::Became(status) => {
                self.status = *status;
                if *status != RunStatus::Stopping {
                    self.stop = None;
                }
                // Holds end with the run, and with its stop.
                if status.is_terminal() || *status == RunStatus::Stopping {
                    self.holds.clear();
                }
            }
            RunFact::Node {
                node,
                status,
                why,
                delay_ms,
            } => {
                let Some(n) = self.nodes.get_mut(node) else {
                    return;
                };
                match status {
                    NodeStatus::Ready => {
                        n.attempt += 1;
                        n.retries = if *why == Some(Why::Retry) {
                            n.retries + 1
                        } else {
                            0
                        };
                        n.not_before = at + delay_ms;
                        n.delay_open = *why == Some(Why::Retry);
                    }
                    NodeStatus::Running => {
                        n.ever_ran = true;
                        n.running_since = at;
                    }
                    _ => {}
                }
                n.status = *status;
                n.why = *why;
                n.ending = None;
                n.kill_at = None;
            }
            RunFact::Held(holder) => self.holds.push(holder.clone()),
            RunFact::Released(holder) => self.holds.retain(|h| h != holder),
            RunFact::Ordered => self.order += 1,
            RunFact::StopOrdered {
                immediate: false,
                grace_ms,
                drain_ms,
            } => {
                let drain_at = drain_ms.map(|ms| at + ms);
                self.stop = Some(StopView {
                    immediate: false,
                    grace_ms: *grace_ms,
                    drain_at,
                    kill_at: None,
                });
            }
            RunFact::StopOrdered {
                immediate: true,
                grace_ms,
                ..
            } => self.end_attempts(at, *grace_ms),
            RunFact::DrainOver => self.end_attempts(at, self.stop.map_or(0, |s| s.grace_ms)),
            RunFact::AttemptTimedOut(node) => {
                if let Some(n) = self.nodes.get_mut(node) {
                    n.ending = Some(Ending::Timeout);
                    n.kill_at = Some(at + 10_000);
                }
            }
            RunFact::Killed(node) => {
                if let Some(n) = self.nodes.get_mut(node) {
                    n.kill_at = None;
                    n.ending = n.ending.or(Some(Ending::RunStop));
                }
            }
            RunFact::DelayOver(node) => {
                if let Some(n) = self.nodes.get_mut(node) {
                    n.delay_open = false;
                }
            }
            RunFact::TimedOut => self.timed_out = true,
        }
    }

    /// Ends every attempt at once: what was told to end earlier keeps the earlier time of its kill, and what
    /// was killed is not killed again.
    fn end_attempts(&mut self, at: u64, grace_ms: u64) {
        let kill_at = at + grace_ms;
        self.stop = Some(StopView {
            immediate: true,
            grace_ms,
            drain_at: None,
            kill_at: Some(kill_at),
        });
        for n in self
            .nodes
            .values_mut()
            .filter(|n| n.status == NodeStatus::Running)
        {
            n.kill_at = match (n.ending, n.kill_at) {
                (Some(_), earlier) => earlier.map(|t| t.min(kill_at)),
                (None, _) => Some(kill_at),
            };
            n.ending = Some(Ending::RunStop);
        }
    }

    /// Says whether the run has not ended.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.status.is_terminal()
    }

    /// Gives its running nodes.
    pub fn running(&self) -> impl Iterator<Item = (&NodeId, &NodeView)> {
        self.nodes
            .iter()
            .filter(|(_, n)| n.status == NodeStatus::Running)
    }

    /// Gives the time of its timeout.
    #[must_use]
    pub fn timeout_at(&self) -> Option<u64> {
        self.def.timeout.map(|ms| self.started + ms.0)
    }

    /// Says whether a node satisfies the nodes that need it.
    #[must_use]
    pub fn satisfies(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|n| match n.status {
            NodeStatus::Succeeded => true,
            NodeStatus::Skipped => n.why != Some(Why::Upstream),
            _ => false,
        })
    }

    /// Gives the nodes that need the node directly, in id order.
    pub fn dependents<'a>(&'a self, node: &'a NodeId) -> impl Iterator<Item = &'a NodeId> {
        self.def
            .nodes
            .iter()
            .filter(move |(_, d)| d.needs.contains(node))
            .map(|(id, _)| id)
    }

    /// Gives all nodes below the node, in id order.
    #[must_use]
    pub fn downstream(&self, node: &NodeId) -> Vec<NodeId> {
        let mut below: Vec<NodeId> = Vec::new();
        let mut look = vec![node.clone()];
        while let Some(next) = look.pop() {
            for dependent in self.dependents(&next) {
                if !below.contains(dependent) {
                    below.push(dependent.clone());
                    look.push(dependent.clone());
                }
            }
        }
        below.sort();
        below
    }
}
