//! The snapshot that belongs to `Started`, in parts, built from a view on the session's own task (C41).

use prost::Message as _;

use crate::contract::id::ExecutionId;
use crate::contract::status::{NodeStatus, RunStatus};
use crate::contract::time::HostTime;
use crate::core::record::{AttemptEnd, Hold};
use crate::core::state::run::{Node, Run};
use crate::host::View;
use crate::wire::proto::v1 as pb;
use crate::wire::signal::millis;

/// A part ends when it is this long, in bytes. One execution more may fit: parts stay below 1 MiB by far, and what
/// waits for an engine that does not read stays small.
const PART: usize = 128 << 10;

/// Host time on the wall's clock, for display.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wall {
    pub now: HostTime,
    pub wall: u64,
}

impl Wall {
    /// Returns a host time in Unix milliseconds.
    pub fn of(self, at: HostTime) -> i64 {
        let (ahead, behind) = (at.since(self.now), self.now.since(at));
        millis(self.wall.saturating_add(ahead).saturating_sub(behind))
    }
}

/// The parts of a snapshot that were not made yet.
pub(super) struct Parts {
    view: View,
    number: u32,
    wall: Wall,
    next: ExecutionId,
    seq: u32,
    done: bool,
}

impl Parts {
    pub fn new(view: View, number: u32, wall: Wall) -> Self {
        Self {
            view,
            number,
            wall,
            next: ExecutionId(0),
            seq: 0,
            done: false,
        }
    }

    /// Says whether the last part was made.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Makes the next part; none after the last.
    pub fn next(&mut self) -> Option<pb::SnapshotChunk> {
        if self.done {
            return None;
        }
        let mut part = pb::SnapshotChunk {
            seq: self.seq,
            ..pb::SnapshotChunk::default()
        };
        if self.seq == 0 {
            part.requests = self.requests();
        }
        self.seq += 1;
        let mut length = 0;
        let mut full = false;
        for (id, run) in self.view.runs.range(self.next..) {
            if full {
                self.next = *id;
                return Some(part);
            }
            let Some((execution, holds)) = self.execution(run) else {
                continue;
            };
            length +=
                execution.encoded_len() + holds.iter().map(|h| h.encoded_len() + 8).sum::<usize>();
            full = length >= PART;
            part.executions.push(execution);
            part.holds.extend(holds);
        }
        self.done = true;
        part.last = true;
        Some(part)
    }

    fn requests(&self) -> Vec<pb::OpenRequest> {
        let open = |r: &&std::sync::Arc<crate::core::state::Review>| {
            r.supervisor == self.number && r.end.is_none()
        };
        self.view
            .reviews
            .values()
            .filter(open)
            .map(|r| pb::OpenRequest {
                id: r.id.to_string(),
                signal: "Review".into(),
                deadline_ms: self.wall.of(r.deadline),
                target: r.command.target.clone(),
            })
            .collect()
    }

    /// Returns a run as this supervisor may see it (C3), with the holds on it; none where it has no part in it.
    fn execution(&self, run: &Run) -> Option<(pb::Execution, Vec<pb::Hold>)> {
        if run.status.is_terminal() {
            return None;
        }
        let audience = self.view.audience(run)?;
        if !audience.run_readers.contains(&self.number) {
            return None;
        }
        let owner = audience.run_owner == Some(self.number);
        let mine = |index: usize| {
            owner || audience.node_owners.get(index).copied().flatten() == Some(self.number)
        };
        let nodes = run
            .named_nodes()
            .enumerate()
            .filter(|(index, _)| mine(*index))
            .map(|(_, (id, n))| node(id.to_string(), n, self.wall))
            .collect();
        let holds = if owner {
            run.holds.iter().map(|h| hold(run, h)).collect()
        } else {
            Vec::new()
        };
        let execution = pb::Execution {
            id: run.id.to_string(),
            workflow: run.workflow.to_string(),
            status: run.status.as_str().into(),
            why: String::new(),
            priority: run.priority,
            created_ms: millis(run.started_wall),
            // When it left the queue is known only while that was its last change.
            started_ms: (run.status == RunStatus::Running).then(|| millis(run.changed_wall)),
            ended_ms: None,
            deadline_ms: run.deadline.map(|at| self.wall.of(at)),
            restart_of: String::new(),
            parent: String::new(),
            order: run.order,
            nodes,
        };
        Some((execution, holds))
    }
}

fn hold(run: &Run, hold: &Hold) -> pb::Hold {
    let Hold {
        holder,
        reason,
        since_wall,
    } = hold;
    pb::Hold {
        execution: run.id.to_string(),
        node: String::new(),
        holder: holder.to_string(),
        reason: reason.clone().unwrap_or_default(),
        since_ms: millis(*since_wall),
        suspend: false,
    }
}

fn node(id: String, node: &Node, wall: Wall) -> pb::Node {
    let changed = millis(node.changed_wall);
    let ended = node.started && node.status.is_terminal();
    pb::Node {
        id,
        status: node.status.as_str().into(),
        why: node.why.map_or("", |w| w.as_str()).into(),
        attempt: node.attempt,
        exit: match node.end {
            Some(AttemptEnd::Code(code)) => Some(pb::node::Exit::ExitCode(code)),
            Some(AttemptEnd::Signal(signal)) => Some(pb::node::Exit::ExitSignal(signal)),
            Some(AttemptEnd::NotStarted | AttemptEnd::Lost) | None => None,
        },
        retry_at_ms: node
            .deadline
            .filter(|_| node.status == NodeStatus::Ready)
            .map(|at| wall.of(at)),
        started_ms: (node.status == NodeStatus::Running).then_some(changed),
        ended_ms: ended.then_some(changed),
        result: String::new(),
        child: String::new(),
    }
}
