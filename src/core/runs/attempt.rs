//! How attempts end: by themselves, by their timeout, or killed.

use crate::contract::id::{ExecutionId, NodeId};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::core::audit::AuditEntry;
use crate::core::effect::Effect;
use crate::core::fault::{self, Fault};
use crate::core::record::{AttemptEnd, Ending, Record};
use crate::core::state::run::{Node, Run};
use crate::core::turn::Turn;

use super::settle;
use super::stop::GRACE_MS;

/// An attempt has ended. What an attempt that is not the current one says changes nothing.
pub(in crate::core) fn ended(
    turn: &mut Turn,
    id: ExecutionId,
    node: &NodeId,
    attempt: u32,
    end: AttemptEnd,
) {
    let found = turn.state().durable().run(id).cloned();
    let current = |n: &Node| {
        let same = n.attempt == attempt || fault::on(Fault::StaleReportCounts);
        n.status == NodeStatus::Running && same
    };
    let Some((run, index)) = found
        .and_then(|r| r.index(node).map(|i| (r, i)))
        .filter(|(r, i)| current(&r.nodes[*i]))
    else {
        return stale(turn, id, node, attempt, end);
    };
    let state = &run.nodes[index];
    let (to, why) = outcome(state, end);
    let retry = (to == NodeStatus::Failed)
        .then(|| retry_delay(&run, index))
        .flatten();
    let (to, why, attempt, retry) = match retry {
        Some(delay) => (
            NodeStatus::Ready,
            Some(Why::Retry),
            state.attempt + 1,
            Some(delay),
        ),
        None => (to, why, state.attempt, None),
    };
    let workflow = run.workflow.clone();
    // A change copies a run that somebody keeps.
    drop(run);
    turn.emit(Record::NodeStatus {
        run: id,
        workflow,
        node: node.clone(),
        from: NodeStatus::Running,
        to,
        attempt,
        why,
        end: Some(end),
        deadline: retry.map(|delay| turn.now.plus(delay)),
        retry_in: retry,
        by: None,
    });
    settle::run(turn, id);
}

fn outcome(node: &Node, end: AttemptEnd) -> (NodeStatus, Option<Why>) {
    let clean = end == AttemptEnd::Code(0);
    match (node.ending, end) {
        (Some(Ending::RunStop), _) if clean && fault::on(Fault::StopExitZeroSucceeds) => {
            (NodeStatus::Succeeded, None)
        }
        (Some(Ending::RunStop), _) => (NodeStatus::Stopped, Some(Why::RunStopped)),
        (Some(Ending::Timeout), _) if clean && fault::on(Fault::TimeoutExitZeroSucceeds) => {
            (NodeStatus::Succeeded, None)
        }
        (Some(Ending::Timeout), _) => (NodeStatus::Failed, Some(Why::Timeout)),
        (None, AttemptEnd::Code(0)) => (NodeStatus::Succeeded, None),
        (None, AttemptEnd::Code(_) | AttemptEnd::Signal(_)) => {
            (NodeStatus::Failed, Some(Why::Exit))
        }
        (None, AttemptEnd::NotStarted) => (NodeStatus::Failed, Some(Why::NotStarted)),
        (None, AttemptEnd::Lost) => (NodeStatus::Failed, Some(Why::HostLost)),
    }
}

/// Returns how long to wait before the next attempt; none where no retry is left or the run stops.
fn retry_delay(run: &Run, index: usize) -> Option<u64> {
    if run.status == RunStatus::Stopping && !fault::on(Fault::RetryWhileStopping) {
        return None;
    }
    let retries = run.plan.as_ref()?.node(index)?.retries?;
    let node = &run.nodes[index];
    let used = node.attempt - node.first_attempt;
    let most = retries.max + u32::from(fault::on(Fault::RetryOffByOne));
    (used < most).then_some(retries.delay.0)
}

fn stale(turn: &mut Turn, run: ExecutionId, node: &NodeId, attempt: u32, end: AttemptEnd) {
    turn.emit(Record::StaleReport {
        run,
        node: node.clone(),
        attempt,
        end,
    });
    turn.audit(AuditEntry {
        kind: "stale_exit".into(),
        channel: "SYSTEM".into(),
        actor: "SYSTEM".into(),
        target: Some(format!("node:{run}/{node}")),
        detail: Some(format!("attempt {attempt}: {end:?}")),
        ..AuditEntry::default()
    });
}

/// An attempt has taken longer than its node's timeout: it is told to end.
pub(in crate::core) fn time_out(turn: &mut Turn, id: ExecutionId, index: usize) {
    let Some((node, attempt)) = named(turn, id, index) else {
        return;
    };
    let kill_at = Some(turn.now.plus(GRACE_MS));
    turn.emit(Record::AttemptEnding {
        run: id,
        node: node.clone(),
        ending: Ending::Timeout,
        kill_at,
    });
    turn.effect(Effect::Stop {
        run: id,
        node,
        attempt,
        kill: false,
    });
}

/// An attempt did not end within its grace: it is killed.
pub(in crate::core) fn kill(turn: &mut Turn, id: ExecutionId, index: usize) {
    let Some((node, attempt)) = named(turn, id, index) else {
        return;
    };
    let ending = turn
        .state()
        .durable()
        .run(id)
        .and_then(|r| r.nodes[index].ending)
        .unwrap_or(Ending::RunStop);
    turn.emit(Record::AttemptEnding {
        run: id,
        node: node.clone(),
        ending,
        kill_at: None,
    });
    if !fault::on(Fault::KillForgotten) {
        turn.effect(Effect::Stop {
            run: id,
            node,
            attempt,
            kill: true,
        });
    }
}

fn named(turn: &Turn, id: ExecutionId, index: usize) -> Option<(NodeId, u32)> {
    let run = turn.state().durable().run(id)?;
    Some((
        run.plan.as_ref()?.ids.get(index)?.clone(),
        run.nodes.get(index)?.attempt,
    ))
}
