//! A signal is a projection of a record, never a second copy: this is the projection.

use crate::contract::id::{Cursor, EventId};
use crate::contract::signal::{Event, Signal};
use crate::contract::status::RunStatus;

use super::record::{AttemptEnd, By, Entry, Record};

/// Returns what a record says to those who see it; none for records that are no events.
#[must_use]
pub fn event(record: &Record) -> Option<Event> {
    let mut event = Event::of(record.kind()?);
    match record {
        Record::RunCreated {
            run, workflow, by, ..
        } => {
            event.execution = Some(*run);
            event.workflow = Some(workflow.clone());
            event.status = Some(RunStatus::Queued.as_str().into());
            put_by(&mut event, Some(by));
        }
        Record::RunStatus {
            run,
            workflow,
            from,
            to,
            by,
        } => {
            event.execution = Some(*run);
            event.workflow = Some(workflow.clone());
            event.status = Some(to.as_str().into());
            event.previous = Some(from.as_str().into());
            put_by(&mut event, by.as_ref());
        }
        Record::NodeStatus {
            run,
            workflow,
            node,
            from,
            to,
            attempt,
            why,
            end,
            retry_in,
            by,
            deadline: _,
        } => {
            event.execution = Some(*run);
            event.workflow = Some(workflow.clone());
            event.node = Some(node.clone());
            event.status = Some(to.as_str().into());
            event.previous = Some(from.as_str().into());
            event.attempt = Some(*attempt);
            event.why = why.map(|w| w.as_str().into());
            event.retry_in_ms = *retry_in;
            match end {
                Some(AttemptEnd::Code(code)) => event.exit_code = Some(*code),
                Some(AttemptEnd::Signal(signal)) => event.exit_signal = Some(*signal),
                Some(AttemptEnd::NotStarted | AttemptEnd::Lost) | None => {}
            }
            put_by(&mut event, by.as_ref());
        }
        Record::ControlOutcome {
            run,
            workflow,
            node,
            op,
            outcome,
            detail,
            order,
            by,
        } => {
            event.execution = Some(*run);
            event.workflow = Some(workflow.clone());
            event.node = node.clone();
            event.op = Some(op.as_str().into());
            event.outcome = Some(outcome.as_str().into());
            event.detail = detail.clone();
            event.order = Some(*order);
            put_by(&mut event, Some(by));
        }
        Record::Ownership { gained, lost } => {
            event.gained.clone_from(gained);
            event.lost.clone_from(lost);
        }
        _ => return None,
    }
    Some(event)
}

fn put_by(event: &mut Event, by: Option<&By>) {
    let Some(By {
        channel,
        actor,
        cause,
        reason,
    }) = by
    else {
        return;
    };
    event.channel = Some(channel.as_str().into());
    event.actor = Some(actor.clone());
    event.cause.clone_from(cause);
    event.reason.clone_from(reason);
}

/// Returns the signal that an entry is on a supervisor's stream, at this cursor.
#[must_use]
pub fn signal(entry: &Entry, epoch: u32, cursor: u64, history: bool) -> Option<Signal> {
    Some(Signal::Event {
        id: EventId(cursor).to_string(),
        cursor: Cursor { epoch, n: cursor }.to_string(),
        time_ms: Some(entry.wall),
        history,
        event: event(&entry.record)?,
    })
}
