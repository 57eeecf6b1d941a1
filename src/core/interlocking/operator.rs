//! Commands of operators: form, key and rate, then the owner of the target decides whether the command
//! passes at once, is reviewed by the owner's engine, or is refused (C6, C29).

use std::sync::Arc;

use super::expand::{self, For};
use super::passage::{Call, Stop};
use super::permit::{self, Owned};
use super::{exists, key, owner, shape};
use crate::contract::code::Code;
use crate::contract::directive::{Actor, Command};
use crate::contract::outcome::{Answer, Outcome, TargetResult};
use crate::contract::target::Target;
use crate::core::audit::AuditEntry;
use crate::core::effect::Refusal;
use crate::core::input::Token;
use crate::core::record::{By, Channel, Fingerprint, Holder, Record};
use crate::core::requests::review;
use crate::core::runs::act::{Act, Caller, No, One};
use crate::core::state::Sender;
use crate::core::state::supervisor::Supervisor;
use crate::core::turn::Turn;

/// A command of an operator with everything that its answer needs.
#[derive(Clone)]
pub(in crate::core) struct Order {
    pub actor: Actor,
    pub command: Command,
    pub reason: Option<String>,
    pub key: Option<String>,
    pub fingerprint: Fingerprint,
}

impl Order {
    /// Returns who commands, for records and holds.
    pub fn caller(&self) -> Caller {
        Caller {
            by: By {
                channel: Channel::Operator,
                actor: self.actor.to_string(),
                cause: None,
                reason: self.reason.clone(),
            },
            holder: Holder::Person(self.actor.to_string()),
        }
    }
}

/// What the checks up to the owner come to.
enum Way {
    /// It is answered.
    Answered(Answer),
    /// It passes at once.
    Passes(Call, Vec<One>, Option<u32>, Option<u64>),
    /// The owner's engine is asked.
    Reviewed(Vec<One>, Arc<Supervisor>),
}

/// Takes a command of an operator.
pub(in crate::core) fn command(
    turn: &mut Turn,
    reply: Token,
    actor: &Actor,
    command: &Command,
    reason: Option<String>,
    key: Option<String>,
) {
    let fingerprint = key::command_fingerprint(command);
    let order = Order {
        actor: actor.clone(),
        command: command.clone(),
        reason,
        key,
        fingerprint,
    };
    let rate = turn.state().durable().settings.operator_rate;
    let floods = turn.floods(Sender::Operator(actor.to_string()), rate);
    let call = match form(&order) {
        Ok(call) => call,
        Err(refusal) => return refuse(turn, reply, &order, &refusal),
    };
    let kept = order.key.as_deref().and_then(|key| {
        turn.state()
            .durable()
            .operator_keys
            .get(&actor.to_string())?
            .get(key)
            .cloned()
    });
    if let Some(kept) = kept {
        if kept.fingerprint != fingerprint {
            let Stop::Refused(refusal) = key::conflict(order.key.as_deref().unwrap_or_default())
            else {
                return;
            };
            return refuse(turn, reply, &order, &refusal);
        }
        match (&kept.answer, kept.review) {
            (Some(answer), _) => {
                return turn.answer(
                    reply,
                    Answer {
                        replayed: true,
                        ..answer.clone()
                    },
                );
            }
            (None, Some(id)) => {
                return turn
                    .transient()
                    .waiting
                    .entry(id)
                    .or_default()
                    .push((reply, true));
            }
            // The first try ended in a refusal that is not remembered.
            (None, None) => {}
        }
    }
    if floods {
        let message = format!("more than {rate} commands in a second; send slower");
        return refuse(
            turn,
            reply,
            &order,
            &Refusal::new(Code::RateLimited, "flood", message),
        );
    }
    match way(turn, &order, call) {
        Ok(Way::Answered(answer)) => finish(turn, &order, reply, answer),
        Ok(Way::Passes(call, ones, owner, matched)) => {
            let answer = apply_all(turn, &order, &call, &ones, owner);
            finish(turn, &order, reply, Answer { matched, ..answer });
        }
        Ok(Way::Reviewed(ones, supervisor)) => review::ask(turn, reply, order, &ones, &supervisor),
        Err(refusal) => {
            let answer = audit_refusal(turn, &order, &refusal);
            finish(turn, &order, reply, answer);
        }
    }
}

/// Checks the form of a command and of what comes with it.
pub(in crate::core) fn form(order: &Order) -> Result<Call, Refusal> {
    let check = || {
        if let Some(key) = &order.key {
            shape::key_form(key)?;
        }
        shape::reason(order.reason.as_deref())?;
        let call = shape::call(&order.command)?;
        if matches!(call.target, Target::OwnedRunning | Target::OwnedHeld) {
            let message = "target: only an engine owns anything; name a workflow or an execution";
            return Err(Stop::refused(Code::InvalidArgument, "shape", message));
        }
        Ok(call)
    };
    check().map_err(|stop| match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Replayed(_) => Refusal::new(Code::Internal, "shape", "a form was replayed"),
    })
}

fn way(turn: &Turn, order: &Order, call: Call) -> Result<Way, Refusal> {
    let invalid = |check, message: &str| Err(Refusal::new(Code::InvalidArgument, check, message));
    let (state, durable) = (turn.state(), turn.state().durable());
    let caller = order.caller();
    let expanded = expand::expand(
        state,
        &call.act,
        &call.target,
        For::Operator,
        &caller.holder,
    );
    let (ones, matched) = (expanded.ones, expanded.matched);
    let missing = ones
        .iter()
        .filter(|one| exists::check(durable, one).is_err())
        .count();
    if missing > 0 && ones.len() == 1
        || ones
            .iter()
            .any(|o| matches!(o, One::Workflow(_)) && !matches!(call.act, Act::Start { .. }))
    {
        let message = format!(
            "`{}` does not exist; look at the list of what does",
            call.target
        );
        return Err(Refusal::new(Code::NotFound, "target exists", message));
    }
    let found: Vec<&One> = ones
        .iter()
        .filter(|one| exists::check(durable, one).is_ok())
        .collect();
    let Some(first) = found.first() else {
        let targets = ones
            .iter()
            .map(|one| permit::unchanged(one, Outcome::NotFound, None))
            .collect();
        return Ok(Way::Answered(Answer {
            matched,
            ..Answer::done(targets)
        }));
    };
    let number = owner::of(durable, first);
    if found.iter().any(|one| owner::of(durable, one) != number) {
        return invalid(
            "owner",
            "target: the targets have several owners; send one command for each owner",
        );
    }
    let Some(supervisor) = number.and_then(|n| durable.supervisors.get(&n)) else {
        if durable.settings.default_enabled {
            return Ok(Way::Passes(call, ones, None, matched));
        }
        let message =
            "owner: none; the default supervisor is off, so nobody can command what nobody owns";
        return Err(Refusal::new(Code::ControlledBySupervisor, "owner", message));
    };
    if supervisor.def.is_gateway() {
        return Ok(Way::Passes(call, ones, number, matched));
    }
    let op = call.act.op();
    if !supervisor
        .def
        .operator_access
        .iter()
        .any(|pattern| pattern.matches(op))
    {
        let id = &supervisor.def.id;
        let message = format!(
            "owner: `{id}` does not list {op} in its operatorAccess; ask its engine's owner, or have it added"
        );
        return Err(Refusal::new(Code::ControlledBySupervisor, "owner", message));
    }
    // Nobody is asked about what would change nothing.
    let mut results: Vec<TargetResult> = Vec::new();
    for one in &ones {
        let owned = Owned::By(number);
        match permit::admit(
            state,
            &call.act,
            one,
            call.if_status.as_deref(),
            &caller,
            owned,
            turn.now,
        ) {
            Ok(_) => return Ok(Way::Reviewed(ones, Arc::clone(supervisor))),
            Err(No::Outcome(outcome, detail)) => {
                results.push(permit::unchanged(one, outcome, detail))
            }
            Err(No::Refused(refusal)) => return Err(refusal),
        }
    }
    Ok(Way::Answered(Answer {
        matched,
        ..Answer::done(results)
    }))
}

/// Applies a command to each target, with every check made at this moment.
pub(in crate::core) fn apply_all(
    turn: &mut Turn,
    order: &Order,
    call: &Call,
    ones: &[One],
    number: Option<u32>,
) -> Answer {
    let caller = order.caller();
    let mut targets = Vec::with_capacity(ones.len());
    for one in ones {
        let now = turn.now;
        let admitted = permit::admit(
            turn.state(),
            &call.act,
            one,
            call.if_status.as_deref(),
            &caller,
            Owned::By(number),
            now,
        );
        let result = match admitted {
            Ok(permit) => permit::apply(turn, permit),
            Err(No::Outcome(outcome, detail)) => permit::unchanged(one, outcome, detail),
            Err(No::Refused(refusal)) => return audit_refusal(turn, order, &refusal),
        };
        turn.audit(permit::row(
            &call.act,
            &caller,
            order.key.as_deref(),
            &result,
        ));
        targets.push(result);
    }
    Answer::done(targets)
}

/// Audits a refusal and makes its answer.
pub(in crate::core) fn audit_refusal(turn: &mut Turn, order: &Order, refusal: &Refusal) -> Answer {
    let row = AuditEntry {
        kind: "refusal".into(),
        channel: Channel::Operator.as_str().into(),
        actor: order.actor.to_string(),
        op: Some(order.command.op.chars().take(80).collect()),
        target: Some(order.command.target.chars().take(256).collect()),
        outcome: Some(refusal.code.as_str().into()),
        check: Some(refusal.check.into()),
        detail: Some(refusal.message.clone()),
        reason: order
            .reason
            .as_ref()
            .map(|r| r.chars().take(1_024).collect()),
        key: order.key.as_ref().map(|k| k.chars().take(128).collect()),
        ..AuditEntry::default()
    };
    if matches!(refusal.check, "flood" | "shape") {
        turn.count_refusal(row, refusal.check);
    } else {
        turn.audit(row);
    }
    Answer::refused(refusal.code, refusal.check, refusal.message.clone())
}

/// Refuses before the key is known to be new: nothing is remembered.
fn refuse(turn: &mut Turn, reply: Token, order: &Order, refusal: &Refusal) {
    let answer = audit_refusal(turn, order, refusal);
    turn.answer(reply, answer);
}

/// Keeps the answer under the key, where it may be kept, and gives it.
fn finish(turn: &mut Turn, order: &Order, reply: Token, answer: Answer) {
    remember(turn, order, &answer);
    turn.answer(reply, answer);
}

/// Keeps an answer under its key; a refusal that may pass later is forgotten with it.
pub(in crate::core) fn remember(turn: &mut Turn, order: &Order, answer: &Answer) {
    let Some(key) = &order.key else { return };
    let transient = answer.code.is_some_and(Code::is_transient);
    let known = turn
        .state()
        .durable()
        .operator_keys
        .get(&order.actor.to_string())
        .is_some_and(|k| k.get(key).is_some());
    if transient && !known {
        return;
    }
    turn.emit(Record::Commanded {
        actor: order.actor.clone(),
        key: key.clone(),
        fingerprint: order.fingerprint,
        answer: (!transient).then(|| answer.clone()),
        review: None,
    });
}
