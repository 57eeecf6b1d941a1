//! What a command may do in a state (operations.md), without doing it.

use signalbox::contract::id::NodeId;
use signalbox::contract::outcome::Outcome;
use signalbox::contract::status::{NodeStatus, RunStatus, Why};

use super::history::Place;
use super::view::RunView;
use super::{Caller, Reference};
use crate::choices::HOLDER_SEPARATOR;
use crate::operations::Deed;

/// What a state says to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It would be applied, with this detail.
    Apply(Option<String>),
    /// It would not.
    Not(Outcome, Option<String>),
}

fn unfit(detail: String) -> Judgement {
    Judgement::Not(Outcome::PreconditionFailed, Some(detail))
}

fn bad_state(state: impl std::fmt::Display) -> Judgement {
    unfit(format!("state {state}"))
}

const ALREADY: Judgement = Judgement::Not(Outcome::AlreadyInState, None);
const APPLY: Judgement = Judgement::Apply(None);

impl Reference {
    /// Judges a command on a run or node that exists: first its guard, then the state.
    pub(super) fn judge(
        &self,
        deed: &Deed,
        guard: Option<&str>,
        caller: &Caller,
        place: &Place,
    ) -> Judgement {
        let (view, node) = match place {
            Place::Run(run) => (self.history.run(*run), None),
            Place::Node(run, node) => (self.history.run(*run), Some(node)),
            Place::Nowhere(_) | Place::Workflow(_) => return APPLY,
        };
        let Some(view) = view else {
            return Judgement::Not(Outcome::NotFound, None);
        };
        let status = match node {
            None => view.status.as_str(),
            Some(node) => view.nodes.get(node).map_or("", |n| n.status.as_str()),
        };
        if guard.is_some_and(|g| g != status) {
            return unfit(format!("ifStatus {status}"));
        }
        match (deed, node) {
            (Deed::Pause, _) => pause(&view, caller),
            (Deed::Resume, _) => resume(&view, caller),
            (Deed::ResumeHeld, _) => resume_held(&view, caller),
            (
                Deed::Stop {
                    immediate,
                    grace_ms,
                    drain_ms,
                },
                _,
            ) => self.stop(&view, *immediate, *grace_ms, *drain_ms),
            (Deed::Retry, Some(node)) => self.retry(&view, node),
            (Deed::Skip, Some(node)) => self.skip(&view, node),
            (Deed::Start { .. } | Deed::Retry | Deed::Skip, _) => APPLY,
        }
    }

    fn stop(
        &self,
        view: &RunView,
        immediate: bool,
        grace_ms: u64,
        drain_ms: Option<u64>,
    ) -> Judgement {
        if view.status.is_terminal() {
            return Judgement::Not(
                Outcome::AlreadyInState,
                Some(format!("state {}", view.status)),
            );
        }
        let Some(stop) = view.stop else { return APPLY };
        let earlier = |new: Option<u64>, present: Option<u64>| match (new, present) {
            (Some(new), Some(present)) => new < present,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let harder = match (stop.immediate, immediate) {
            (false, true) => true,
            (true, false) => false,
            (false, false) => earlier(drain_ms.map(|ms| self.now + ms), stop.drain_at),
            (true, true) => earlier(Some(self.now + grace_ms), stop.kill_at),
        };
        if harder { APPLY } else { ALREADY }
    }

    fn retry(&self, view: &RunView, node: &NodeId) -> Judgement {
        let (Some(at), Some(def)) = (view.nodes.get(node), view.def.nodes.get(node)) else {
            return ALREADY;
        };
        match at.status {
            NodeStatus::Ready | NodeStatus::Running => return ALREADY,
            NodeStatus::Failed | NodeStatus::Stopped | NodeStatus::Skipped => {}
            other => return bad_state(other),
        }
        if matches!(view.status, RunStatus::Stopping | RunStatus::Succeeded) {
            return bad_state(view.status);
        }
        if let Some(need) = def.needs.iter().find(|need| !view.satisfies(need)) {
            return unfit(format!(
                "need {need} is {}",
                view.nodes.get(need).map_or("", |n| n.status.as_str())
            ));
        }
        let ran = |d: &&NodeId| view.nodes.get(*d).is_some_and(|n| n.ever_ran);
        if let Some(dependent) = view.dependents(node).find(ran) {
            return unfit(format!("dependent {dependent} has started"));
        }
        self.reopen(view)
    }

    fn skip(&self, view: &RunView, node: &NodeId) -> Judgement {
        let Some(at) = view.nodes.get(node) else {
            return ALREADY;
        };
        match (at.status, at.why) {
            (NodeStatus::Skipped, Some(Why::Command)) => return ALREADY,
            (NodeStatus::Skipped, Some(Why::Upstream)) => {}
            (
                NodeStatus::Pending | NodeStatus::Ready | NodeStatus::Failed | NodeStatus::Stopped,
                _,
            ) => {}
            (other, _) => return bad_state(other),
        }
        if view.status == RunStatus::Succeeded {
            bad_state(view.status)
        } else {
            self.reopen(view)
        }
    }

    /// An ended run opens again only before its timeout.
    fn reopen(&self, view: &RunView) -> Judgement {
        let past = view.timeout_at().is_some_and(|at| self.now >= at);
        if view.status.is_terminal() && past {
            unfit("timeout".to_owned())
        } else {
            APPLY
        }
    }
}

fn pause(view: &RunView, caller: &Caller) -> Judgement {
    if !goes_on(view) {
        bad_state(view.status)
    } else if view.holds.contains(&caller.holder()) {
        ALREADY
    } else {
        APPLY
    }
}

/// Whether holds mean something to the run: it is live and not being stopped.
fn goes_on(view: &RunView) -> bool {
    view.is_live() && view.status != RunStatus::Stopping
}

/// Whether a caller's `run.resume` clears a hold.
pub(super) fn clears(caller: &Caller, holder: &str) -> bool {
    holder.starts_with("supervisor:")
        || (holder.starts_with("person:") && matches!(caller, Caller::Operator(_)))
}

fn still_held(holders: &[&String]) -> String {
    format!("STILL_HELD by {}", join(holders))
}

fn join(holders: &[&String]) -> String {
    holders
        .iter()
        .map(|h| h.as_str())
        .collect::<Vec<_>>()
        .join(HOLDER_SEPARATOR)
}

fn resume(view: &RunView, caller: &Caller) -> Judgement {
    if !goes_on(view) {
        return bad_state(view.status);
    }
    if view.holds.is_empty() {
        return ALREADY;
    }
    let (gone, left): (Vec<&String>, Vec<&String>) =
        view.holds.iter().partition(|h| clears(caller, h));
    match (gone.is_empty(), left.is_empty()) {
        (true, _) => unfit(still_held(&left)),
        (false, true) => Judgement::Apply(Some(format!("cleared {}", join(&gone)))),
        (false, false) => Judgement::Apply(Some(format!(
            "cleared {}; {}",
            join(&gone),
            still_held(&left)
        ))),
    }
}

fn resume_held(view: &RunView, caller: &Caller) -> Judgement {
    if !goes_on(view) {
        return bad_state(view.status);
    }
    if !view.holds.contains(&caller.holder()) {
        return ALREADY;
    }
    let left: Vec<&String> = view
        .holds
        .iter()
        .filter(|h| **h != caller.holder())
        .collect();
    Judgement::Apply(if left.is_empty() {
        None
    } else {
        Some(still_held(&left))
    })
}
