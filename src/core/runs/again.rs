//! `node.retry` and `node.skip`: what lets a run go on past a failure.

use crate::contract::id::{ExecutionId, NodeId};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::core::fault::{self, Fault};
use crate::core::record::By;
use crate::core::turn::Turn;

use super::settle;

/// Makes the node READY for another attempt.
pub(in crate::core) fn retry(turn: &mut Turn, id: ExecutionId, node: &NodeId, by: &By) {
    reopen(turn, id, by);
    settle::set_node(turn, id, node, NodeStatus::Ready, None, Some(by.clone()));
    wait_again(turn, id, node, by);
}

/// Skips the node, so that nodes below may go on.
pub(in crate::core) fn skip(turn: &mut Turn, id: ExecutionId, node: &NodeId, by: &By) {
    let Some(run) = turn.state().durable().run(id).cloned() else {
        return;
    };
    let blocked = run.node(node).is_some_and(|n| n.blocks());
    reopen(turn, id, by);
    settle::set_node(
        turn,
        id,
        node,
        NodeStatus::Skipped,
        Some(Why::Command),
        Some(by.clone()),
    );
    if blocked && run.status != RunStatus::Stopping {
        wait_again(turn, id, node, by);
    }
}

/// A run that has ended waits for a run slot again.
fn reopen(turn: &mut Turn, id: ExecutionId, by: &By) {
    let ended = |s| matches!(s, RunStatus::Failed | RunStatus::Stopped);
    if turn
        .state()
        .durable()
        .run(id)
        .is_some_and(|r| ended(r.status))
    {
        settle::set_run(turn, id, RunStatus::Queued, Some(by.clone()));
    }
}

/// Nodes below that never ran wait for their needs again.
fn wait_again(turn: &mut Turn, id: ExecutionId, node: &NodeId, by: &By) {
    let Some(run) = turn.state().durable().run(id).cloned() else {
        return;
    };
    let Some((plan, index)) = run.plan.as_ref().zip(run.index(node)) else {
        return;
    };
    if fault::on(Fault::RetryLeavesDownstream) {
        return;
    }
    for below in plan.downstream(index) {
        if run.nodes[below].can_wait_again() {
            settle::set_node(
                turn,
                id,
                &plan.ids[below],
                NodeStatus::Pending,
                None,
                Some(by.clone()),
            );
        }
    }
}
