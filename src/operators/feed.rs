//! The stream of events for operators, read from the journal at the reader's own pace.
//!
//! A place is the number of a record. Who names the last one that it saw misses nothing; where retention took
//! records away, a `MISSED` event says exactly which. There is no queue: a slow reader only reads later.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::contract::code::Code;
use crate::contract::id::{ExecutionId, SupervisorId};
use crate::core::projection;
use crate::core::record::{Entry, Record, ReviewEnd};
use crate::host::{HostHandle, View};
use crate::journal;

use super::Error;
use super::view::{FeedEvent, HostEvent, What};

/// How many records are read at once.
const READ: usize = 256;

/// What a reader asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The last place that was seen; absent: only what comes from now on.
    pub after: Option<u64>,
    /// Only events about this execution.
    pub execution: Option<ExecutionId>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Events, in order, and the place up to which was read.
    Events(Vec<FeedEvent>, u64),
    /// Nothing more is there, for the first time or for a while; the place up to which was read.
    Idle(u64),
    /// The host stops.
    End,
}

/// One reader's place in the stream.
pub struct Feed {
    host: HostHandle,
    last_seq: watch::Receiver<u64>,
    view: View,
    at: u64,
    execution: Option<ExecutionId>,
    caught_up: bool,
}

impl Feed {
    /// Begins to read.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a place that the journal has not reached, `UNAVAILABLE` when the host stops.
    pub async fn begin(host: &HostHandle, wanted: Wanted) -> Result<Self, Error> {
        let last_seq = host.last_seq();
        let now = *last_seq.borrow();
        let Wanted { after, execution } = wanted;
        if let Some(after) = after.filter(|after| *after > now) {
            let message = format!(
                "the journal ends at {now}, {after} is of another one; begin again without it"
            );
            return Err(Error::field("Last-Event-ID", message));
        }
        let view = host.view().await?;
        if let Some(id) = execution.filter(|id| view.run(*id).is_none()) {
            return Err(Error::new(
                Code::NotFound,
                format!("execution `{id}` does not exist; look at the list of executions"),
            ));
        }
        Ok(Self {
            host: host.clone(),
            last_seq,
            view,
            at: after.unwrap_or(now),
            execution,
            caught_up: false,
        })
    }

    /// Returns the place up to which was read.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.at
    }

    /// Waits for the next events, or for `idle` to pass.
    ///
    /// # Errors
    /// `INTERNAL` when the journal cannot be read.
    pub async fn next(&mut self, idle: Duration) -> Result<Next, Error> {
        let deadline = tokio::time::sleep(idle);
        tokio::pin!(deadline);
        loop {
            let end = *self.last_seq.borrow_and_update();
            if self.at < end {
                let events = self.read(end).await?;
                if !events.is_empty() {
                    return Ok(Next::Events(events, self.at));
                }
                // Much may pass that this reader does not want: it is told how far that went.
                if deadline.is_elapsed() {
                    return Ok(Next::Idle(self.at));
                }
                continue;
            }
            // Who read what was there is told so at once, and from then on only now and then.
            if !self.caught_up {
                self.caught_up = true;
                return Ok(Next::Idle(self.at));
            }
            tokio::select! {
                changed = self.last_seq.changed() => if changed.is_err() {
                    return Ok(Next::End);
                },
                () = &mut deadline => return Ok(Next::Idle(self.at)),
            }
        }
    }

    /// Reads on, no further than what is durable.
    async fn read(&mut self, end: u64) -> Result<Vec<FeedEvent>, Error> {
        let (reader, from) = (Arc::clone(self.host.journal()), self.at + 1);
        let most = usize::try_from(end - self.at).unwrap_or(READ).min(READ);
        let read = tokio::task::spawn_blocking(move || reader.records(from, most)).await;
        let items = match read {
            Ok(Ok(items)) => items,
            Ok(Err(journal::Error::Gone { first, .. })) => {
                self.at = first.saturating_sub(1).max(self.at);
                let gap = HostEvent::Missed { from, to: self.at };
                return Ok(vec![FeedEvent {
                    seq: self.at,
                    time_ms: 0,
                    what: What::Host(gap),
                }]);
            }
            Ok(Err(error)) => return Err(unreadable(&error)),
            Err(error) => return Err(unreadable(&error)),
        };
        if items.is_empty() {
            return Err(unreadable(&format!("record {from} is missing")));
        }
        let mut events = Vec::new();
        for item in items {
            let entry = Entry::decode(&item.bytes).map_err(|e| unreadable(&e))?;
            self.at = entry.seq;
            if let Some(what) = self.what(&entry).await? {
                events.push(FeedEvent {
                    seq: entry.seq,
                    time_ms: entry.wall,
                    what,
                });
            }
        }
        Ok(events)
    }

    /// Makes the event of a record, if it is one that this reader wants.
    async fn what(&mut self, entry: &Entry) -> Result<Option<What>, Error> {
        if let Some(event) = projection::event(&entry.record) {
            let wanted = self.execution.is_none() || event.execution == self.execution;
            return Ok(wanted.then(|| What::Event(Box::new(event))));
        }
        let about = |targets: &[String]| match self.execution {
            None => true,
            Some(id) => targets.iter().any(|t| is_about(t, id)),
        };
        let of_all = self.execution.is_none();
        Ok(match &entry.record {
            Record::Opened { .. } if of_all => Some(What::Host(HostEvent::Opened)),
            Record::SupervisorSaved { json, .. } if of_all => saved("supervisor", json),
            Record::WorkflowSaved { json, .. } if of_all => saved("workflow", json),
            Record::SessionAccepted {
                supervisor,
                session,
            } if of_all => {
                let (supervisor, session) = (self.name(*supervisor).await?, *session);
                Some(What::Host(HostEvent::SessionAccepted {
                    supervisor,
                    session,
                }))
            }
            Record::ReviewOpened {
                id,
                supervisor,
                command,
                actor,
                targets,
                ..
            } if about(targets) => {
                let op = serde_json::from_str::<crate::contract::directive::Command>(command);
                Some(What::Host(HostEvent::ReviewOpened {
                    review: id.to_string(),
                    supervisor: self.name(*supervisor).await?,
                    targets: targets.clone(),
                    op: op.map(|c| c.op).unwrap_or_default(),
                    actor: actor.to_string(),
                }))
            }
            Record::ReviewClosed { id, end } if of_all => {
                let end = match end {
                    ReviewEnd::Allowed => "allowed",
                    ReviewEnd::Denied => "denied",
                    ReviewEnd::Timeout => "timeout",
                    ReviewEnd::NoOpinion => "noOpinion",
                };
                Some(What::Host(HostEvent::ReviewClosed {
                    review: id.to_string(),
                    end: end.to_owned(),
                }))
            }
            _ => None,
        })
    }

    /// Finds a supervisor's id by its number, in a newer view where the one at hand does not have it.
    async fn name(&mut self, number: u32) -> Result<Option<SupervisorId>, Error> {
        if !self.view.supervisors.contains_key(&number) {
            self.view = self.host.view().await?;
        }
        Ok(self.view.supervisors.get(&number).map(|s| s.def.id.clone()))
    }
}

/// Says whether a target as expanded is an execution or one of its nodes.
pub(super) fn is_about(target: &str, id: ExecutionId) -> bool {
    match target.split_once(':') {
        Some(("execution", x)) => x == id.to_string(),
        Some(("node", rest)) => rest
            .split_once('/')
            .is_some_and(|(x, _)| x == id.to_string()),
        _ => false,
    }
}

fn saved(kind: &str, json: &str) -> Option<What> {
    let id = serde_json::from_str::<serde_json::Value>(json)
        .ok()?
        .get("id")?
        .as_str()?
        .to_owned();
    Some(What::Host(HostEvent::Saved {
        target: format!("{kind}:{id}"),
    }))
}

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::new(
        Code::Internal,
        format!("the journal cannot be read ({error}); run `signalbox doctor check`"),
    )
}
