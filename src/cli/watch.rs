//! `events`, and waiting for the end of an execution.

use std::ops::ControlFlow;

use serde::Serialize;

use super::args::EventsArgs;
use super::client::Client;
use super::output::{Output, safe, time};
use super::sse::{Seen, follow};
use super::{Failure, runs};
use crate::contract::id::ExecutionId;
use crate::contract::signal::{Event, EventKind};
use crate::contract::status::RunStatus;
use crate::operators::view::{AsOf, ExecutionDetail, FeedEvent, HostEvent, What};

/// How far back `events` begins when nothing is said.
const BACK: u64 = 500;

#[derive(Serialize)]
struct Query {
    execution: Option<String>,
}

/// Runs `events`.
pub(super) async fn events(
    client: &Client,
    out: &Output,
    args: &EventsArgs,
) -> Result<u8, Failure> {
    let EventsArgs {
        follow: go_on,
        after,
        execution,
    } = args;
    let query = Query {
        execution: execution.clone(),
    };
    // Without --follow it ends at what was there when it began.
    let end = match go_on {
        true => None,
        false => Some(
            client
                .get::<AsOf<serde_json::Value>>(&["api", "supervisor-contract"], &())
                .await?
                .as_of,
        ),
    };
    let after = after.or(end.map(|end| end.saturating_sub(BACK)));
    let reached = |place: u64| {
        if end.is_some_and(|end| place >= end) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    follow(client, &query, after, |seen| match seen {
        Seen::Event(event) => {
            out.line(event, people)?;
            Ok(reached(event.seq))
        }
        Seen::Place(place) => Ok(reached(place)),
    })
    .await?;
    Ok(0)
}

/// Waits until an execution has ended, tells on the way what happens, and returns how it ended.
pub(super) async fn wait(
    client: &Client,
    out: &Output,
    id: ExecutionId,
) -> Result<AsOf<ExecutionDetail>, Failure> {
    let query = Query {
        execution: Some(id.to_string()),
    };
    loop {
        let now = runs::show(client, &id.to_string()).await?;
        if now.body.row.status.is_terminal() {
            return Ok(now);
        }
        let told = follow(client, &query, Some(now.as_of), |seen| {
            let Seen::Event(event) = seen else {
                return Ok(ControlFlow::Continue(()));
            };
            if !out.is_json() {
                eprintln!("{}", people(event));
            }
            Ok(if ends(event) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })
        .await;
        match told {
            Ok(()) => {}
            // The host came back with an older journal than the place that was asked for: look again.
            Err(failure) if failure.code.as_deref() == Some("INVALID_ARGUMENT") => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Says whether an event may be the end of a run, or hide it.
fn ends(event: &FeedEvent) -> bool {
    match &event.what {
        What::Event(event) => {
            event.kind == EventKind::WorkflowStatus
                && RunStatus::ALL
                    .iter()
                    .any(|s| s.is_terminal() && event.status.as_deref() == Some(s.as_str()))
        }
        What::Host(HostEvent::Missed { .. }) => true,
        What::Host(_) => false,
    }
}

/// Shows an event on one line.
pub(super) fn people(event: &FeedEvent) -> String {
    let what = match &event.what {
        What::Event(event) => shown(event),
        What::Host(event) => match event {
            HostEvent::Opened => "OPENED the host opened its store".to_owned(),
            HostEvent::Saved { target } => format!("SAVED {target}"),
            HostEvent::SessionAccepted {
                supervisor,
                session,
            } => {
                let who = supervisor.as_ref().map_or("an engine", |s| s.as_str());
                format!("SESSION_ACCEPTED {who} {session}")
            }
            HostEvent::ReviewOpened {
                review,
                supervisor,
                targets,
                op,
                actor,
            } => {
                let who = supervisor.as_ref().map_or("an engine", |s| s.as_str());
                format!(
                    "REVIEW_OPENED {review} asks {who} about {op} {} by {actor}",
                    targets.join(",")
                )
            }
            HostEvent::ReviewClosed { review, end } => format!("REVIEW_CLOSED {review} {end}"),
            HostEvent::Missed { from, to } => format!("MISSED {from} to {to} are no longer stored"),
        },
    };
    safe(&format!("{} {:>6}  {what}", time(event.time_ms), event.seq))
}

fn shown(event: &Event) -> String {
    let mut text = event.kind.as_str().to_owned();
    let mut add = |part: Option<String>| {
        if let Some(part) = part {
            text.push(' ');
            text.push_str(&part);
        }
    };
    let node = event.node.as_ref();
    add(event
        .execution
        .map(|x| node.map_or_else(|| x.to_string(), |n| format!("{x}/{n}"))));
    add(event.op.clone());
    add(event.outcome.clone());
    add(match (&event.previous, &event.status) {
        (Some(from), Some(to)) => Some(format!("{from} → {to}")),
        (None, to) => to.clone(),
        (Some(_), None) => None,
    });
    add(event.why.clone());
    add(event.attempt.map(|n| format!("attempt {n}")));
    add(event.exit_code.map(|n| format!("exit {n}")));
    add(event.exit_signal.map(|n| format!("signal {n}")));
    add(event.retry_in_ms.map(|ms| format!("again in {ms}ms")));
    add(event.detail.clone());
    add(event.actor.as_ref().map(|a| format!("by {a}")));
    add(event.cause.as_ref().map(|c| format!("because of {c}")));
    add(event.reason.as_ref().map(|r| format!("“{r}”")));
    add(Some(event.gained.join(", "))
        .filter(|t| !t.is_empty())
        .map(|t| format!("gained {t}")));
    add(Some(event.lost.join(", "))
        .filter(|t| !t.is_empty())
        .map(|t| format!("lost {t}")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(what: What) -> FeedEvent {
        FeedEvent {
            seq: 12,
            time_ms: 0,
            what,
        }
    }

    #[test]
    fn an_event_is_one_safe_line() {
        let mut event = Event::of(EventKind::WorkflowStatus);
        event.execution = Some(ExecutionId(3));
        event.previous = Some("RUNNING".into());
        event.status = Some("PAUSING".into());
        event.actor = Some("supervisor:p".into());
        event.reason = Some("two\nlines".into());
        let line = people(&feed(What::Event(Box::new(event))));
        assert_eq!(
            line,
            "1970-01-01 00:00:00Z     12  WORKFLOW_STATUS x3 RUNNING → PAUSING by supervisor:p “two\\nlines”"
        );
    }

    #[test]
    fn only_an_end_of_the_run_or_a_gap_ends_the_wait() {
        let status = |kind, status: &str| {
            let mut event = Event::of(kind);
            event.status = Some(status.into());
            feed(What::Event(Box::new(event)))
        };
        for end in ["SUCCEEDED", "FAILED", "STOPPED"] {
            assert!(ends(&status(EventKind::WorkflowStatus, end)));
            assert!(!ends(&status(EventKind::NodeStatus, end)));
        }
        assert!(!ends(&status(EventKind::WorkflowStatus, "STOPPING")));
        assert!(ends(&feed(What::Host(HostEvent::Missed {
            from: 1,
            to: 2
        }))));
    }

    #[test]
    fn what_is_streamed_is_read_back_as_it_was() {
        let mut event = Event::of(EventKind::NodeStatus);
        event.execution = Some(ExecutionId(1));
        event.exit_code = Some(3);
        let all = [
            feed(What::Event(Box::new(event))),
            feed(What::Host(HostEvent::Opened)),
            feed(What::Host(HostEvent::Missed { from: 1, to: 2 })),
            feed(What::Host(HostEvent::ReviewClosed {
                review: "r-1".into(),
                end: "denied".into(),
            })),
        ];
        for event in all {
            let json = serde_json::to_string(&event).expect("prints");
            assert_eq!(
                serde_json::from_str::<FeedEvent>(&json).expect("reads"),
                event,
                "{json}"
            );
        }
    }
}
