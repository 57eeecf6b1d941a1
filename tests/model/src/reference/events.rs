//! Changes of runs and nodes, and the events that they make.

use std::collections::BTreeMap;

use signalbox::contract::id::{NodeId, SupervisorId};
use signalbox::contract::operation::Op;
use signalbox::contract::signal::EventKind;
use signalbox::contract::status::{NodeStatus, RunStatus, Why};

use super::history::{Note, Place, Streamed};
use super::ownership::is_gateway;
use super::view::RunFact;
use super::{By, Caller, Reference};
use crate::seen::{Seen, TargetSeen};
use crate::step::Exit;

/// What a change of a node carries beside its status.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Detail {
    pub why: Option<Why>,
    pub exit: Option<Exit>,
    pub retry_in_ms: Option<u64>,
}

impl Detail {
    pub fn why(why: Why) -> Self {
        Self {
            why: Some(why),
            ..Self::default()
        }
    }
}

type Fields = BTreeMap<String, String>;

fn put(fields: &mut Fields, name: &str, value: impl ToString) {
    fields.insert(name.to_owned(), value.to_string());
}

fn put_by(fields: &mut Fields, by: Option<&By>) {
    let Some(by) = by else { return };
    put(fields, "channel", by.caller.channel());
    put(fields, "actor", by.caller.actor());
    for (name, text) in [("cause", &by.cause), ("reason", &by.reason)] {
        if let Some(text) = text {
            put(fields, name, text);
        }
    }
}

impl Reference {
    /// Gives an event the next place in a supervisor's stream, if it has one and takes the kind.
    pub(super) fn stream_to(&mut self, to: &SupervisorId, kind: EventKind, fields: &Fields) {
        let Some(def) = self.supervisor(to) else {
            return;
        };
        let takes = def
            .events
            .as_ref()
            .map_or(kind != EventKind::Log, |kinds| kinds.contains(&kind));
        if !takes || is_gateway(&def) {
            return;
        }
        let cursor = self.last_cursor(to) + 1;
        self.history.stream.push((
            self.now,
            Streamed {
                supervisor: to.clone(),
                cursor,
            },
        ));
        self.see(Seen::Event {
            supervisor: to.clone(),
            cursor,
            kind,
            fields: fields.clone(),
        });
    }

    /// The number of the last event in a supervisor's stream.
    pub(super) fn last_cursor(&self, supervisor: &SupervisorId) -> u64 {
        self.history
            .stream
            .iter()
            .rev()
            .find(|(_, e)| e.supervisor == *supervisor)
            .map_or(0, |(_, e)| e.cursor)
    }

    /// Gives a run a status, whatever it had.
    pub(super) fn run_becomes(&mut self, run: u64, status: RunStatus, by: Option<&By>) {
        let Some(before) = self.history.run(run) else {
            return;
        };
        self.history.tell(self.now, run, RunFact::Became(status));
        self.notes.push(Note::Run(Some(before.status), status));
        self.tell_run(run, Some(before.status), by);
    }

    /// Tells the watchers how a run stands.
    pub(super) fn tell_run(&mut self, run: u64, previous: Option<RunStatus>, by: Option<&By>) {
        let Some(view) = self.history.run(run) else {
            return;
        };
        let mut fields = Fields::new();
        put(&mut fields, "execution", format!("x{run}"));
        put(&mut fields, "workflow", &view.def.id);
        put(&mut fields, "status", view.status);
        if let Some(previous) = previous {
            put(&mut fields, "previous", previous);
        }
        put_by(&mut fields, by);
        for to in self.watchers_of_run(&view) {
            self.stream_to(&to, EventKind::WorkflowStatus, &fields);
        }
    }

    /// Gives a node a status, whatever it had.
    pub(super) fn node_becomes(
        &mut self,
        run: u64,
        node: &NodeId,
        status: NodeStatus,
        detail: Detail,
        by: Option<&By>,
    ) {
        let before = self
            .history
            .run(run)
            .and_then(|v| v.nodes.get(node).map(|n| n.status));
        let delay_ms = detail.retry_in_ms.unwrap_or(0);
        self.history.tell(
            self.now,
            run,
            RunFact::Node {
                node: node.clone(),
                status,
                why: detail.why,
                delay_ms,
            },
        );
        let (Some(before), Some(view)) = (before, self.history.run(run)) else {
            return;
        };
        self.notes.push(Note::Node(before, status));
        let mut fields = Fields::new();
        put(&mut fields, "execution", format!("x{run}"));
        put(&mut fields, "workflow", &view.def.id);
        put(&mut fields, "node", node);
        put(&mut fields, "status", status);
        put(&mut fields, "previous", before);
        put(
            &mut fields,
            "attempt",
            view.nodes.get(node).map_or(0, |n| n.attempt),
        );
        if let Some(why) = detail.why {
            put(&mut fields, "why", why);
        }
        match detail.exit {
            Some(Exit::Code(code)) => put(&mut fields, "exitCode", code),
            Some(Exit::Signal(signal)) => put(&mut fields, "exitSignal", signal),
            _ => {}
        }
        if let Some(ms) = detail.retry_in_ms {
            put(&mut fields, "retryInMs", ms);
        }
        put_by(&mut fields, by);
        for to in self.watchers_of_node(&view, node) {
            self.stream_to(&to, EventKind::NodeStatus, &fields);
        }
    }

    /// Tells the owner of a place what came of somebody else's command there. Only effects are told.
    pub(super) fn tell_outcome(&mut self, place: &Place, op: Op, result: &TargetSeen, by: &By) {
        let (run, node) = match place {
            Place::Run(run) => (*run, None),
            Place::Node(run, node) => (*run, Some(node)),
            Place::Nowhere(_) | Place::Workflow(_) => return,
        };
        let (Some(view), Some(owner)) = (self.history.run(run), self.owner_of(place)) else {
            return;
        };
        if by.caller == Caller::Engine(owner.clone()) {
            return;
        }
        let mut fields = Fields::new();
        put(&mut fields, "execution", format!("x{run}"));
        put(&mut fields, "workflow", &view.def.id);
        if let Some(node) = node {
            put(&mut fields, "node", node);
        }
        put(&mut fields, "op", op.as_str());
        put(&mut fields, "outcome", result.outcome.as_str());
        if let Some(detail) = &result.detail {
            put(&mut fields, "detail", detail);
        }
        if let Some(order) = result.order {
            put(&mut fields, "order", order);
        }
        put_by(&mut fields, Some(by));
        self.stream_to(&owner, EventKind::ControlOutcome, &fields);
    }
}
