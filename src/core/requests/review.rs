//! Reviews: the owner's engine is asked about an operator's command (C29, C32).
//!
//! A review ends once: by a verdict, by silence, or by its deadline, which survives reconnects and
//! restarts. Silence lets a stop pass and refuses anything else.

use crate::contract::code::Code;
use crate::contract::id::{ReviewId, SupervisorId};
use crate::contract::operation::Op;
use crate::contract::outcome::Answer;
use crate::contract::target::Target;
use crate::core::audit::AuditEntry;
use crate::core::effect::{Output, Refusal, ReviewQuestion, SessionMessage};
use crate::core::fault::{self, Fault};
use crate::core::input::Token;
use crate::core::interlocking::operator::{self, Order};
use crate::core::record::{Record, ReviewEnd};
use crate::core::runs::act::One;
use crate::core::state::Review;
use crate::core::state::supervisor::Supervisor;
use crate::core::turn::Turn;

/// How many reviews one supervisor may have open (C29).
const OPEN_MOST: usize = 64;

/// Asks the owner's engine, or decides at once where nobody would answer.
pub(in crate::core) fn ask(
    turn: &mut Turn,
    reply: Token,
    order: Order,
    ones: &[One],
    supervisor: &Supervisor,
) {
    let timeout = supervisor
        .def
        .review_timeout
        .map_or(turn.state().durable().settings.review_timeout_ms, |t| t.0);
    let number = supervisor.number;
    if let Some(id) = equal_open(turn, &order, number) {
        return wait(turn, reply, &order, id);
    }
    let live = turn.state().transient.live.get(&number).cloned();
    let end = match &live {
        Some(live) if !live.reviews => Some(ReviewEnd::NoOpinion),
        Some(_) => None,
        None => {
            let opened = turn.state().transient.opened_at;
            let gone = turn
                .state()
                .transient
                .gone_since
                .get(&number)
                .copied()
                .unwrap_or(opened.max(supervisor.saved));
            let long = turn.now.since(gone) > timeout && !fault::on(Fault::GoneEngineAwaited);
            long.then_some(ReviewEnd::Timeout)
        }
    };
    if let Some(end) = end {
        let answer = conclude(turn, &order, ones, number, end, None, "at once");
        operator::remember(turn, &order, &answer);
        return turn.answer(reply, answer);
    }
    let open = turn.state().index().open_reviews(number).count();
    if open >= OPEN_MOST + usize::from(fault::on(Fault::OpenReviewsOffByOne)) {
        let answer = if order.command.op == Op::RunStop.as_str() {
            conclude(
                turn,
                &order,
                ones,
                number,
                ReviewEnd::Timeout,
                None,
                "at once: too many reviews are open",
            )
        } else {
            let message = format!(
                "{OPEN_MOST} reviews wait for supervisor:{} already; try again later",
                supervisor.def.id
            );
            operator::audit_refusal(
                turn,
                &order,
                &Refusal::new(Code::RateLimited, "review", message),
            )
        };
        operator::remember(turn, &order, &answer);
        return turn.answer(reply, answer);
    }
    let id = ReviewId(turn.state().durable().last_review + 1);
    let deadline = turn.now.plus(timeout);
    // Printing a command that was parsed from JSON or protobuf cannot fail.
    let command = serde_json::to_string(&order.command).unwrap_or_default();
    turn.emit(Record::ReviewOpened {
        id,
        supervisor: number,
        command,
        reason: order.reason.clone(),
        actor: order.actor.clone(),
        fingerprint: order.fingerprint,
        targets: ones.iter().map(One::to_string).collect(),
        deadline,
        as_of: supervisor.last_cursor,
    });
    wait(turn, reply, &order, id);
    if let (Some(live), Some(review)) = (live, turn.state().durable().reviews.get(&id).cloned()) {
        let message = SessionMessage::Review(ReviewQuestion::from(&*review));
        turn.send(Output::Session {
            to: live.session,
            message,
        });
    }
}

/// Finds an open review of the same command by the same actor: equal requests join (C29).
fn equal_open(turn: &Turn, order: &Order, number: u32) -> Option<ReviewId> {
    let reviews = &turn.state().durable().reviews;
    let equal = |r: &Review| r.actor == order.actor && r.fingerprint == order.fingerprint;
    turn.state()
        .index()
        .open_reviews(number)
        .find(|id| reviews.get(id).is_some_and(|r| equal(r)))
        .filter(|_| !fault::on(Fault::EqualReviewsApart))
}

/// Lets a caller, and the key that it gave, wait for a review.
fn wait(turn: &mut Turn, reply: Token, order: &Order, id: ReviewId) {
    if let Some(key) = order.key.clone() {
        let (actor, fingerprint) = (order.actor.clone(), order.fingerprint);
        turn.emit(Record::Commanded {
            actor,
            key,
            fingerprint,
            answer: None,
            review: Some(id),
        });
    }
    turn.transient()
        .waiting
        .entry(id)
        .or_default()
        .push((reply, false));
}

/// Ends a review whose deadline has come.
pub(in crate::core) fn time_out(turn: &mut Turn, id: ReviewId) {
    close(turn, id, ReviewEnd::Timeout, None);
}

/// Ends a review that the engine cannot handle.
pub(in crate::core) fn fault(turn: &mut Turn, supervisor: &SupervisorId, signal: &str) {
    let Some(number) = turn
        .state()
        .durable()
        .supervisor(supervisor)
        .map(|s| s.number)
    else {
        return;
    };
    let Ok(id) = signal.parse::<ReviewId>() else {
        return;
    };
    let open = |r: &Review| r.supervisor == number && r.end.is_none();
    if turn
        .state()
        .durable()
        .reviews
        .get(&id)
        .is_some_and(|r| open(r))
    {
        close(turn, id, ReviewEnd::NoOpinion, Some("fault"));
    }
}

/// Ends a review and does what its end means for the command.
pub(in crate::core) fn close(turn: &mut Turn, id: ReviewId, end: ReviewEnd, reason: Option<&str>) {
    let Some(review) = turn.state().durable().reviews.get(&id).cloned() else {
        return;
    };
    turn.emit(Record::ReviewClosed { id, end });
    let mut keys = review.keys.iter();
    let ones: Vec<One> = review.targets.iter().filter_map(|t| one(t)).collect();
    let order = Order {
        actor: review.actor.clone(),
        command: review.command.clone(),
        reason: review.reason.clone(),
        key: keys.next().cloned(),
        fingerprint: review.fingerprint,
    };
    let answer = conclude(
        turn,
        &order,
        &ones,
        review.supervisor,
        end,
        reason,
        &id.to_string(),
    );
    operator::remember(turn, &order, &answer);
    for key in keys {
        let joined = Order {
            key: Some(key.clone()),
            ..order.clone()
        };
        operator::remember(turn, &joined, &answer);
    }
    for (to, replayed) in turn.transient().waiting.remove(&id).unwrap_or_default() {
        turn.answer(
            to,
            Answer {
                replayed,
                ..answer.clone()
            },
        );
    }
}

/// Reads one expanded target back.
fn one(text: &str) -> Option<One> {
    match text.parse().ok()? {
        Target::Execution(run) => Some(One::Run(run)),
        Target::Workflow(workflow) => Some(One::Workflow(workflow)),
        Target::Nodes(nodes) => nodes
            .into_iter()
            .next()
            .map(|(run, node)| One::Node(run, node)),
        Target::Input(_) | Target::OwnedRunning | Target::OwnedHeld | Target::Server => None,
    }
}

fn conclude(
    turn: &mut Turn,
    order: &Order,
    ones: &[One],
    number: u32,
    end: ReviewEnd,
    reason: Option<&str>,
    review: &str,
) -> Answer {
    let supervisor = turn
        .state()
        .durable()
        .supervisors
        .get(&number)
        .map(|s| s.def.id.to_string())
        .unwrap_or_default();
    let stop = order.command.op == Op::RunStop.as_str();
    let silent = matches!(end, ReviewEnd::Timeout | ReviewEnd::NoOpinion);
    let passes = match end {
        ReviewEnd::Allowed => true,
        ReviewEnd::Denied => false,
        ReviewEnd::Timeout | ReviewEnd::NoOpinion => {
            stop && !fault::on(Fault::TimeoutRefusesStop) || fault::on(Fault::TimeoutAllows)
        }
    };
    let word = match end {
        ReviewEnd::Allowed => "allow",
        ReviewEnd::Denied => "deny",
        ReviewEnd::Timeout => "timeout",
        ReviewEnd::NoOpinion => "no opinion",
    };
    turn.audit(AuditEntry {
        kind: "verdict".into(),
        channel: if silent { "SYSTEM" } else { "ENGINE" }.into(),
        actor: format!("supervisor:{supervisor}"),
        op: Some(order.command.op.clone()),
        target: Some(order.command.target.clone()),
        outcome: Some(word.into()),
        check: Some("review".into()),
        detail: Some(match (silent, passes) {
            (true, true) => format!("{review}: nobody decided; a stop is allowed then"),
            (true, false) => {
                format!("{review}: nobody decided; anything but a stop is refused then")
            }
            (false, _) => review.to_owned(),
        }),
        reason: reason.map(str::to_owned),
        ..AuditEntry::default()
    });
    if passes {
        return apply_reviewed(turn, order, ones, number);
    }
    let why = match (end, reason) {
        (ReviewEnd::Denied, Some(reason)) => format!("denied by supervisor:{supervisor}: {reason}"),
        (ReviewEnd::Denied, None) => format!("denied by supervisor:{supervisor}"),
        _ => format!(
            "timeout: the engine of supervisor:{supervisor} did not decide; try again when it is there"
        ),
    };
    operator::audit_refusal(
        turn,
        order,
        &Refusal::new(Code::ControlRejected, "review", why),
    )
}

fn apply_reviewed(turn: &mut Turn, order: &Order, ones: &[One], number: u32) -> Answer {
    let mut call = match operator::form(order) {
        Ok(call) => call,
        Err(refusal) => return operator::audit_refusal(turn, order, &refusal),
    };
    if fault::on(Fault::NoRecheckOfStatus) {
        call.if_status = None;
    }
    let owner = if fault::on(Fault::NoRecheckOfOwner) {
        ones.first().and_then(|one| turn.owner_of(one))
    } else {
        Some(number)
    };
    operator::apply_all(turn, order, &call, ones, owner)
}
