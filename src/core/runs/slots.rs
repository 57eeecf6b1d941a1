//! Run slots and node slots: by priority, then age (of the run), then node id.

use crate::contract::id::ExecutionId;
use crate::contract::status::{NodeStatus, RunStatus};
use crate::core::effect::{Effect, StartEffect};
use crate::core::fault::{self, Fault};
use crate::core::record::Record;
use crate::core::turn::Turn;

use super::settle;

/// Hands out every free slot.
pub(in crate::core) fn fill(turn: &mut Turn) {
    fill_runs(turn);
    fill_nodes(turn);
}

fn fill_runs(turn: &mut Turn) {
    let most = turn.state().durable().settings.max_running_runs
        + u32::from(fault::on(Fault::RunSlotOffByOne));
    while turn.state().index().running_runs < most {
        let queue = &turn.state().index().queue;
        let next = if fault::on(Fault::PriorityIgnored) {
            queue.iter().map(|(_, run)| *run).min()
        } else {
            queue.first().map(|(_, run)| *run)
        };
        let Some(run) = next else { return };
        settle::set_run(turn, run, RunStatus::Running, None);
    }
}

fn fill_nodes(turn: &mut Turn) {
    let most = turn.state().durable().settings.max_running_nodes
        + u32::from(fault::on(Fault::NodeSlotOffByOne));
    while turn.state().index().running_nodes < most {
        let Some((_, run, node)) = turn.state().index().startable.first().copied() else {
            return;
        };
        start(turn, run, node);
    }
}

fn start(turn: &mut Turn, id: ExecutionId, index: usize) {
    let Some(run) = turn.state().durable().run(id) else {
        return;
    };
    let Some((plan, node)) = run.plan.as_ref().zip(run.nodes.get(index)) else {
        return;
    };
    let Some(def) = plan.node(index) else { return };
    let effect = start_effect(run, index);
    let record = Record::NodeStatus {
        run: id,
        workflow: run.workflow.clone(),
        node: plan.ids[index].clone(),
        from: node.status,
        to: NodeStatus::Running,
        attempt: node.attempt,
        why: None,
        end: None,
        deadline: def.timeout.map(|t| turn.now.plus(t.0)),
        retry_in: None,
        by: None,
    };
    turn.emit(record);
    if let Some(effect) = effect {
        turn.effect(Effect::Start(Box::new(effect)));
    }
}

/// Makes the effect that begins a node's newest attempt; also for taking attempts up after a restart.
pub(in crate::core) fn start_effect(
    run: &crate::core::state::run::Run,
    index: usize,
) -> Option<StartEffect> {
    let plan = run.plan.as_ref()?;
    let def = plan.node(index)?;
    let mut env = run.params.clone();
    env.extend(def.env.iter().map(|(k, v)| (k.clone(), v.clone())));
    Some(StartEffect {
        run: run.id,
        node: plan.ids.get(index)?.clone(),
        attempt: run.nodes.get(index)?.attempt,
        argv: def.run.clone(),
        env,
        cwd: def.cwd.clone(),
    })
}
