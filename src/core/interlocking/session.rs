//! Check `session`: a directive comes by the supervisor's live session or names it (C10).

use super::passage::{Passage, Stop};
use crate::contract::code::Code;
use crate::core::fault::{self, Fault};

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    let live = p
        .state
        .transient
        .live
        .get(&p.supervisor.number)
        .map(|l| l.session);
    // A unary call that names no session is good while there is no live one to be named.
    if p.session == live || fault::on(Fault::StaleSessionAccepted) {
        return Ok(());
    }
    let message = match (live, p.session) {
        (Some(live), Some(_)) => {
            format!("the live session is {live}; a newer one has taken this one's place")
        }
        (Some(live), None) => {
            format!("name the live session ({live}), by its stream or in the call")
        }
        (None, _) => {
            "the session has ended; connect again, or send without naming a session".to_owned()
        }
    };
    Err(Stop::refused(Code::StaleSession, "session", message))
}
