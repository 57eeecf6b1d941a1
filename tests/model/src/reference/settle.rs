//! What follows of itself: nodes become ready or are skipped, runs end, slots are filled, attempts end.

use signalbox::contract::id::NodeId;
use signalbox::contract::status::{NodeStatus, RunStatus, Why};

use super::Reference;
use super::events::Detail;
use super::history::Note;
use super::view::{Ending, RunView};
use crate::seen::Seen;
use crate::step::Exit;

impl Reference {
    /// Lets follow in one run what follows of its last change, except for slots.
    pub(super) fn settle(&mut self, run: u64) {
        while self.skip_below_failures(run) {}
        self.ready_nodes(run);
        self.move_run(run);
    }

    fn moves_nodes(view: &RunView) -> bool {
        view.is_live() && view.status != RunStatus::Stopping
    }

    /// Skips, in one pass in id order, what can never start; says whether there was any.
    fn skip_below_failures(&mut self, run: u64) -> bool {
        let Some(names) = self
            .history
            .run(run)
            .map(|v| v.nodes.keys().cloned().collect::<Vec<_>>())
        else {
            return false;
        };
        let mut any = false;
        for node in names {
            let Some(view) = self.history.run(run).filter(|v| Self::moves_nodes(v)) else {
                return false;
            };
            let pending = view
                .nodes
                .get(&node)
                .is_some_and(|n| n.status == NodeStatus::Pending);
            let lost = view.def.nodes.get(&node).is_some_and(|def| {
                def.needs.iter().any(|need| {
                    !view.satisfies(need)
                        && view.nodes.get(need).is_some_and(|n| n.status.is_terminal())
                })
            });
            if pending && lost {
                self.node_becomes(
                    run,
                    &node,
                    NodeStatus::Skipped,
                    Detail::why(Why::Upstream),
                    None,
                );
                any = true;
            }
        }
        any
    }

    fn ready_nodes(&mut self, run: u64) {
        let Some(view) = self.history.run(run).filter(|v| Self::moves_nodes(v)) else {
            return;
        };
        for (node, n) in &view.nodes {
            let met = view
                .def
                .nodes
                .get(node)
                .is_some_and(|d| d.needs.iter().all(|need| view.satisfies(need)));
            if n.status == NodeStatus::Pending && met {
                self.node_becomes(run, node, NodeStatus::Ready, Detail::default(), None);
            }
        }
    }

    fn move_run(&mut self, run: u64) {
        let Some(view) = self.history.run(run).filter(|v| v.is_live()) else {
            return;
        };
        if view.running().next().is_some() {
            return;
        }
        let to_start = |s: NodeStatus| matches!(s, NodeStatus::Pending | NodeStatus::Ready);
        if view.status == RunStatus::Stopping {
            self.run_becomes(run, RunStatus::Stopped, None);
        } else if !view.nodes.values().any(|n| to_start(n.status)) {
            let well = view.nodes.keys().all(|n| view.satisfies(n));
            self.run_becomes(
                run,
                if well {
                    RunStatus::Succeeded
                } else {
                    RunStatus::Failed
                },
                None,
            );
        } else if view.status == RunStatus::Pausing {
            self.run_becomes(run, RunStatus::Paused, None);
        }
    }

    /// Gives free run slots to queued runs, then free node slots to ready nodes.
    pub(super) fn fill_slots(&mut self) {
        loop {
            let used = self
                .history
                .all_runs()
                .filter(|r| uses_slot(r.status))
                .count();
            let queued = self
                .history
                .all_runs()
                .filter(|r| r.status == RunStatus::Queued);
            let Some(run) = queued.min_by_key(|r| (-r.priority, r.id)).map(|r| r.id) else {
                break;
            };
            if used >= self.settings.max_running_runs as usize {
                self.notes.push(Note::Rare("a run waits for a slot"));
                break;
            }
            self.run_becomes(run, RunStatus::Running, None);
        }
        loop {
            let used: usize = self.history.all_runs().map(|r| r.running().count()).sum();
            let mut runs: Vec<_> = self
                .history
                .all_runs()
                .filter(|r| r.status == RunStatus::Running)
                .collect();
            runs.sort_by_key(|r| (-r.priority, r.id));
            let ready = runs.iter().find_map(|r| {
                let can = |(_, n): &(&NodeId, &super::view::NodeView)| {
                    n.status == NodeStatus::Ready && n.not_before <= self.now
                };
                r.nodes
                    .iter()
                    .find(can)
                    .map(|(node, n)| (r.id, node.clone(), n.attempt))
            });
            let Some((execution, node, attempt)) = ready else {
                break;
            };
            if used >= self.settings.max_running_nodes as usize {
                self.notes.push(Note::Rare("a node waits for a slot"));
                break;
            }
            self.node_becomes(
                execution,
                &node,
                NodeStatus::Running,
                Detail::default(),
                None,
            );
            self.see(Seen::Start {
                execution,
                node,
                attempt,
            });
        }
    }

    /// Takes a report on an attempt; one that is not the node's running attempt changes nothing.
    pub(super) fn report(&mut self, run: u64, node: &NodeId, attempt: u32, exit: Exit) {
        let view = self.history.run(run);
        let current = view.as_ref().and_then(|v| v.nodes.get(node));
        let current = current.filter(|n| n.status == NodeStatus::Running && n.attempt == attempt);
        let (Some(view), Some(current)) = (&view, current) else {
            self.notes.push(Note::Rare("a stale report"));
            return;
        };
        if exit == Exit::Started {
            return;
        }
        let with = |why: Option<Why>| Detail {
            why,
            exit: Some(exit),
            retry_in_ms: None,
        };
        let failure = match (current.ending, exit) {
            (Some(Ending::RunStop), _) => {
                self.node_becomes(
                    run,
                    node,
                    NodeStatus::Stopped,
                    with(Some(Why::RunStopped)),
                    None,
                );
                self.settle(run);
                return;
            }
            (Some(Ending::Timeout), _) => Why::Timeout,
            (None, Exit::Code(0)) => {
                self.node_becomes(run, node, NodeStatus::Succeeded, with(None), None);
                self.settle(run);
                return;
            }
            (None, Exit::NotStarted) => Why::NotStarted,
            (None, Exit::Lost) => Why::HostLost,
            (None, _) => Why::Exit,
        };
        let retries = view.def.nodes.get(node).and_then(|d| d.retries);
        match retries.filter(|r| Self::moves_nodes(view) && current.retries < r.max) {
            Some(r) => {
                let detail = Detail {
                    why: Some(Why::Retry),
                    exit: Some(exit),
                    retry_in_ms: Some(r.delay.0),
                };
                self.node_becomes(run, node, NodeStatus::Ready, detail, None);
            }
            None => self.node_becomes(run, node, NodeStatus::Failed, with(Some(failure)), None),
        }
        self.settle(run);
    }
}

fn uses_slot(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::Running | RunStatus::Pausing | RunStatus::Stopping
    )
}
