//! Who owns what: asked of the saves each time.

use std::rc::Rc;

use signalbox::contract::code::Code;
use signalbox::contract::definition::{SupervisorDef, Transport, WorkflowDef};
use signalbox::contract::id::{NodeId, SupervisorId, WorkflowId};
use signalbox::contract::signal::EventKind;
use signalbox::contract::unit::Unit;

use super::Reference;
use super::history::{Place, Save};
use super::view::RunView;
use crate::seen::Reply;

impl Reference {
    /// All supervisors as saved last, in the order of their first saves.
    pub(super) fn supervisors(&self) -> Vec<Rc<SupervisorDef>> {
        let mut out: Vec<Rc<SupervisorDef>> = Vec::new();
        for (_, save) in &self.history.saves {
            let Save::Supervisor(def) = save else {
                continue;
            };
            match out.iter_mut().find(|s| s.id == def.id) {
                Some(older) => *older = Rc::clone(def),
                None => out.push(Rc::clone(def)),
            }
        }
        out
    }

    /// A supervisor as saved last.
    pub(super) fn supervisor(&self, id: &SupervisorId) -> Option<Rc<SupervisorDef>> {
        self.supervisors().into_iter().find(|s| s.id == *id)
    }

    /// When a supervisor was saved first.
    pub(super) fn first_saved(&self, id: &SupervisorId) -> u64 {
        let first = |(at, save): &(u64, Save)| match save {
            Save::Supervisor(def) if def.id == *id => Some(*at),
            _ => None,
        };
        self.history.saves.iter().find_map(first).unwrap_or(0)
    }

    pub(super) fn owner_of_workflow(&self, workflow: &WorkflowId) -> Option<SupervisorId> {
        let unit = Unit::Workflow(workflow.clone());
        self.supervisors()
            .into_iter()
            .find(|s| s.owns.contains(&unit))
            .map(|s| s.id.clone())
    }

    /// The owner of a node of a run: who claims the node, else its group, else the workflow.
    pub(super) fn owner_of_node(&self, run: &RunView, node: &NodeId) -> Option<SupervisorId> {
        let supervisors = self.supervisors();
        let owner = |unit: &Unit| {
            supervisors
                .iter()
                .find(|s| s.owns.contains(unit))
                .map(|s| s.id.clone())
        };
        let workflow = &run.def.id;
        let group = run.def.nodes.get(node).and_then(|n| n.group.as_ref());
        owner(&Unit::Node(workflow.clone(), node.clone()))
            .or_else(|| owner(&Unit::Group(workflow.clone(), group?.clone())))
            .or_else(|| owner(&Unit::Workflow(workflow.clone())))
    }

    /// The owner of what a command acts on.
    pub(super) fn owner_of(&self, place: &Place) -> Option<SupervisorId> {
        match place {
            Place::Nowhere(_) => None,
            Place::Workflow(w) => self.owner_of_workflow(w),
            Place::Run(run) => self.owner_of_workflow(&self.history.run(*run)?.def.id),
            Place::Node(run, node) => {
                let run = self.history.run(*run)?;
                self.owner_of_node(&run, node)
            }
        }
    }

    /// Who sees the statuses of a run: its owner and every other claimant of one of its nodes.
    pub(super) fn watchers_of_run(&self, run: &RunView) -> Vec<SupervisorId> {
        let claims = |s: &Rc<SupervisorDef>| {
            s.owns.contains(&Unit::Workflow(run.def.id.clone()))
                || run.def.nodes.iter().any(|(id, node)| {
                    claims_node(
                        &s.owns,
                        &run.def.id,
                        id,
                        node.group.as_ref().map(|g| g.as_str()),
                    )
                })
        };
        self.supervisors()
            .into_iter()
            .filter(claims)
            .map(|s| s.id.clone())
            .collect()
    }

    /// Who sees the statuses of a node: its owner and the run's.
    pub(super) fn watchers_of_node(&self, run: &RunView, node: &NodeId) -> Vec<SupervisorId> {
        let owners = [
            self.owner_of_node(run, node),
            self.owner_of_workflow(&run.def.id),
        ];
        let sees = |s: &Rc<SupervisorDef>| owners.iter().flatten().any(|o| *o == s.id);
        self.supervisors()
            .into_iter()
            .filter(sees)
            .map(|s| s.id.clone())
            .collect()
    }

    pub(super) fn save_workflow(&mut self, def: &WorkflowDef) {
        let wrong = !def.problems().is_empty();
        self.save(wrong, Save::Workflow(Rc::new(def.clone())));
    }

    pub(super) fn save_supervisor(&mut self, def: &SupervisorDef) {
        let before = self
            .supervisor(&def.id)
            .map(|d| d.owns.clone())
            .unwrap_or_default();
        let wrong = !def.problems().is_empty();
        if !self.save(wrong, Save::Supervisor(Rc::new(def.clone()))) {
            return;
        }
        let list = |of: &[Unit], without: &[Unit]| {
            let mut units: Vec<String> = of
                .iter()
                .filter(|u| !without.contains(u))
                .map(ToString::to_string)
                .collect();
            units.sort();
            units.join(",")
        };
        let mut fields = std::collections::BTreeMap::new();
        for (name, units) in [
            ("gained", list(&def.owns, &before)),
            ("lost", list(&before, &def.owns)),
        ] {
            if !units.is_empty() {
                fields.insert(name.to_owned(), units);
            }
        }
        if !fields.is_empty() {
            self.stream_to(&def.id, EventKind::Ownership, &fields);
        }
    }

    /// Saves unless something is wrong; says whether it did.
    fn save(&mut self, wrong: bool, save: Save) -> bool {
        let mut reply = Reply::done(Vec::new());
        if wrong {
            reply = Reply::refused(Code::InvalidArgument, "");
        } else {
            self.history.saves.push((self.now, save));
            if self.two_own_one() {
                self.history.saves.pop();
                reply = Reply::refused(Code::OwnershipConflict, "");
            }
        }
        reply.check = None;
        let saved = reply.code.is_none();
        self.answer(self.index, reply);
        saved
    }

    /// Says whether two supervisors own the same unit, or claim the same node of a workflow as saved last.
    fn two_own_one(&self) -> bool {
        let supervisors = self.supervisors();
        let pairs = supervisors
            .iter()
            .flat_map(|a| supervisors.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a.id < b.id).any(|(a, b)| {
            a.owns.iter().any(|unit| b.owns.contains(unit))
                || self.workflows().iter().any(|w| {
                    w.nodes.iter().any(|(id, node)| {
                        let group = node.group.as_ref().map(|g| g.as_str());
                        claims_node(&a.owns, &w.id, id, group)
                            && claims_node(&b.owns, &w.id, id, group)
                    })
                })
        })
    }

    /// All workflows as saved last.
    fn workflows(&self) -> Vec<Rc<WorkflowDef>> {
        let mut out: Vec<Rc<WorkflowDef>> = Vec::new();
        for (_, save) in &self.history.saves {
            if let Save::Workflow(def) = save {
                out.retain(|w| w.id != def.id);
                out.push(Rc::clone(def));
            }
        }
        out
    }
}

fn claims_node(owns: &[Unit], workflow: &WorkflowId, node: &NodeId, group: Option<&str>) -> bool {
    owns.iter().any(|unit| match unit {
        Unit::Node(w, n) => w == workflow && n == node,
        Unit::Group(w, g) => w == workflow && group == Some(g.as_str()),
        _ => false,
    })
}

/// Says whether the engine is the built-in that lets operators pass.
pub(super) fn is_gateway(def: &SupervisorDef) -> bool {
    def.engine.transport == Transport::Builtin
}
