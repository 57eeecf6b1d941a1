//! Check `allowedCommands`: what the supervisor's engine may command at all.

use super::initiative::op;
use super::passage::{Passage, Request, Stop};
use crate::contract::code::Code;
use crate::core::fault::{self, Fault};
use crate::core::state::supervisor::Supervisor;

/// How many notifies a supervisor may send in any minute (C22).
const NOTIFIES_MOST: usize = 60;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    let answer = matches!(
        p.request,
        Some(Request::Verdict { .. } | Request::NoOpinion { .. })
    );
    let op = op(p);
    let allowed = p
        .supervisor
        .def
        .allowed_commands
        .iter()
        .any(|pattern| pattern.matches(op));
    if !answer && !allowed && !fault::on(Fault::AllowedSkipped) {
        let message = format!("{op} is not in this supervisor's `allowedCommands`; have it added");
        return Err(Stop::refused(
            Code::CommandNotAllowed,
            "allowedCommands",
            message,
        ));
    }
    let notify = matches!(p.request, Some(Request::Notify { .. }));
    if notify && Supervisor::within_minute(&p.supervisor.notifies, p.now) >= NOTIFIES_MOST {
        let message =
            format!("{NOTIFIES_MOST} notifies passed in the last minute, the most it may; wait");
        return Err(Stop::refused(Code::RateLimited, "notify rate", message));
    }
    Ok(())
}
