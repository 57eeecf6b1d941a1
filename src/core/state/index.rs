//! What decisions look up often, derived from the durable state and rebuilt when the store opens.

use std::collections::BTreeSet;

use crate::contract::id::{ExecutionId, ReviewId, WorkflowId};
use crate::contract::status::{NodeStatus, RunStatus};
use crate::contract::time::HostTime;
use crate::core::record::StopMode;

use super::run::Run;
use super::{Durable, Review};

/// Something that happens by itself when its time comes. The order is the order among equals (C22, C26).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A review has waited long enough.
    Review(ReviewId),
    /// A run has taken too long.
    RunTimeout(ExecutionId),
    /// A drain has taken too long.
    DrainLimit(ExecutionId),
    /// An attempt did not end within the grace.
    Kill(ExecutionId, usize),
    /// An attempt has taken too long.
    AttemptTimeout(ExecutionId, usize),
    /// A retry delay is over.
    Retry(ExecutionId, usize),
}

/// The derived side of the state.
#[derive(Debug, Default, PartialEq)]
pub struct Index {
    /// What is due when.
    pub due: BTreeSet<(HostTime, Due)>,
    /// QUEUED runs, the next to start first.
    pub queue: BTreeSet<(i32, ExecutionId)>,
    /// Nodes that could start if there were a slot, the next first.
    pub startable: BTreeSet<(i32, ExecutionId, usize)>,
    /// Reviews that have not ended, by the supervisor that is asked.
    pub open_reviews: BTreeSet<(u32, ReviewId)>,
    /// Runs that have not ended, by workflow.
    pub live: BTreeSet<(WorkflowId, ExecutionId)>,
    /// How many runs use a run slot.
    pub running_runs: u32,
    /// How many nodes run.
    pub running_nodes: u32,
}

impl Index {
    /// Works it out from the durable state.
    #[must_use]
    pub fn rebuild(durable: &Durable) -> Self {
        let mut index = Self::default();
        for run in durable.runs.values() {
            index.add_run(run, durable.now);
        }
        for review in durable.reviews.values() {
            index.add_review(review);
        }
        index
    }

    /// Takes in an open review.
    pub(super) fn add_review(&mut self, review: &Review) {
        if review.end.is_none() {
            self.due.insert((review.deadline, Due::Review(review.id)));
            self.open_reviews.insert((review.supervisor, review.id));
        }
    }

    /// Takes out a review.
    pub(super) fn remove_review(&mut self, review: &Review) {
        self.due.remove(&(review.deadline, Due::Review(review.id)));
        self.open_reviews.remove(&(review.supervisor, review.id));
    }

    /// Returns the open reviews of a supervisor, the oldest first. Closed ones stay for a day, so nobody may look
    /// through all of them to find the few that are open.
    pub fn open_reviews(&self, supervisor: u32) -> impl Iterator<Item = ReviewId> + '_ {
        let all = (supervisor, ReviewId(0))..=(supervisor, ReviewId(u64::MAX));
        self.open_reviews.range(all).map(|(_, id)| *id)
    }

    /// Takes in everything about a run and its nodes.
    pub(super) fn add_run(&mut self, run: &Run, clock: HostTime) {
        self.run_facts(run, true);
        for index in 0..run.nodes.len() {
            self.node_facts(run, index, clock, true);
        }
    }

    /// Adds or removes what follows from the run itself, not from its nodes.
    pub(super) fn run_facts(&mut self, run: &Run, add: bool) {
        let id = run.id;
        if run.status == RunStatus::Queued {
            set(&mut self.queue, (-run.priority, id), add);
        }
        if run.status.uses_slot() {
            count(&mut self.running_runs, add);
        }
        if run.status.is_terminal() {
            return;
        }
        set(&mut self.live, (run.workflow.clone(), id), add);
        if let Some(at) = run.deadline.filter(|_| !run.timed_out) {
            set(&mut self.due, (at, Due::RunTimeout(id)), add);
        }
        if let Some(at) = run
            .stop
            .filter(|s| s.mode == StopMode::Drain)
            .and_then(|s| s.deadline)
        {
            set(&mut self.due, (at, Due::DrainLimit(id)), add);
        }
    }

    /// Adds or removes what follows from one node and its run's status.
    pub(super) fn node_facts(&mut self, run: &Run, index: usize, clock: HostTime, add: bool) {
        let (id, node) = (run.id, &run.nodes[index]);
        match node.status {
            NodeStatus::Ready => {
                let startable = (-run.priority, id, index);
                let retry = node.deadline.map(|at| (at, Due::Retry(id, index)));
                match retry {
                    Some(retry) if !add => {
                        self.due.remove(&retry);
                        self.startable.remove(&startable);
                    }
                    // A delay that is over stays in the durable state; the state's own clock says so.
                    Some(retry) if retry.0 > clock => {
                        self.due.insert(retry);
                    }
                    _ if run.status == RunStatus::Running || !add => {
                        set(&mut self.startable, startable, add)
                    }
                    _ => {}
                }
            }
            NodeStatus::Running => {
                count(&mut self.running_nodes, add);
                match (node.ending, node.kill_at, node.deadline) {
                    (Some(_), Some(at), _) => set(&mut self.due, (at, Due::Kill(id, index)), add),
                    (None, _, Some(at)) => {
                        set(&mut self.due, (at, Due::AttemptTimeout(id, index)), add)
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

fn set<T: Ord>(of: &mut BTreeSet<T>, item: T, add: bool) {
    if add {
        of.insert(item);
    } else {
        of.remove(&item);
    }
}

fn count(number: &mut u32, add: bool) {
    *number = if add {
        number.saturating_add(1)
    } else {
        number.saturating_sub(1)
    };
}
