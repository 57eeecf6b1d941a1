//! Signals out.

use super::proto::v1 as pb;
use super::value;
use crate::contract::directive::{Actor, Command};
use crate::contract::signal::{Event, Missed, Signal};

/// Writes a signal. `time_ms` is when it happened or was asked, in Unix milliseconds, where the signal does not say
/// it. Of `Started` only what the contract's own form holds; its snapshot comes in parts.
#[must_use]
pub fn signal(signal: Signal, time_ms: u64) -> pb::Signal {
    use pb::signal::Kind;
    let (id, time_ms, kind) = match signal {
        Signal::Event {
            id,
            cursor,
            time_ms: own,
            history,
            event: body,
        } => {
            let time_ms = own.unwrap_or(time_ms);
            let body = event(body, cursor, history, time_ms);
            (id, time_ms, Kind::Event(Box::new(body)))
        }
        Signal::Tick {
            id,
            scheduled_ms,
            now_ms,
            missed,
        } => {
            let tick = pb::Tick {
                scheduled_ms: millis(scheduled_ms),
                now_ms: millis(now_ms),
                missed,
            };
            (id, time_ms, Kind::Tick(tick))
        }
        Signal::Review {
            id,
            timeout_ms,
            command,
            reason,
            actor,
            as_of,
        } => {
            let Actor { kind, id: person } = actor;
            let review = pb::Review {
                id: id.clone(),
                timeout_ms,
                command: Some(reviewed(command, reason)),
                actor: Some(pb::Actor { kind, id: person }),
                as_of: as_of.unwrap_or_default(),
            };
            (id, time_ms, Kind::Review(review))
        }
        Signal::Delegated {
            id,
            from,
            kind,
            payload,
            timeout_ms,
        } => {
            let delegated = pb::Delegated {
                id: id.clone(),
                path: vec![from.clone()],
                from,
                kind,
                payload: payload.as_object().map(value::to_struct),
                choices: Vec::new(),
                timeout_ms,
                depth: 1,
                as_of: String::new(),
            };
            (id, time_ms, Kind::Delegated(delegated))
        }
        Signal::Consulted { id, key, answers } => {
            let text =
                |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            let answers = answers.iter().map(|(parent, answer)| {
                let answer = Some(pb::consulted_answer::Answer::Text(text(answer)));
                (parent.clone(), pb::ConsultedAnswer { answer })
            });
            let consulted = pb::Consulted {
                id: id.clone(),
                key,
                answers: answers.collect(),
                as_of: String::new(),
            };
            (id, time_ms, Kind::Consulted(consulted))
        }
        Signal::Started {
            id,
            reason,
            session,
            cursor,
            snapshot,
        } => {
            let started = pb::Started {
                reason: reason.as_str().to_owned(),
                cursor,
                session: session.to_string(),
                as_of: snapshot.as_of,
                ..pb::Started::default()
            };
            (id, time_ms, Kind::Started(started))
        }
    };
    pb::Signal {
        id,
        time_ms: millis(time_ms),
        kind: Some(kind),
    }
}

/// Puts a time of the contract on the wire.
#[must_use]
pub fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn reviewed(command: Command, reason: Option<String>) -> pb::ReviewedCommand {
    let Command {
        op,
        target,
        args,
        if_status,
    } = command;
    pb::ReviewedCommand {
        op,
        target,
        args: Some(value::to_struct(&args)).filter(|a| !a.fields.is_empty()),
        if_status: if_status.unwrap_or_default(),
        reason: reason.unwrap_or_default(),
    }
}

fn event(event: Event, cursor: String, history: bool, time_ms: u64) -> pb::Event {
    let Event {
        kind,
        execution,
        workflow,
        node,
        status,
        previous,
        attempt,
        why,
        exit_code,
        exit_signal,
        retry_in_ms,
        op,
        outcome,
        detail,
        order,
        channel,
        actor,
        cause,
        reason,
        gained,
        lost,
        missed: gap,
    } = event;
    pb::Event {
        kind: kind.as_str().to_owned(),
        cursor,
        history,
        execution: execution.map_or_else(String::new, |x| x.to_string()),
        workflow: workflow.map_or_else(String::new, |w| w.to_string()),
        node: node.map_or_else(String::new, |n| n.to_string()),
        status: status.unwrap_or_default(),
        previous: previous.unwrap_or_default(),
        attempt: attempt.unwrap_or(0),
        why: why.unwrap_or_default(),
        exit: exit_code
            .map(pb::event::Exit::ExitCode)
            .or(exit_signal.map(pb::event::Exit::ExitSignal)),
        retry_at_ms: retry_in_ms.map(|ms| millis(time_ms.saturating_add(ms))),
        op: op.unwrap_or_default(),
        outcome: outcome.unwrap_or_default(),
        detail: detail.unwrap_or_default(),
        channel: channel.unwrap_or_default(),
        actor: actor.unwrap_or_default(),
        cause: cause.unwrap_or_default(),
        order: order.unwrap_or(0),
        reason: reason.unwrap_or_default(),
        priority: None,
        holds: None,
        successor: String::new(),
        log: Vec::new(),
        input: None,
        units_gained: gained,
        units_lost: lost,
        missed: gap.map(|m| missed(m, true)),
    }
}

/// Writes a gap (C39). `exact` says whether the counts by kind are those of the gap and nothing else.
#[must_use]
pub fn missed(gap: Missed, exact: bool) -> pb::EventsMissed {
    let Missed {
        from_cursor,
        to_cursor,
        count,
        by_kind,
        reason,
    } = gap;
    pb::EventsMissed {
        from_cursor,
        to_cursor,
        count,
        count_by_kind: by_kind,
        executions: Vec::new(),
        executions_truncated: false,
        reason,
        summary_exact: exact,
    }
}
