//! `run.pause`, `run.resume`, `run.resumeHeld`: the hold ledger (C28).

use crate::contract::id::ExecutionId;
use crate::contract::status::RunStatus;
use crate::core::fault::{self, Fault};
use crate::core::record::{Hold, Holder, Record};
use crate::core::turn::Turn;

use super::act::{Caller, clears};
use super::settle;

/// Adds the caller's hold.
pub(in crate::core) fn pause(turn: &mut Turn, id: ExecutionId, caller: &Caller) {
    let Some(status) = turn.state().durable().run(id).map(|r| r.status) else {
        return;
    };
    let holder = if fault::on(Fault::PauseDropsHolder) {
        Holder::System
    } else {
        caller.holder.clone()
    };
    let hold = Hold {
        holder,
        reason: caller.by.reason.clone(),
        since_wall: turn.wall(),
    };
    turn.emit(Record::HoldAdded { run: id, hold });
    let to = match status {
        RunStatus::Queued => RunStatus::Paused,
        RunStatus::Running => RunStatus::Pausing,
        _ => return,
    };
    settle::set_run(turn, id, to, Some(caller.by.clone()));
}

/// Clears the holds that the caller may clear; returns the detail for the result.
pub(in crate::core) fn resume(turn: &mut Turn, id: ExecutionId, caller: &Caller) -> Option<String> {
    let run = turn.state().durable().run(id)?;
    let mut cleared: Vec<Holder> = run
        .holds
        .iter()
        .map(|h| &h.holder)
        .filter(|h| clears(caller, h))
        .cloned()
        .collect();
    if fault::on(Fault::ResumeForgetsHold) && cleared.len() > 1 {
        cleared.pop();
    }
    let names: Vec<String> = cleared.iter().map(Holder::to_string).collect();
    let left = drop_holds(turn, id, cleared, caller);
    let cleared = format!("cleared {}", names.join(", "));
    Some(left.map_or(cleared.clone(), |left| format!("{cleared}; {left}")))
}

/// Clears the caller's own hold; returns the detail for the result.
pub(in crate::core) fn resume_held(
    turn: &mut Turn,
    id: ExecutionId,
    caller: &Caller,
) -> Option<String> {
    drop_holds(turn, id, vec![caller.holder.clone()], caller)
}

/// Clears holds and goes on when none is left; says who still holds.
fn drop_holds(
    turn: &mut Turn,
    id: ExecutionId,
    holders: Vec<Holder>,
    caller: &Caller,
) -> Option<String> {
    turn.emit(Record::HoldsCleared { run: id, holders });
    let run = turn.state().durable().run(id)?;
    if !run.holds.is_empty() {
        return Some(format!("STILL_HELD by {}", run.holders()));
    }
    let to = match run.status {
        RunStatus::Pausing => RunStatus::Running,
        RunStatus::Paused => RunStatus::Queued,
        _ => return None,
    };
    settle::set_run(turn, id, to, Some(caller.by.clone()));
    None
}
