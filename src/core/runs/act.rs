//! What a command asks for, and what it would come to in the state as it is (operations.md).

use std::collections::BTreeMap;

use crate::contract::code::Code;
use crate::contract::id::{ExecutionId, NodeId, WorkflowId};
use crate::contract::operation::Op;
use crate::contract::outcome::Outcome;
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;
use crate::core::effect::Refusal;
use crate::core::fault::{self, Fault};
use crate::core::record::{By, Channel, Holder, StopMode};
use crate::core::state::run::{Node, Run};
use crate::core::state::{Durable, State};

use super::start;

/// A command with its arguments, checked for form.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::core) enum Act {
    Start {
        params: BTreeMap<String, String>,
        priority: i32,
    },
    Pause,
    Resume,
    ResumeHeld,
    Stop {
        mode: StopMode,
        grace: u64,
        drain_limit: Option<u64>,
    },
    Retry,
    Skip,
}

impl Act {
    /// Returns the operation.
    pub fn op(&self) -> Op {
        match self {
            Self::Start { .. } => Op::RunStart,
            Self::Pause => Op::RunPause,
            Self::Resume => Op::RunResume,
            Self::ResumeHeld => Op::RunResumeHeld,
            Self::Stop { .. } => Op::RunStop,
            Self::Retry => Op::NodeRetry,
            Self::Skip => Op::NodeSkip,
        }
    }
}

/// One thing that a command acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core) enum One {
    Workflow(WorkflowId),
    Run(ExecutionId),
    Node(ExecutionId, NodeId),
}

impl std::fmt::Display for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workflow(w) => write!(f, "workflow:{w}"),
            Self::Run(x) => write!(f, "execution:{x}"),
            Self::Node(x, n) => write!(f, "node:{x}/{n}"),
        }
    }
}

/// Who commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core) struct Caller {
    /// How it came.
    pub by: By,
    /// The name that its holds carry.
    pub holder: Holder,
}

/// Why a command has no effect on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core) enum No {
    /// The target has this outcome.
    Outcome(Outcome, Option<String>),
    /// The whole command is refused.
    Refused(Refusal),
}

impl No {
    /// Makes the outcome for a state that the command is not for.
    pub fn state(status: impl std::fmt::Display) -> Self {
        Self::Outcome(Outcome::PreconditionFailed, Some(format!("state {status}")))
    }

    fn already() -> Self {
        Self::Outcome(Outcome::AlreadyInState, None)
    }

    fn precondition(detail: String) -> Self {
        Self::Outcome(Outcome::PreconditionFailed, Some(detail))
    }
}

/// Says whether the command would be applied to the target, and why not if not. The last check before
/// the effect, made again at that moment.
pub(in crate::core) fn judge(
    state: &State,
    act: &Act,
    one: &One,
    caller: &Caller,
    now: HostTime,
) -> Result<(), No> {
    let durable = state.durable();
    match (act, one) {
        (Act::Start { params, .. }, One::Workflow(workflow)) => {
            start::judge(state, workflow, params)
        }
        (Act::Retry | Act::Skip, One::Node(run, node)) => judge_node(durable, act, *run, node, now),
        (Act::Pause | Act::Resume | Act::ResumeHeld | Act::Stop { .. }, One::Run(run)) => {
            judge_run(durable, act, *run, caller, now)
        }
        // The shape check lets no such pair through.
        _ => Err(No::Refused(Refusal::new(
            Code::InvalidArgument,
            "shape",
            "the target does not fit the operation",
        ))),
    }
}

fn judge_run(
    durable: &Durable,
    act: &Act,
    run: ExecutionId,
    caller: &Caller,
    now: HostTime,
) -> Result<(), No> {
    let Some(run) = durable.run(run) else {
        return Err(No::Outcome(Outcome::NotFound, None));
    };
    if let Act::Stop {
        mode,
        grace,
        drain_limit,
    } = act
    {
        return judge_stop(run, *mode, *grace, *drain_limit, now);
    }
    if run.status.is_terminal() || run.status == RunStatus::Stopping {
        return Err(No::state(run.status));
    }
    match act {
        Act::Pause if run.is_held_by(&caller.holder) => Err(No::already()),
        Act::Resume if run.holds.is_empty() => Err(No::already()),
        Act::Resume if !run.holds.iter().any(|h| clears(caller, &h.holder)) => {
            Err(No::precondition(format!("STILL_HELD by {}", run.holders())))
        }
        Act::ResumeHeld if !run.is_held_by(&caller.holder) => Err(No::already()),
        _ => Ok(()),
    }
}

/// Says whether a resume by the caller clears this holder's hold (C28).
pub(super) fn clears(caller: &Caller, holder: &Holder) -> bool {
    match holder {
        Holder::Supervisor(_) => true,
        Holder::Person(_) => {
            caller.by.channel == Channel::Operator || fault::on(Fault::EngineClearsPersons)
        }
        Holder::System => false,
    }
}

fn judge_stop(
    run: &Run,
    mode: StopMode,
    grace: u64,
    drain_limit: Option<u64>,
    now: HostTime,
) -> Result<(), No> {
    if run.status.is_terminal() {
        return Err(No::Outcome(
            Outcome::AlreadyInState,
            Some(format!("state {}", run.status)),
        ));
    }
    let Some(stop) = run.stop.filter(|_| run.status == RunStatus::Stopping) else {
        return Ok(());
    };
    let end_of_time = HostTime(u64::MAX);
    let (present, wanted) = match (stop.mode, mode) {
        (StopMode::Drain, StopMode::Immediate) => return Ok(()),
        (StopMode::Immediate, StopMode::Drain) => return Err(No::already()),
        (StopMode::Drain, StopMode::Drain) => (
            stop.deadline.unwrap_or(end_of_time),
            drain_limit.map_or(end_of_time, |ms| now.plus(ms)),
        ),
        (StopMode::Immediate, StopMode::Immediate) => {
            (stop.deadline.unwrap_or(end_of_time), now.plus(grace))
        }
    };
    if wanted < present {
        Ok(())
    } else {
        Err(No::already())
    }
}

fn judge_node(
    durable: &Durable,
    act: &Act,
    run: ExecutionId,
    node: &NodeId,
    now: HostTime,
) -> Result<(), No> {
    let found = durable.run(run).and_then(|r| Some((r, r.index(node)?)));
    let Some((run, index)) = found else {
        return Err(No::Outcome(Outcome::NotFound, None));
    };
    let Some(node) = run.nodes.get(index) else {
        return Err(No::Outcome(Outcome::NotFound, None));
    };
    match act {
        Act::Retry => judge_retry(run, index, node, now),
        _ => judge_skip(run, node, now),
    }
}

fn judge_retry(run: &Run, index: usize, node: &Node, now: HostTime) -> Result<(), No> {
    match node.status {
        NodeStatus::Ready | NodeStatus::Running => return Err(No::already()),
        NodeStatus::Failed | NodeStatus::Stopped | NodeStatus::Skipped => {}
        NodeStatus::Pending
        | NodeStatus::Waiting
        | NodeStatus::Paused
        | NodeStatus::Held
        | NodeStatus::Succeeded => return Err(No::state(node.status)),
    }
    if matches!(run.status, RunStatus::Stopping | RunStatus::Succeeded) {
        return Err(No::state(run.status));
    }
    let Some(plan) = &run.plan else {
        return Err(No::state(run.status));
    };
    let need = plan.needs[index]
        .iter()
        .find(|n| !run.nodes[**n].satisfies());
    if let Some(&need) = need.filter(|_| !fault::on(Fault::RetryUnderFailure)) {
        return Err(No::precondition(format!(
            "need {} is {}",
            plan.ids[need], run.nodes[need].status
        )));
    }
    if let Some(&below) = plan.dependents[index]
        .iter()
        .find(|d| run.nodes[**d].started)
    {
        return Err(No::precondition(format!(
            "dependent {} has started",
            plan.ids[below]
        )));
    }
    past_timeout(run, now)
}

fn judge_skip(run: &Run, node: &Node, now: HostTime) -> Result<(), No> {
    match (node.status, node.why) {
        (NodeStatus::Skipped, Some(Why::Command)) => return Err(No::already()),
        (NodeStatus::Skipped, Some(Why::Upstream)) => {}
        (NodeStatus::Pending | NodeStatus::Ready | NodeStatus::Failed | NodeStatus::Stopped, _) => {
        }
        _ => return Err(No::state(node.status)),
    }
    if run.status == RunStatus::Succeeded {
        return Err(No::state(run.status));
    }
    past_timeout(run, now)
}

/// A run that has ended and whose timeout has passed cannot go on.
fn past_timeout(run: &Run, now: HostTime) -> Result<(), No> {
    if run.status.is_terminal() && run.deadline.is_some_and(|at| at <= now) {
        return Err(No::precondition("timeout".to_owned()));
    }
    Ok(())
}
