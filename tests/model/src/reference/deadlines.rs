//! Deadlines: found by looking at everything that could have one, and decided in their order.

use signalbox::contract::id::NodeId;
use signalbox::contract::status::{NodeStatus, RunStatus};

use super::history::{Note, Place};
use super::view::{RunFact, RunView};
use super::{By, Caller, Reference};
use crate::operations::Deed;
use crate::seen::Seen;

/// What is due. The order of the variants is the order at one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Review(u64),
    RunTimeout(u64),
    DrainLimit(u64),
    Kill(u64, NodeId),
    AttemptTimeout(u64, NodeId),
    RetryDelay(u64, NodeId),
}

impl Reference {
    /// Decides every deadline up to now, one after the other, also those that come up meanwhile.
    pub(super) fn decide_what_is_due(&mut self) {
        while let Some((at, due)) = self
            .deadlines()
            .into_iter()
            .min()
            .filter(|(at, _)| *at <= self.now)
        {
            if at < self.now {
                self.notes.push(Note::Rare("a deadline is decided late"));
            }
            self.decide_due(due);
            self.fill_slots();
        }
    }

    /// Gives the time of the next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines().into_iter().map(|(at, _)| at).min()
    }

    fn deadlines(&self) -> Vec<(u64, Due)> {
        let mut out: Vec<(u64, Due)> = self
            .open_reviews(None)
            .into_iter()
            .map(|r| (r.deadline, Due::Review(r.id)))
            .collect();
        for view in self.history.all_runs().filter(|v| v.is_live()) {
            run_deadlines(view, &mut out);
        }
        out
    }

    fn decide_due(&mut self, due: Due) {
        match due {
            Due::Review(id) => {
                self.notes.push(Note::Review("timeout"));
                self.end_unanswered(id);
            }
            Due::RunTimeout(run) => {
                self.history.tell(self.now, run, RunFact::TimedOut);
                let deed = Deed::Stop {
                    immediate: true,
                    grace_ms: 10_000,
                    drain_ms: None,
                };
                let by = By {
                    caller: Caller::System,
                    cause: None,
                    reason: Some("timeout".to_owned()),
                };
                // A stop never refuses as a whole.
                let _ = self.act(&deed, None, &[Place::Run(run)], None, &by);
            }
            Due::DrainLimit(run) => {
                self.notes.push(Note::Rare("a drain takes too long"));
                let Some(before) = self.history.run(run) else {
                    return;
                };
                self.history.tell(self.now, run, RunFact::DrainOver);
                self.terminate(&before);
            }
            Due::Kill(execution, node) => {
                self.notes.push(Note::Rare("an attempt is killed"));
                let attempt = self.attempt(execution, &node);
                self.history
                    .tell(self.now, execution, RunFact::Killed(node.clone()));
                self.see(Seen::Stop {
                    execution,
                    node,
                    attempt,
                    kill: true,
                });
            }
            Due::AttemptTimeout(execution, node) => {
                self.notes.push(Note::Rare("an attempt times out"));
                let attempt = self.attempt(execution, &node);
                self.history
                    .tell(self.now, execution, RunFact::AttemptTimedOut(node.clone()));
                self.see(Seen::Stop {
                    execution,
                    node,
                    attempt,
                    kill: false,
                });
            }
            Due::RetryDelay(run, node) => {
                self.history.tell(self.now, run, RunFact::DelayOver(node))
            }
        }
    }

    fn attempt(&self, run: u64, node: &NodeId) -> u32 {
        self.history
            .run(run)
            .and_then(|v| v.nodes.get(node).map(|n| n.attempt))
            .unwrap_or(0)
    }
}

fn run_deadlines(view: &RunView, out: &mut Vec<(u64, Due)>) {
    if let Some(at) = view.timeout_at().filter(|_| !view.timed_out) {
        out.push((at, Due::RunTimeout(view.id)));
    }
    if let Some(at) = view
        .stop
        .and_then(|s| s.drain_at)
        .filter(|_| view.status == RunStatus::Stopping)
    {
        out.push((at, Due::DrainLimit(view.id)));
    }
    for (node, n) in &view.nodes {
        if let Some(at) = n.kill_at {
            out.push((at, Due::Kill(view.id, node.clone())));
        }
        let limit = view.def.nodes.get(node).and_then(|d| d.timeout);
        if let Some(limit) = limit.filter(|_| n.status == NodeStatus::Running && n.ending.is_none())
        {
            out.push((
                n.running_since + limit.0,
                Due::AttemptTimeout(view.id, node.clone()),
            ));
        }
        if n.status == NodeStatus::Ready && n.delay_open {
            out.push((n.not_before, Due::RetryDelay(view.id, node.clone())));
        }
    }
}
