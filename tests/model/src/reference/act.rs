//! Commands on their targets: judged, applied, told.

use std::collections::BTreeMap;

use signalbox::contract::code::Code;
use signalbox::contract::id::{NodeId, SupervisorId, WorkflowId};
use signalbox::contract::outcome::Outcome;
use signalbox::contract::status::{NodeStatus, RunStatus, Why};

use super::events::Detail;
use super::history::{Note, Place};
use super::judge::{Judgement, clears};
use super::view::RunFact;
use super::{By, Reference};
use crate::choices::OUTCOME_AFTER_WHAT_FOLLOWS;
use crate::operations::{Aim, Deed};
use crate::seen::{Reply, Seen, TargetSeen};

/// The most runs that a selector gives.
const MOST_TARGETS: usize = 200;

impl Place {
    /// The place as results name it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Nowhere(text) => text.clone(),
            Self::Workflow(w) => format!("workflow:{w}"),
            Self::Run(run) => format!("execution:x{run}"),
            Self::Node(run, node) => format!("node:x{run}/{node}"),
        }
    }
}

impl Reference {
    /// Finds the places that a target means; with how many matched, when more than 200 did. `sender` is the
    /// engine that sends it; none for an operator.
    pub(super) fn expand(
        &self,
        deed: &Deed,
        aim: &Aim,
        sender: Option<&SupervisorId>,
    ) -> (Vec<Place>, Option<u64>) {
        let live = |only: Option<&WorkflowId>| {
            let runs = self
                .history
                .all_runs()
                .filter(|r| r.is_live() && only.is_none_or(|w| r.def.id == *w));
            runs.map(|r| r.id).collect::<Vec<u64>>()
        };
        let mut runs = match aim {
            Aim::Run(run) => {
                let known = self.history.run(*run).is_some();
                let text = format!("execution:x{run}");
                return (
                    vec![if known {
                        Place::Run(*run)
                    } else {
                        Place::Nowhere(text)
                    }],
                    None,
                );
            }
            Aim::Nodes(nodes) => {
                let known = |run: &u64, node: &NodeId| {
                    self.history
                        .run(*run)
                        .is_some_and(|r| r.nodes.contains_key(node))
                };
                let place = |(run, node): &(u64, NodeId)| {
                    let place = Place::Node(*run, node.clone());
                    if known(run, node) {
                        place
                    } else {
                        Place::Nowhere(place.text())
                    }
                };
                return (nodes.iter().map(place).collect(), None);
            }
            Aim::Workflow(w) if self.history.workflow(w).is_none() => {
                return (vec![Place::Nowhere(format!("workflow:{w}"))], None);
            }
            Aim::Workflow(w) => {
                let foreign = sender.is_some_and(|s| self.owner_of_workflow(w).as_ref() != Some(s));
                if matches!(deed, Deed::Start { .. }) || foreign {
                    return (vec![Place::Workflow(w.clone())], None);
                }
                live(Some(w))
            }
            Aim::OwnedRunning | Aim::OwnedHeld => live(None),
        };
        if let Some(sender) = sender {
            runs.retain(|run| self.owner_of(&Place::Run(*run)).as_ref() == Some(sender));
            if *aim == Aim::OwnedHeld {
                let holder = format!("supervisor:{sender}");
                runs.retain(|run| {
                    self.history
                        .run(*run)
                        .is_some_and(|r| r.holds.contains(&holder))
                });
            }
        }
        let matched = (runs.len() > MOST_TARGETS).then_some(runs.len() as u64);
        runs.truncate(MOST_TARGETS);
        (runs.into_iter().map(Place::Run).collect(), matched)
    }

    /// Applies a command to its places one after the other. `owner` must still own each of them, if given
    /// (`Some(None)`: nobody may). A start that cannot be made refuses the whole.
    pub(super) fn act(
        &mut self,
        deed: &Deed,
        guard: Option<&str>,
        places: &[Place],
        owner: Option<Option<&SupervisorId>>,
        by: &By,
    ) -> Result<Vec<TargetSeen>, Reply> {
        let mut out = Vec::new();
        for place in places {
            let result = self.act_at(deed, guard, place, owner, by)?;
            out.push(result);
        }
        Ok(out)
    }

    fn act_at(
        &mut self,
        deed: &Deed,
        guard: Option<&str>,
        place: &Place,
        owner: Option<Option<&SupervisorId>>,
        by: &By,
    ) -> Result<TargetSeen, Reply> {
        let state = self.state_of(place);
        let mut result = TargetSeen {
            target: place.text(),
            outcome: Outcome::NotFound,
            detail: None,
            order: None,
        };
        let foreign = owner.is_some_and(|owner| self.owner_of(place).as_ref() != owner);
        let mut place = place.clone();
        if matches!(place, Place::Nowhere(_)) {
            result.outcome = Outcome::NotFound;
        } else if foreign {
            result.outcome = Outcome::NotOwned;
        } else {
            match self.judge(deed, guard, &by.caller, &place) {
                Judgement::Not(outcome, detail) => {
                    (result.outcome, result.detail) = (outcome, detail)
                }
                Judgement::Apply(detail) => {
                    (result.outcome, result.detail) = (Outcome::Applied, detail);
                    match (deed, &place) {
                        (Deed::Start { params, priority }, Place::Workflow(w)) => {
                            if let Err(refused) = self.may_start(w, params) {
                                let code = refused.code.map_or("", Code::as_str);
                                self.note_met(deed, &state, code, by.caller.channel());
                                return Err(refused);
                            }
                            let run = self.start(&w.clone(), *priority, by);
                            place = Place::Run(run);
                            result.target = place.text();
                        }
                        (_, Place::Run(run)) => self.change_run(deed, *run, by),
                        (_, Place::Node(run, node)) => self.change_node(deed, *run, node, by),
                        _ => {}
                    }
                    self.finish(deed, &place, &mut result, by);
                }
            }
        }
        self.note_met(deed, &state, result.outcome.as_str(), by.caller.channel());
        Ok(result)
    }

    /// Numbers an applied command, lets follow what follows in its run, and tells the owner.
    fn finish(&mut self, deed: &Deed, place: &Place, result: &mut TargetSeen, by: &By) {
        let (Place::Run(run) | Place::Node(run, _)) = place else {
            return;
        };
        self.history.tell(self.now, *run, RunFact::Ordered);
        result.order = self.history.run(*run).map(|r| r.order);
        if OUTCOME_AFTER_WHAT_FOLLOWS {
            self.settle(*run);
            self.tell_outcome(place, deed.op(), result, by);
        } else {
            self.tell_outcome(place, deed.op(), result, by);
            self.settle(*run);
        }
    }

    pub(super) fn state_of(&self, place: &Place) -> String {
        match place {
            Place::Run(run) => self.history.run(*run).map(|r| r.status.to_string()),
            Place::Node(run, node) => self
                .history
                .run(*run)
                .and_then(|r| Some(r.nodes.get(node)?.label())),
            Place::Nowhere(_) | Place::Workflow(_) => None,
        }
        .unwrap_or_else(|| "-".to_owned())
    }

    pub(super) fn note_met(
        &mut self,
        deed: &Deed,
        state: &str,
        outcome: &str,
        channel: &'static str,
    ) {
        self.notes.push(Note::Met {
            op: deed.op(),
            state: state.to_owned(),
            outcome: outcome.to_owned(),
            channel,
        });
    }

    /// Says whether a run of the workflow could be started now: its parameters, then the queue.
    pub(super) fn may_start(
        &self,
        workflow: &WorkflowId,
        params: &BTreeMap<String, String>,
    ) -> Result<(), Reply> {
        let known = self.history.workflow(workflow);
        let fits = known.is_some_and(|def| {
            params.keys().all(|name| def.params.contains_key(name))
                && def
                    .params
                    .iter()
                    .all(|(name, p)| p.default.is_some() || params.contains_key(name))
        });
        if !fits {
            return Err(Reply::refused(Code::InvalidArgument, "params"));
        }
        let queued = self
            .history
            .all_runs()
            .filter(|r| r.status == RunStatus::Queued)
            .count();
        if queued >= self.settings.max_queued_runs as usize {
            return Err(Reply::refused(Code::Unavailable, "queue"));
        }
        Ok(())
    }

    fn start(&mut self, workflow: &WorkflowId, priority: i32, by: &By) -> u64 {
        let Some(def) = self.history.workflow(workflow) else {
            return 0;
        };
        let run = self
            .history
            .begin_run(self.now, RunFact::Created { def, priority });
        self.notes.push(Note::Run(None, RunStatus::Queued));
        self.tell_run(run, None, Some(by));
        run
    }

    fn change_run(&mut self, deed: &Deed, run: u64, by: &By) {
        let Some(before) = self.history.run(run) else {
            return;
        };
        match deed {
            Deed::Pause => {
                self.history
                    .tell(self.now, run, RunFact::Held(by.caller.holder()));
                match before.status {
                    RunStatus::Queued => self.run_becomes(run, RunStatus::Paused, Some(by)),
                    RunStatus::Running => self.run_becomes(run, RunStatus::Pausing, Some(by)),
                    _ => {}
                }
            }
            Deed::Resume | Deed::ResumeHeld => {
                let own = by.caller.holder();
                for holder in &before.holds {
                    let released = if *deed == Deed::Resume {
                        clears(&by.caller, holder)
                    } else {
                        *holder == own
                    };
                    if released {
                        self.history
                            .tell(self.now, run, RunFact::Released(holder.clone()));
                    }
                }
                let free = self.history.run(run).is_some_and(|r| r.holds.is_empty());
                match before.status {
                    RunStatus::Pausing if free => {
                        self.run_becomes(run, RunStatus::Running, Some(by))
                    }
                    RunStatus::Paused if free => self.run_becomes(run, RunStatus::Queued, Some(by)),
                    _ => {}
                }
            }
            Deed::Stop {
                immediate,
                grace_ms,
                drain_ms,
            } => {
                self.stop_run(run, *immediate, *grace_ms, *drain_ms, by);
            }
            Deed::Start { .. } | Deed::Retry | Deed::Skip => {}
        }
    }

    fn stop_run(
        &mut self,
        run: u64,
        immediate: bool,
        grace_ms: u64,
        drain_ms: Option<u64>,
        by: &By,
    ) {
        let Some(before) = self.history.run(run) else {
            return;
        };
        let first = before.status != RunStatus::Stopping;
        let queued = before.status == RunStatus::Queued;
        if first {
            let next = if queued {
                RunStatus::Stopped
            } else {
                RunStatus::Stopping
            };
            self.run_becomes(run, next, Some(by));
            for (node, n) in &before.nodes {
                if matches!(n.status, NodeStatus::Pending | NodeStatus::Ready) {
                    let why = Detail::why(Why::RunStopped);
                    self.node_becomes(run, node, NodeStatus::Stopped, why, Some(by));
                }
            }
        }
        if !queued {
            self.history.tell(
                self.now,
                run,
                RunFact::StopOrdered {
                    immediate,
                    grace_ms,
                    drain_ms,
                },
            );
        }
        if immediate {
            self.terminate(&before);
        }
    }

    /// Tells the runtime to end the attempts that were not told to end before.
    pub(super) fn terminate(&mut self, before: &super::view::RunView) {
        for (node, n) in before.running().filter(|(_, n)| n.ending.is_none()) {
            self.see(Seen::Stop {
                execution: before.id,
                node: node.clone(),
                attempt: n.attempt,
                kill: false,
            });
        }
    }

    fn change_node(&mut self, deed: &Deed, run: u64, node: &NodeId, by: &By) {
        let Some(before) = self.history.run(run) else {
            return;
        };
        let Some(was) = before.nodes.get(node) else {
            return;
        };
        let reset = match deed {
            Deed::Retry => true,
            _ => {
                before.status != RunStatus::Stopping
                    && !matches!(was.status, NodeStatus::Pending | NodeStatus::Ready)
            }
        };
        if before.status.is_terminal() {
            self.run_becomes(run, RunStatus::Queued, Some(by));
        }
        match deed {
            Deed::Retry => {
                self.node_becomes(run, node, NodeStatus::Ready, Detail::default(), Some(by))
            }
            _ => self.node_becomes(
                run,
                node,
                NodeStatus::Skipped,
                Detail::why(Why::Command),
                Some(by),
            ),
        }
        if !reset {
            return;
        }
        for below in before.downstream(node) {
            let again = before.nodes.get(&below).is_some_and(|n| {
                let upstream = n.status == NodeStatus::Skipped && n.why == Some(Why::Upstream);
                !n.ever_ran && (upstream || n.status == NodeStatus::Stopped)
            });
            if again {
                self.node_becomes(
                    run,
                    &below,
                    NodeStatus::Pending,
                    Detail::default(),
                    Some(by),
                );
            }
        }
    }
}
