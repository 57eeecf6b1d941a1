//! Permits: what a command needs to have an effect on a target. Only [`admit`] makes one, and only
//! [`apply`] takes one, so no effect gets around the checks.

use super::{exists, if_status, owner};
use crate::contract::id::ExecutionId;
use crate::contract::outcome::{Outcome, TargetResult};
use crate::contract::time::HostTime;
use crate::core::audit::AuditEntry;
use crate::core::fault::{self, Fault};
use crate::core::record::{By, Holder, Record, StopMode};
use crate::core::runs::act::{self, Act, Caller, No, One};
use crate::core::runs::{again, hold, settle, start, stop};
use crate::core::state::State;
use crate::core::turn::Turn;

/// A command that has passed every check for one target, at this moment.
pub(in crate::core) struct Permit<'a> {
    act: &'a Act,
    one: One,
    caller: &'a Caller,
}

/// Whose ownership a target needs.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) enum Owned {
    /// This owner's, or nobody's where none.
    By(Option<u32>),
    /// Anybody's: the host itself commands.
    Exempt,
}

/// Runs the checks of one target in order: exists → ownership → `ifStatus` → state.
pub(in crate::core) fn admit<'a>(
    state: &State,
    act: &'a Act,
    one: &One,
    if_status: Option<&str>,
    caller: &'a Caller,
    owned: Owned,
    now: HostTime,
) -> Result<Permit<'a>, No> {
    let durable = state.durable();
    let own = || match owned {
        Owned::By(number) => owner::check(durable, one, number),
        Owned::Exempt => Ok(()),
    };
    if fault::on(Fault::OwnershipBeforeExistence) {
        own()?;
    }
    exists::check(durable, one)?;
    own()?;
    if fault::on(Fault::IfStatusAfterState) {
        act::judge(state, act, one, caller, now)?;
    }
    if_status::check(durable, one, if_status)?;
    act::judge(state, act, one, caller, now)?;
    Ok(Permit {
        act,
        one: one.clone(),
        caller,
    })
}

/// Applies a permitted command to its target: the change, its place in the run's order, what follows.
pub(in crate::core) fn apply(turn: &mut Turn, permit: Permit) -> TargetResult {
    let Permit { act, one, caller } = permit;
    let by = &caller.by;
    let mut detail = None;
    let run = match (&one, act) {
        (One::Workflow(workflow), Act::Start { params, priority }) => {
            start::perform(turn, workflow, params, *priority, by)
        }
        (One::Run(run) | One::Node(run, _), _) => Some(*run),
        (One::Workflow(_), _) => None,
    };
    let Some(id) = run else {
        return TargetResult {
            target: one.to_string(),
            outcome: Outcome::NotFound,
            detail,
            order: None,
        };
    };
    let node = match &one {
        One::Node(_, node) => Some(node.clone()),
        _ => None,
    };
    match (act, &node) {
        (Act::Pause, _) => hold::pause(turn, id, caller),
        (Act::Resume, _) => detail = hold::resume(turn, id, caller),
        (Act::ResumeHeld, _) => detail = hold::resume_held(turn, id, caller),
        (
            Act::Stop {
                mode,
                grace,
                drain_limit,
            },
            _,
        ) => stop::perform(turn, id, *mode, *grace, *drain_limit, by),
        (Act::Retry, Some(node)) => again::retry(turn, id, node, by),
        (Act::Skip, Some(node)) => again::skip(turn, id, node, by),
        (Act::Start { .. }, _) | (Act::Retry | Act::Skip, None) => {}
    }
    let order = number(turn, id, node, act, detail.clone(), by);
    settle::run(turn, id);
    let target = if matches!(act, Act::Start { .. }) {
        format!("execution:{id}")
    } else {
        one.to_string()
    };
    TargetResult {
        target,
        outcome: Outcome::Applied,
        detail,
        order,
    }
}

/// Gives the command its place in the run's order and tells the owner of it.
fn number(
    turn: &mut Turn,
    id: ExecutionId,
    node: Option<crate::contract::id::NodeId>,
    act: &Act,
    detail: Option<String>,
    by: &By,
) -> Option<u64> {
    let run = turn.state().durable().run(id)?;
    let order = run.order + u64::from(!fault::on(Fault::OrderStandsStill));
    let workflow = run.workflow.clone();
    let (op, by) = (act.op(), by.clone());
    turn.emit(Record::ControlOutcome {
        run: id,
        workflow,
        node,
        op,
        outcome: Outcome::Applied,
        detail,
        order,
        by,
    });
    Some(order)
}

/// Makes the audit row for one target of a command.
pub(in crate::core) fn row(
    act: &Act,
    caller: &Caller,
    key: Option<&str>,
    result: &TargetResult,
) -> AuditEntry {
    AuditEntry {
        kind: "command".into(),
        channel: caller.by.channel.as_str().into(),
        actor: caller.by.actor.clone(),
        op: Some(act.op().as_str().into()),
        target: Some(result.target.clone()),
        outcome: Some(result.outcome.as_str().into()),
        detail: result.detail.clone(),
        cause: caller.by.cause.clone(),
        reason: caller.by.reason.clone(),
        key: key.map(str::to_owned),
        order: result.order,
        ..AuditEntry::default()
    }
}

/// Makes the result of a target that the command has no effect on.
pub(in crate::core) fn unchanged(
    one: &One,
    outcome: Outcome,
    detail: Option<String>,
) -> TargetResult {
    TargetResult {
        target: one.to_string(),
        outcome,
        detail,
        order: None,
    }
}

/// Stops a run at once by the host itself (C6, SYSTEM).
pub(in crate::core) fn by_host(turn: &mut Turn, id: ExecutionId, by: By) {
    let act = Act::Stop {
        mode: StopMode::Immediate,
        grace: stop::GRACE_MS,
        drain_limit: None,
    };
    let caller = Caller {
        by,
        holder: Holder::System,
    };
    let now = turn.now;
    let permit = admit(
        turn.state(),
        &act,
        &One::Run(id),
        None,
        &caller,
        Owned::Exempt,
        now,
    );
    if let Ok(permit) = permit {
        let result = apply(turn, permit);
        turn.audit(row(&act, &caller, None, &result));
    }
}
