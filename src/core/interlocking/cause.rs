//! Check `cause`: what a directive reacts to was sent to this supervisor, not too long ago, and has
//! not caused too much already (C20).

use super::passage::{Passage, Request, Stop};
use crate::contract::code::Code;
use crate::contract::id::{EventId, ReviewId, SessionId};
use crate::contract::time::HostTime;
use crate::core::fault::{self, Fault};
use crate::core::record::Cited;

/// How many commands the newest `Started` can cause.
const STARTED_MOST: u32 = 200;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    if matches!(
        p.request,
        Some(Request::Verdict { .. } | Request::NoOpinion { .. })
    ) {
        return answer(p);
    }
    let cause = p.cause.clone().unwrap_or_default();
    match (cause.as_str(), cause.strip_prefix("event:")) {
        ("tick", _) => {
            let sent = p.state.transient.ticked.contains(&p.supervisor.number);
            if !sent && !fault::on(Fault::TickWithoutTick) {
                return Err(unknown(
                    &cause,
                    "no tick was sent to this supervisor since the host opened",
                ));
            }
            p.initiative = true;
            Ok(())
        }
        ("initiative", _) => {
            p.initiative = true;
            Ok(())
        }
        (_, Some(id)) => event(p, &cause, id),
        _ => Err(unknown(
            &cause,
            "give event:<id> of a signal that was sent to this supervisor, tick or initiative",
        )),
    }
}

fn unknown(cause: &str, message: &str) -> Stop {
    let cause: String = cause.chars().take(80).collect();
    Stop::refused(
        Code::CauseUnknown,
        "cause",
        format!("cause `{cause}`: {message}"),
    )
}

/// A verdict or an explicit silence is for an open request of this supervisor, once.
fn answer(p: &mut Passage) -> Result<(), Stop> {
    let id = match &p.request {
        Some(Request::NoOpinion { answers: None }) => return Ok(()),
        _ => p.answered(),
    };
    let review = id.and_then(|id| p.state.durable().reviews.get(&id));
    let open = review.is_some_and(|r| {
        (r.end.is_none() || fault::on(Fault::VerdictTwice))
            && (r.supervisor == p.supervisor.number || fault::on(Fault::ForeignVerdict))
    });
    if open {
        return Ok(());
    }
    let message = "the request is not open, or not this supervisor's; nothing is left to answer";
    Err(Stop::refused(Code::AnswerNotOpen, "cause", message))
}

fn event(p: &mut Passage, cause: &str, id: &str) -> Result<(), Stop> {
    let not_sent = || unknown(cause, "no such signal was sent to this supervisor");
    let (cited, at, most) = if let Ok(EventId(n)) = id.parse() {
        if n > p.supervisor.last_cursor && !fault::on(Fault::CauseFromFuture) {
            return Err(not_sent());
        }
        let forgotten =
            n <= p.supervisor.cited_floor && !p.supervisor.cited.contains_key(&Cited::Event(n));
        let committed = p.supervisor.committed(n).filter(|_| !forgotten);
        let latest = committed.max(p.delivered.filter(|_| !forgotten));
        (
            Cited::Event(n),
            latest,
            p.supervisor.def.max_commands_per_event,
        )
    } else if let Ok(id) = id.parse::<ReviewId>() {
        let review = p
            .state
            .durable()
            .reviews
            .get(&id)
            .filter(|r| r.supervisor == p.supervisor.number);
        let review = review.ok_or_else(not_sent)?;
        (
            Cited::Review(id),
            Some(review.opened),
            p.supervisor.def.max_commands_per_event,
        )
    } else if let Ok(id) = id.parse::<SessionId>() {
        let newest = p
            .supervisor
            .newest_session
            .filter(|(newest, _)| *newest == id)
            .ok_or_else(not_sent)?;
        (Cited::Started(id), Some(newest.1), STARTED_MOST)
    } else {
        return Err(not_sent());
    };
    fresh(p, cause, at)?;
    let spent = p.supervisor.cited.get(&cited).copied().unwrap_or(0);
    if spent >= most + u32::from(fault::on(Fault::CauseBudgetOffByOne)) {
        let message = format!(
            "cause `{cause}` has caused {spent} commands, the most it may; wait for another event"
        );
        return Err(Stop::refused(Code::CauseExhausted, "cause", message));
    }
    p.cited = Some(cited);
    Ok(())
}

fn fresh(p: &Passage, cause: &str, at: Option<HostTime>) -> Result<(), Stop> {
    let most = p.supervisor.def.cause_max_age;
    if at.is_some_and(|at| p.now.since(at) <= most.0) || fault::on(Fault::CauseNeverExpires) {
        return Ok(());
    }
    let message =
        format!("cause `{cause}` was delivered more than {most} ago; act on a newer signal");
    Err(Stop::refused(Code::CauseExpired, "cause", message))
}
