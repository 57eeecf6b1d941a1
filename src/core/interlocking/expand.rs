//! Targets and selectors become single things to act on, on the server, at most 200, the oldest first (C25).

use crate::contract::id::{ExecutionId, WorkflowId};
use crate::contract::target::{MAX_TARGETS, Target};
use crate::core::fault::{self, Fault};
use crate::core::record::Holder;
use crate::core::runs::act::{Act, One};
use crate::core::state::State;
use crate::core::state::run::Run;

/// What a target came to.
pub(super) struct Expanded {
    pub ones: Vec<One>,
    /// How many matched, where that was more than 200.
    pub matched: Option<u64>,
}

/// Who asks: an engine's selectors stay within what its supervisor owns.
#[derive(Clone, Copy)]
pub(super) enum For {
    Engine(u32),
    Operator,
}

/// Expands a target.
pub(super) fn expand(
    state: &State,
    act: &Act,
    target: &Target,
    by: For,
    holder: &Holder,
) -> Expanded {
    let whole = |ones| Expanded {
        ones,
        matched: None,
    };
    match target {
        Target::Execution(run) => whole(vec![One::Run(*run)]),
        Target::Nodes(nodes) => whole(
            nodes
                .iter()
                .map(|(x, n)| One::Node(*x, n.clone()))
                .collect(),
        ),
        Target::Workflow(workflow) if matches!(act, Act::Start { .. }) => {
            whole(vec![One::Workflow(workflow.clone())])
        }
        Target::Workflow(workflow) => of_workflow(state, workflow, by),
        Target::OwnedRunning => cut(live(state, by, |_| true)),
        Target::OwnedHeld => cut(live(state, by, |run| run.is_held_by(holder))),
        // No operation that is served takes these; the shape check refuses them.
        Target::Input(_) | Target::Server => whole(Vec::new()),
    }
}

fn of_workflow(state: &State, workflow: &WorkflowId, by: For) -> Expanded {
    let durable = state.durable();
    let itself = One::Workflow(workflow.clone());
    let owned = match by {
        For::Engine(number) => super::owner::of(durable, &itself) == Some(number),
        For::Operator => true,
    };
    // An unknown or foreign workflow is answered as such, never as an empty selection.
    if !durable.workflows.contains_key(workflow) || !owned {
        return Expanded {
            ones: vec![itself],
            matched: None,
        };
    }
    if fault::on(Fault::SelectorTakesEnded) {
        return cut(durable
            .runs
            .values()
            .filter(|r| r.workflow == *workflow)
            .map(|r| r.id)
            .collect());
    }
    let range = (workflow.clone(), ExecutionId(0))..=(workflow.clone(), ExecutionId(u64::MAX));
    cut(state
        .index()
        .live
        .range(range)
        .map(|(_, run)| *run)
        .collect())
}

fn live(state: &State, by: For, wanted: impl Fn(&Run) -> bool) -> Vec<ExecutionId> {
    let For::Engine(number) = by else {
        return Vec::new();
    };
    let durable = state.durable();
    let mut runs: Vec<ExecutionId> = Vec::new();
    let Some(supervisor) = durable.supervisors.get(&number) else {
        return runs;
    };
    for unit in &supervisor.def.owns {
        if let crate::contract::unit::Unit::Workflow(workflow) = unit {
            let range =
                (workflow.clone(), ExecutionId(0))..=(workflow.clone(), ExecutionId(u64::MAX));
            let of_workflow = state.index().live.range(range).map(|(_, run)| *run);
            runs.extend(of_workflow.filter(|run| durable.run(*run).is_some_and(|r| wanted(r))));
        }
    }
    runs.sort_unstable();
    runs
}

fn cut(mut runs: Vec<ExecutionId>) -> Expanded {
    if fault::on(Fault::SelectorNewestFirst) {
        runs.reverse();
    }
    let most = if fault::on(Fault::SelectorUncut) {
        usize::MAX
    } else {
        MAX_TARGETS
    };
    let matched = (runs.len() > most).then_some(runs.len() as u64);
    Expanded {
        ones: runs.into_iter().take(most).map(One::Run).collect(),
        matched,
    }
}
