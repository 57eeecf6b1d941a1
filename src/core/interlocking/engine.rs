//! Directives of engines: through the checks in order, then to their effect (C22).

use super::expand::{self, For};
use super::passage::{Call, Passage, Request, Stop};
use super::permit::{self, Owned};
use super::{allowed, cause, flood, initiative, key, session, shape};
use crate::contract::code::Code;
use crate::contract::directive::{Body, Directive};
use crate::contract::id::{SessionId, SupervisorId};
use crate::contract::outcome::Answer;
use crate::contract::time::HostTime;
use crate::core::audit::AuditEntry;
use crate::core::effect::Refusal;
use crate::core::fault::{self, Fault};
use crate::core::input::Token;
use crate::core::record::{Cited, Fingerprint, Record, ReviewEnd};
use crate::core::requests::review;
use crate::core::runs::act::{Caller, No};
use crate::core::state::Sender;
use crate::core::turn::Turn;

type Check = fn(&mut Passage) -> Result<(), Stop>;

/// The checks of a directive in order; the first that fails is the refusal. From `cause` on the answer is
/// remembered under the key. Those of each target follow in [`permit::admit`].
const CHECKS: &[(Check, bool)] = &[
    (flood::check, false),
    (shape::check, false),
    (session::check, false),
    (key::check, false),
    (cause::check, true),
    (initiative::check, true),
    (allowed::check, true),
];

/// What is known of a directive once it has been through the checks.
struct Passed {
    number: u32,
    key: String,
    fingerprint: Fingerprint,
    cited: Option<Cited>,
    initiative: bool,
    caller: Caller,
}

/// Takes a directive of an engine.
pub(in crate::core) fn direct(
    turn: &mut Turn,
    reply: Token,
    id: &SupervisorId,
    session: Option<SessionId>,
    directive: &Directive,
    delivered: Option<HostTime>,
) {
    let Some(supervisor) = turn.state().durable().supervisor(id).cloned() else {
        let message =
            format!("there is no supervisor `{id}` any more; its credentials ended with it");
        return turn.refuse(reply, Refusal::new(Code::NotFound, "supervisor", message));
    };
    let number = supervisor.number;
    let floods = turn.floods(
        Sender::Engine(number),
        supervisor.def.max_directives_per_second,
    );
    let mut p = Passage {
        state: turn.state(),
        supervisor: &supervisor,
        session,
        directive,
        delivered,
        now: turn.now,
        floods,
        request: None,
        key: None,
        cause: None,
        fingerprint: Fingerprint::default(),
        cited: None,
        initiative: false,
    };
    let stopped = CHECKS
        .iter()
        .find_map(|(check, remembered)| check(&mut p).err().map(|stop| (stop, *remembered)));
    let caller = p.caller();
    let answered = p.answered();
    let Passage {
        request,
        key,
        fingerprint,
        cited,
        initiative,
        ..
    } = p;
    let passed = Passed {
        number,
        key: key.unwrap_or_default(),
        fingerprint,
        cited,
        initiative,
        caller,
    };
    // A change copies a supervisor that somebody keeps, and its keys with it.
    drop(supervisor);
    match (stopped, request) {
        (Some((Stop::Replayed(answer), _)), _) => turn.answer(reply, *answer),
        (Some((Stop::Refused(refusal), remembered)), _) => {
            let answer = refused(turn, directive, &passed, &refusal);
            if remembered {
                remember(turn, &passed, &answer, false);
            }
            turn.answer(reply, answer);
        }
        (None, Some(Request::Command(call))) => {
            let answer = command(turn, directive, &passed, &call);
            remember(turn, &passed, &answer, false);
            turn.answer(reply, answer);
        }
        (
            None,
            Some(Request::Notify {
                level,
                message,
                data,
            }),
        ) => {
            turn.audit(AuditEntry {
                kind: "notify".into(),
                op: Some("notify".into()),
                outcome: Some(level),
                detail: Some(data.map_or(message.clone(), |data| format!("{message} {data}"))),
                initiative: passed.initiative,
                ..row(&passed)
            });
            let answer = Answer::done(Vec::new());
            remember(turn, &passed, &answer, true);
            turn.answer(reply, answer);
        }
        (None, Some(Request::Verdict { allow, .. })) => {
            let answer = Answer::done(Vec::new());
            remember(turn, &passed, &answer, false);
            turn.answer(reply, answer);
            if let Some(id) = answered {
                let end = if allow {
                    ReviewEnd::Allowed
                } else {
                    ReviewEnd::Denied
                };
                review::close(turn, id, end, directive.reason.as_deref());
            }
        }
        (None, Some(Request::NoOpinion { .. })) => {
            let answer = Answer::done(Vec::new());
            remember(turn, &passed, &answer, false);
            turn.answer(reply, answer);
            if let Some(id) = answered {
                review::close(turn, id, ReviewEnd::NoOpinion, directive.reason.as_deref());
            }
        }
        // The shape check sets the request or refuses.
        (None, None) => turn.answer(
            reply,
            Answer::refused(Code::Internal, "shape", "the host lost the request"),
        ),
    }
}

fn row(passed: &Passed) -> AuditEntry {
    let by = &passed.caller.by;
    AuditEntry {
        channel: by.channel.as_str().into(),
        actor: by.actor.clone(),
        cause: by.cause.clone(),
        reason: by.reason.clone(),
        key: Some(passed.key.clone()).filter(|k| !k.is_empty()),
        ..AuditEntry::default()
    }
}

/// Audits a refusal and makes its answer.
fn refused(turn: &mut Turn, directive: &Directive, passed: &Passed, refusal: &Refusal) -> Answer {
    let (op, target) = match &directive.body {
        Body::Command(c) => (
            c.op.chars().take(80).collect(),
            Some(c.target.chars().take(256).collect()),
        ),
        Body::ReviewVerdict { answers, .. } => (
            "verdict".to_owned(),
            Some(answers.chars().take(80).collect()),
        ),
        Body::DelegationAnswer { answers, .. } => (
            "answer".to_owned(),
            Some(answers.chars().take(80).collect()),
        ),
        Body::NoOpinion { answers } => ("no_opinion".to_owned(), answers.clone()),
        Body::Delegate { .. } => ("delegate".to_owned(), None),
        Body::Notify { .. } => ("notify".to_owned(), None),
    };
    let entry = AuditEntry {
        kind: "refusal".into(),
        op: Some(op),
        target,
        outcome: Some(refusal.code.as_str().into()),
        check: Some(refusal.check.into()),
        detail: Some(refusal.message.clone()),
        initiative: passed.initiative,
        ..row(passed)
    };
    if matches!(refusal.check, "flood" | "shape" | "session") {
        turn.count_refusal(entry, refusal.check);
    } else {
        turn.audit(entry);
    }
    Answer::refused(refusal.code, refusal.check, refusal.message.clone())
}

/// Keeps the answer under the key, and spends the budgets of what passed.
fn remember(turn: &mut Turn, passed: &Passed, answer: &Answer, notify: bool) {
    let transient = answer.code.is_some_and(Code::is_transient);
    if transient && !fault::on(Fault::TransientRemembered)
        || answer.code.is_some() && fault::on(Fault::RefusalNotRemembered)
    {
        return;
    }
    let done = answer.code.is_none();
    turn.emit(Record::Directed {
        supervisor: passed.number,
        key: passed.key.clone(),
        fingerprint: passed.fingerprint,
        answer: answer.clone(),
        cited: passed.cited.filter(|_| done),
        initiative: passed.initiative && done,
        notify: notify && done,
    });
}

/// Applies a command to each of its targets by itself.
fn command(turn: &mut Turn, directive: &Directive, passed: &Passed, call: &Call) -> Answer {
    let caller = &passed.caller;
    let expanded = expand::expand(
        turn.state(),
        &call.act,
        &call.target,
        For::Engine(passed.number),
        &caller.holder,
    );
    let mut targets = Vec::with_capacity(expanded.ones.len());
    for one in &expanded.ones {
        let (owned, now) = (Owned::By(Some(passed.number)), turn.now);
        let admitted = permit::admit(
            turn.state(),
            &call.act,
            one,
            call.if_status.as_deref(),
            caller,
            owned,
            now,
        );
        let result = match admitted {
            Ok(permit) => permit::apply(turn, permit),
            Err(No::Outcome(outcome, detail)) => permit::unchanged(one, outcome, detail),
            Err(No::Refused(refusal)) => return refused(turn, directive, passed, &refusal),
        };
        let row = permit::row(&call.act, caller, Some(&passed.key), &result);
        turn.audit(AuditEntry {
            initiative: passed.initiative,
            ..row
        });
        targets.push(result);
    }
    if targets.is_empty() {
        turn.audit(AuditEntry {
            kind: "command".into(),
            op: Some(call.act.op().as_str().into()),
            target: Some(call.target.to_string()),
            detail: Some("matched nothing".into()),
            initiative: passed.initiative,
            ..row(passed)
        });
    }
    Answer {
        matched: expanded.matched,
        ..Answer::done(targets)
    }
}
