//! Sessions of engines: one live session a supervisor, and a newer one replaces it (C10).

use crate::contract::code::Code;
use crate::contract::id::{SessionId, SupervisorId};
use crate::contract::signal::StartReason;
use crate::core::audit::AuditEntry;
use crate::core::effect::{Output, Refusal, Reply, ReviewQuestion, SessionMessage, SessionStart};
use crate::core::input::Token;
use crate::core::record::{Record, ReviewEnd};
use crate::core::requests::review;
use crate::core::state::{Live, Review};
use crate::core::turn::Turn;

use super::tick;

impl From<&Review> for ReviewQuestion {
    fn from(review: &Review) -> Self {
        Self {
            id: review.id,
            command: review.command.clone(),
            reason: review.reason.clone(),
            actor: review.actor.clone(),
            deadline: review.deadline,
            as_of: review.as_of,
        }
    }
}

/// Accepts an engine, in the place of the one before if there is one.
pub(in crate::core) fn hello(
    turn: &mut Turn,
    reply: Token,
    id: &SupervisorId,
    tick_period: Option<u64>,
    reviews: bool,
) {
    let Some(supervisor) = turn.state().durable().supervisor(id).cloned() else {
        let message = format!("there is no supervisor `{id}`; save it before its engine connects");
        return turn.refuse(reply, Refusal::new(Code::NotFound, "supervisor", message));
    };
    if supervisor.def.is_gateway() {
        let message = format!(
            "the engine of `{id}` is built in; define it as attached or managed to connect one"
        );
        return turn.refuse(
            reply,
            Refusal::new(Code::PermissionDenied, "transport", message),
        );
    }
    let number = supervisor.number;
    let session = SessionId(turn.state().durable().last_session + 1);
    turn.emit(Record::SessionAccepted {
        supervisor: number,
        session,
    });
    let now = turn.now;
    let replaces = drop_live(turn, number);
    let live = Live {
        session,
        reviews,
        tick: None,
        asked: tick_period,
        ticked: now,
    };
    turn.transient().live.insert(number, live);
    turn.transient().gone_since.remove(&number);
    tick::set_period(turn, number, supervisor.def.tick.map(|t| t.0));
    if let Some(old) = replaces {
        turn.send(Output::Session {
            to: old,
            message: SessionMessage::Replaced,
        });
    }
    let state = turn.state();
    let questions: Vec<ReviewQuestion> = state
        .index()
        .open_reviews(number)
        .filter_map(|id| state.durable().reviews.get(&id))
        .map(|r| ReviewQuestion::from(&**r))
        .collect();
    let first = supervisor.newest_session.is_none();
    turn.audit(AuditEntry {
        kind: "session".into(),
        channel: "ENGINE".into(),
        actor: format!("supervisor:{id}"),
        target: Some(session.to_string()),
        outcome: Some(
            if replaces.is_some() {
                "REPLACED"
            } else {
                "ACCEPTED"
            }
            .into(),
        ),
        ..AuditEntry::default()
    });
    let start = SessionStart {
        session,
        supervisor: number,
        reason: if first {
            StartReason::First
        } else {
            StartReason::Resubscribe
        },
        as_of: supervisor.last_cursor,
        acknowledged: supervisor.acknowledged,
        replaces,
        reviews: if reviews {
            questions.clone()
        } else {
            Vec::new()
        },
    };
    turn.reply(reply, Reply::Started(Box::new(start)));
    if !reviews {
        // An engine that takes no reviews will answer none that is open (C9).
        for question in questions {
            review::close(turn, question.id, ReviewEnd::NoOpinion, None);
        }
    }
}

fn drop_live(turn: &mut Turn, number: u32) -> Option<SessionId> {
    let old = turn.transient().live.remove(&number)?;
    if let Some(period) = old.tick {
        turn.transient()
            .next_ticks
            .remove(&(old.ticked.plus(period), number));
    }
    Some(old.session)
}

/// Takes note that a stream ended; an older session's end changes nothing.
pub(in crate::core) fn disconnected(turn: &mut Turn, id: &SupervisorId, session: SessionId) {
    let Some(number) = turn.state().durable().supervisor(id).map(|s| s.number) else {
        return;
    };
    if turn
        .state()
        .transient
        .live
        .get(&number)
        .is_some_and(|l| l.session == session)
    {
        drop_live(turn, number);
        let now = turn.now;
        turn.transient().gone_since.insert(number, now);
    }
}

/// Moves the stored position forward, never back and never past what was sent (C43).
pub(in crate::core) fn acknowledge(turn: &mut Turn, id: &SupervisorId, cursor: u64) {
    let Some(supervisor) = turn.state().durable().supervisor(id) else {
        return;
    };
    if supervisor.acknowledged.is_none_or(|a| a < cursor) && cursor <= supervisor.last_cursor {
        let number = supervisor.number;
        turn.emit(Record::Acknowledged {
            supervisor: number,
            cursor,
        });
    }
}
