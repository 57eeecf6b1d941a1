//! Check `initiative`: commands by a tick or at own initiative have a reason, are listed, and are few (C21).

use super::passage::{Passage, Request, Stop};
use crate::contract::code::Code;
use crate::contract::operation::Op;
use crate::contract::time::HostTime;
use crate::core::fault::{self, Fault};
use crate::core::state::supervisor::Supervisor;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    if !p.initiative {
        return Ok(());
    }
    let op = op(p);
    let reasonless = p.directive.reason.as_deref().is_none_or(str::is_empty);
    if reasonless && !fault::on(Fault::ReasonSkipped) {
        let message = "reason: a command by a tick or at own initiative says why; give one";
        return Err(Stop::refused(Code::ReasonRequired, "initiative", message));
    }
    let def = &p.supervisor.def;
    if !def.initiative.iter().any(|pattern| pattern.matches(op))
        && !fault::on(Fault::InitiativeListSkipped)
    {
        let message = format!(
            "{op} is not in this supervisor's `initiative`; cite an event, or have it added"
        );
        return Err(Stop::refused(
            Code::InitiativeNotAllowed,
            "initiative",
            message,
        ));
    }
    let most =
        def.max_initiative_per_minute as usize + usize::from(fault::on(Fault::InitiativeOffByOne));
    let now = if fault::on(Fault::InitiativeWindowShort) {
        HostTime(p.now.0 + 1_000)
    } else {
        p.now
    };
    if Supervisor::within_minute(&p.supervisor.initiative, now) >= most {
        let message =
            format!("{most} such commands passed in the last minute, the most it may; wait");
        return Err(Stop::refused(
            Code::InitiativeRateLimited,
            "initiative",
            message,
        ));
    }
    Ok(())
}

/// Returns the operation that the directive asks for.
pub(super) fn op(p: &Passage) -> Op {
    match &p.request {
        Some(Request::Command(call)) => call.act.op(),
        _ => Op::Notify,
    }
}
