//! What follows from a change of a run, drawn at once: nodes below failures are skipped, nodes whose
//! needs are satisfied become READY, and the run ends, stops or is paused.

use crate::contract::id::{ExecutionId, NodeId};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::core::fault::{self, Fault};
use crate::core::record::{By, Record};
use crate::core::state::run::{Node, Plan, Run};
use crate::core::turn::Turn;

/// Draws every consequence for one run.
pub(in crate::core) fn run(turn: &mut Turn, id: ExecutionId) {
    let Some(run) = turn.state().durable().run(id) else {
        return;
    };
    if run.status.is_terminal() {
        return;
    }
    let plan = run
        .plan
        .clone()
        .filter(|_| run.status != RunStatus::Stopping);
    if let Some(plan) = plan {
        // Nobody keeps the run itself while it changes: a change copies a run that is shared.
        for i in below_failures(run, &plan) {
            let (node, why) = (&plan.ids[i], Some(Why::Upstream));
            set_node(turn, id, node, NodeStatus::Skipped, why, None);
        }
        for i in ready(turn, id, &plan) {
            set_node(turn, id, &plan.ids[i], NodeStatus::Ready, None, None);
        }
    }
    end_or_pause(turn, id);
}

/// Returns the nodes that a failure above has made impossible.
fn below_failures(run: &Run, plan: &Plan) -> Vec<usize> {
    if !run.nodes.iter().any(Node::blocks) {
        return Vec::new();
    }
    let mut below = Vec::new();
    let passes =
        |node: &Node| node.status == NodeStatus::Skipped && fault::on(Fault::UpstreamSkipSatisfies);
    let mut blocked: Vec<bool> = run.nodes.iter().map(|n| n.blocks() && !passes(n)).collect();
    let mut waits: Vec<bool> = run
        .nodes
        .iter()
        .map(|n| n.status == NodeStatus::Pending)
        .collect();
    let mut again = true;
    while again {
        again = false;
        for i in 0..waits.len() {
            if waits[i] && plan.needs[i].iter().any(|n| blocked[*n]) {
                (waits[i], again) = (false, true);
                blocked[i] = !fault::on(Fault::UpstreamSkipSatisfies);
                below.push(i);
            }
        }
    }
    below
}

/// Returns the nodes whose needs are satisfied.
fn ready(turn: &Turn, id: ExecutionId, plan: &Plan) -> Vec<usize> {
    let Some(run) = turn.state().durable().run(id) else {
        return Vec::new();
    };
    let satisfied = |n: &usize| {
        let node = &run.nodes[*n];
        node.satisfies()
            || fault::on(Fault::UpstreamSkipSatisfies) && node.status == NodeStatus::Skipped
    };
    let waits = |i: usize| run.nodes[i].status == NodeStatus::Pending;
    (0..run.nodes.len())
        .filter(|i| waits(*i) && plan.needs[*i].iter().all(satisfied))
        .collect()
}

fn end_or_pause(turn: &mut Turn, id: ExecutionId) {
    let Some(run) = turn.state().durable().run(id) else {
        return;
    };
    if run.has_running() {
        return;
    }
    let startable = run
        .nodes
        .iter()
        .any(|n| matches!(n.status, NodeStatus::Pending | NodeStatus::Ready));
    let to = match run.status {
        RunStatus::Stopping => RunStatus::Stopped,
        _ if !startable && run.nodes.iter().all(Node::satisfies) => RunStatus::Succeeded,
        _ if !startable => RunStatus::Failed,
        RunStatus::Pausing => RunStatus::Paused,
        _ => return,
    };
    set_run(turn, id, to, None);
}

/// Changes a run's status.
pub(super) fn set_run(turn: &mut Turn, id: ExecutionId, to: RunStatus, by: Option<By>) {
    let Some(run) = turn.state().durable().run(id) else {
        return;
    };
    let record = Record::RunStatus {
        run: id,
        workflow: run.workflow.clone(),
        from: run.status,
        to,
        by,
    };
    turn.emit(record);
}

/// Changes a node's status where no attempt and no deadline is in play. READY counts the next attempt.
pub(super) fn set_node(
    turn: &mut Turn,
    id: ExecutionId,
    node: &NodeId,
    to: NodeStatus,
    why: Option<Why>,
    by: Option<By>,
) {
    let Some(run) = turn.state().durable().run(id) else {
        return;
    };
    let Some(found) = run.node(node) else { return };
    let record = Record::NodeStatus {
        run: id,
        workflow: run.workflow.clone(),
        node: node.clone(),
        from: found.status,
        to,
        attempt: found.attempt + u32::from(to == NodeStatus::Ready),
        why,
        end: None,
        deadline: None,
        retry_in: None,
        by,
    };
    turn.emit(record);
}
