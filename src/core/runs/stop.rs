//! `run.stop`, and the stops that the host itself makes when a time is over.

use crate::contract::id::ExecutionId;
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;
use crate::core::effect::Effect;
use crate::core::fault::{self, Fault};
use crate::core::interlocking::permit;
use crate::core::record::{By, Ending, Record, StopMode};
use crate::core::state::run::Run;
use crate::core::turn::{Turn, by_system};

use super::settle;

/// The grace between SIGTERM and SIGKILL where no command gives one, in milliseconds.
pub(in crate::core) const GRACE_MS: u64 = 10_000;

/// Stops a run, or makes its stop harder.
pub(in crate::core) fn perform(
    turn: &mut Turn,
    id: ExecutionId,
    mode: StopMode,
    grace: u64,
    drain_limit: Option<u64>,
    by: &By,
) {
    let Some(run) = turn.state().durable().run(id).cloned() else {
        return;
    };
    let to = match run.status {
        RunStatus::Queued => Some(RunStatus::Stopped),
        RunStatus::Stopping => None,
        _ => Some(RunStatus::Stopping),
    };
    if let Some(to) = to {
        settle::set_run(turn, id, to, Some(by.clone()));
    }
    if to != Some(RunStatus::Stopped) {
        let deadline = match mode {
            StopMode::Drain => drain_limit.map(|ms| turn.now.plus(ms)),
            StopMode::Immediate => Some(turn.now.plus(grace)),
        };
        turn.emit(Record::StopSet {
            run: id,
            mode,
            grace,
            deadline,
        });
    }
    for (node, state) in run.named_nodes() {
        let waits = match state.status {
            NodeStatus::Ready => !fault::on(Fault::StopLeavesReady),
            status => status == NodeStatus::Pending,
        };
        if waits {
            settle::set_node(
                turn,
                id,
                node,
                NodeStatus::Stopped,
                Some(Why::RunStopped),
                Some(by.clone()),
            );
        }
    }
    if mode == StopMode::Immediate {
        end_attempts(turn, &run, turn.now.plus(grace));
    }
}

/// Tells what runs to end, or to be killed earlier than it would have been.
fn end_attempts(turn: &mut Turn, run: &Run, kill_at: HostTime) {
    for (node, state) in run
        .named_nodes()
        .filter(|(_, n)| n.status == NodeStatus::Running)
    {
        // An attempt that was told before keeps the earlier of both times; one that was killed stays so.
        let told = state.ending.is_some();
        let kill_at = match (told, state.kill_at) {
            (true, None) => None,
            (true, Some(at)) => Some(at.min(kill_at)),
            (false, _) => Some(kill_at),
        };
        turn.emit(Record::AttemptEnding {
            run: run.id,
            node: node.clone(),
            ending: Ending::RunStop,
            kill_at,
        });
        if !told {
            turn.effect(Effect::Stop {
                run: run.id,
                node: node.clone(),
                attempt: state.attempt,
                kill: false,
            });
        }
    }
}

/// A drain has taken too long: it becomes immediate.
pub(in crate::core) fn end_drain(turn: &mut Turn, id: ExecutionId) {
    let Some(run) = turn.state().durable().run(id).cloned() else {
        return;
    };
    let grace = run.stop.map_or(GRACE_MS, |s| s.grace);
    let kill_at = turn.now.plus(grace);
    turn.emit(Record::StopSet {
        run: id,
        mode: StopMode::Immediate,
        grace,
        deadline: Some(kill_at),
    });
    end_attempts(turn, &run, kill_at);
    settle::run(turn, id);
}

/// A run has taken too long: the host stops it.
pub(in crate::core) fn time_out(turn: &mut Turn, id: ExecutionId) {
    turn.emit(Record::RunTimedOut { run: id });
    permit::by_host(turn, id, by_system("timeout"));
}
