//! `apply`: the only place where the durable state changes.
//!
//! Pure and total: any record that `decide` made can be applied, and a record that names something
//! unknown changes nothing. No check belongs here; the interlocking has passed what arrives.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::run::{Node, Plan, Run, Stop};
use super::supervisor::{Kept, Keys, REVIEW_AGE_MS, Supervisor};
use super::{Durable, Review, State, Workflow, parse_supervisor};
use crate::contract::definition::WorkflowDef;
use crate::contract::id::{ExecutionId, NodeId, WorkflowId};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;
use crate::contract::unit::Unit;
use crate::core::fault;
use crate::core::record::{Entry, Record};

impl State {
    /// Applies one entry: first its places in the streams, then its fact.
    pub fn apply(&mut self, entry: &Entry) {
        self.durable.seq = entry.seq;
        self.durable.now = entry.time;
        self.durable.wall = entry.wall;
        for (number, cursor) in &entry.to {
            if let Some(supervisor) = self.durable.supervisors.get_mut(number) {
                let supervisor = Arc::make_mut(supervisor);
                supervisor.last_cursor = *cursor;
                supervisor.mark(*cursor, entry.time);
            }
        }
        self.apply_record(entry);
    }

    fn apply_record(&mut self, entry: &Entry) {
        let now = entry.time;
        match &entry.record {
            Record::Opened {
                boot,
                monotonic,
                settings,
            } => {
                self.durable.opened = Some((boot.clone(), *monotonic, now));
                self.durable.settings = settings.clone();
            }
            Record::SupervisorSaved {
                number,
                json,
                source,
            } => self.durable.save_supervisor(entry, *number, json, *source),
            Record::WorkflowSaved {
                revision,
                json,
                source,
            } => self.durable.save_workflow(*revision, json, *source),
            Record::CredentialIssued(credential) => {
                self.durable
                    .credentials
                    .insert(credential.id.clone(), Arc::new(credential.clone()));
            }
            Record::SessionAccepted {
                supervisor,
                session,
            } => {
                self.durable.last_session = session.0;
                self.supervisor(*supervisor, |s| s.newest_session = Some((*session, now)));
            }
            Record::Acknowledged { supervisor, cursor } => {
                self.supervisor(*supervisor, |s| s.acknowledged = Some(*cursor));
            }
            Record::RunCreated {
                run,
                workflow,
                revision,
                params,
                priority,
                deadline,
                by: _,
            } => {
                self.durable.last_run = run.0;
                let plan = self
                    .durable
                    .plans
                    .get(&(workflow.clone(), *revision))
                    .cloned();
                let nodes = plan.as_ref().map_or(0, |p| p.ids.len());
                let run = Run {
                    id: *run,
                    workflow: workflow.clone(),
                    revision: *revision,
                    params: params.iter().cloned().collect(),
                    priority: *priority,
                    status: RunStatus::Queued,
                    started_wall: entry.wall,
                    changed_wall: entry.wall,
                    deadline: *deadline,
                    holds: Vec::new(),
                    stop: None,
                    order: 0,
                    timed_out: false,
                    nodes: vec![Node::new(entry.wall); nodes],
                    plan,
                };
                self.index.add_run(&run, now);
                self.durable.runs.insert(run.id, Arc::new(run));
            }
            Record::RunStatus { run, to, .. } => self.run(*run, Scope::Whole, |r| {
                r.status = *to;
                r.changed_wall = entry.wall;
                if to.is_terminal() {
                    r.holds.clear();
                    r.stop = None;
                }
            }),
            Record::NodeStatus {
                run,
                node,
                to,
                attempt,
                why,
                end,
                deadline,
                ..
            } => {
                self.node(*run, node, |n| {
                    n.status = *to;
                    n.why = *why;
                    n.deadline = *deadline;
                    n.ending = None;
                    n.kill_at = None;
                    n.changed_wall = entry.wall;
                    n.attempt = *attempt;
                    match to {
                        NodeStatus::Running => n.started = true,
                        // A READY that is not an automatic retry begins a new count of retries.
                        NodeStatus::Ready if *why != Some(Why::Retry) => n.first_attempt = *attempt,
                        _ => {}
                    }
                    if end.is_some() || *to == NodeStatus::Running {
                        n.end = *end;
                    }
                });
            }
            Record::HoldAdded { run, hold } => {
                self.run(*run, Scope::Run, |r| r.holds.push(hold.clone()))
            }
            Record::HoldsCleared { run, holders } => {
                self.run(*run, Scope::Run, |r| {
                    r.holds.retain(|h| !holders.contains(&h.holder))
                });
            }
            Record::StopSet {
                run,
                mode,
                grace,
                deadline,
            } => self.run(*run, Scope::Run, |r| {
                r.stop = Some(Stop {
                    mode: *mode,
                    grace: *grace,
                    deadline: *deadline,
                });
                r.holds.clear();
            }),
            Record::AttemptEnding {
                run,
                node,
                ending,
                kill_at,
            } => self.node(*run, node, |n| {
                n.ending = Some(*ending);
                n.kill_at = *kill_at;
            }),
            Record::ControlOutcome { run, order, .. } => {
                self.run(*run, Scope::Run, |r| r.order = *order)
            }
            Record::Directed {
                supervisor,
                key,
                fingerprint,
                answer,
                cited,
                initiative,
                notify,
            } => {
                self.supervisor(*supervisor, |s| {
                    let kept = Kept {
                        fingerprint: *fingerprint,
                        answer: Some(answer.clone()),
                        review: None,
                    };
                    s.keys.put(now, key, kept);
                    if let Some(cited) = cited {
                        s.cite(*cited);
                    }
                    if *initiative {
                        Supervisor::spend(&mut s.initiative, now);
                    }
                    if *notify {
                        Supervisor::spend(&mut s.notifies, now);
                    }
                });
            }
            Record::Commanded {
                actor,
                key,
                fingerprint,
                answer,
                review,
            } => {
                let kept = Kept {
                    fingerprint: *fingerprint,
                    answer: answer.clone(),
                    review: *review,
                };
                let waits = review.and_then(|id| self.durable.reviews.get_mut(&id));
                if let Some(review) = waits {
                    Arc::make_mut(review).keys.push(key.clone());
                }
                let scope = actor.to_string();
                self.durable
                    .operator_keys
                    .entry(scope)
                    .or_default()
                    .put(now, key, kept);
            }
            Record::ReviewOpened { .. } => self.open_review(entry),
            Record::RunTimedOut { run } => self.run(*run, Scope::Run, |r| r.timed_out = true),
            Record::ReviewClosed { id, end } => {
                if let Some(review) = self.durable.reviews.get_mut(id) {
                    self.index.remove_review(review);
                    Arc::make_mut(review).end = Some(*end);
                }
            }
            Record::Ownership { .. } | Record::StaleReport { .. } => {}
        }
    }

    fn open_review(&mut self, entry: &Entry) {
        let Record::ReviewOpened {
            id,
            supervisor,
            command,
            reason,
            actor,
            fingerprint,
            targets,
            deadline,
            as_of,
        } = &entry.record
        else {
            return;
        };
        let Ok(command) = serde_json::from_str(command) else {
            return;
        };
        let review = Review {
            id: *id,
            supervisor: *supervisor,
            command,
            reason: reason.clone(),
            actor: actor.clone(),
            keys: Vec::new(),
            fingerprint: *fingerprint,
            targets: targets.clone(),
            opened: entry.time,
            deadline: *deadline,
            as_of: *as_of,
            end: None,
        };
        self.index.add_review(&review);
        self.durable.last_review = id.0;
        // Closed reviews go once they are too old to be cited; an open one never goes.
        let old: Vec<_> = self
            .durable
            .reviews
            .values()
            .take_while(|r| r.end.is_some() && entry.time.since(r.opened) > REVIEW_AGE_MS)
            .map(|r| r.id)
            .collect();
        for id in old {
            self.durable.reviews.remove(&id);
        }
        self.durable.reviews.insert(*id, Arc::new(review));
    }

    fn supervisor(&mut self, number: u32, change: impl FnOnce(&mut Supervisor)) {
        if let Some(supervisor) = self.durable.supervisors.get_mut(&number) {
            change(Arc::make_mut(supervisor));
        }
    }

    /// Changes a run and keeps the index right: what followed from it before goes, what follows after comes.
    fn run(&mut self, id: ExecutionId, scope: Scope, change: impl FnOnce(&mut Run)) {
        let clock = self.durable.now;
        let Some(run) = self.durable.runs.get_mut(&id) else {
            return;
        };
        let nodes = if scope == Scope::Whole {
            run.nodes.len()
        } else {
            0
        };
        self.index.run_facts(run, false);
        for i in 0..nodes {
            self.index.node_facts(run, i, clock, false);
        }
        change(Arc::make_mut(run));
        self.index.run_facts(run, true);
        for i in 0..nodes {
            self.index.node_facts(run, i, clock, true);
        }
    }

    fn node(&mut self, id: ExecutionId, node: &NodeId, change: impl FnOnce(&mut Node)) {
        let clock = self.durable.now;
        let Some(run) = self.durable.runs.get_mut(&id) else {
            return;
        };
        let Some(index) = run.index(node) else { return };
        self.index.node_facts(run, index, clock, false);
        if let Some(node) = Arc::make_mut(run).nodes.get_mut(index) {
            change(node);
        }
        self.index.node_facts(run, index, clock, true);
    }

    /// Lets every node whose retry delay is over by `now` start; nothing durable changes. What is due stays in
    /// the index, since slots are handed out when its turn comes.
    pub(in crate::core) fn wake_retries(&mut self, now: HostTime) {
        let over = self.index.due.iter().take_while(|(at, _)| *at <= now);
        for (_, due) in over {
            if let super::index::Due::Retry(id, node) = due
                && let Some(run) = self.durable.runs.get(id)
                && run.status == RunStatus::Running
            {
                self.index.startable.insert((-run.priority, *id, *node));
            }
        }
    }

    /// Takes a retry delay that is over out of what is due.
    pub(in crate::core) fn retry_is_due(&mut self, at: HostTime, id: ExecutionId, node: usize) {
        self.index
            .due
            .remove(&(at, super::index::Due::Retry(id, node)));
    }
}

/// How much of a run a change touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Its own fields, but the status.
    Run,
    /// Its status, which decides what its nodes may do.
    Whole,
}

impl Durable {
    fn save_supervisor(
        &mut self,
        entry: &Entry,
        number: u32,
        json: &str,
        source: crate::core::record::Source,
    ) {
        let Some(def) = parse_supervisor(json).map(Arc::new) else {
            return;
        };
        let id = def.id.clone();
        let mut touched = BTreeSet::new();
        if let Some(found) = self.supervisors.get_mut(&number) {
            for unit in &found.def.owns {
                self.owners.remove(unit);
                touched.extend(unit.workflow().cloned());
            }
            let supervisor = Arc::make_mut(found);
            supervisor.def = Arc::clone(&def);
            supervisor.json = json.into();
            supervisor.source = source;
        } else {
            self.supervisors.insert(
                number,
                Arc::new(Supervisor {
                    number,
                    def: Arc::clone(&def),
                    json: json.into(),
                    source,
                    saved: entry.time,
                    last_cursor: 0,
                    acknowledged: None,
                    newest_session: None,
                    keys: Keys::default(),
                    marks: imbl::Vector::new(),
                    cited: imbl::OrdMap::new(),
                    cited_floor: 0,
                    initiative: imbl::Vector::new(),
                    notifies: imbl::Vector::new(),
                }),
            );
            self.numbers.insert(id, number);
        }
        for unit in &def.owns {
            self.owners.insert(unit.clone(), number);
        }
        touched.extend(def.owns.iter().filter_map(Unit::workflow).cloned());
        self.make_audiences(touched);
    }

    /// Works the audiences of these workflows out again.
    fn make_audiences(&mut self, touched: BTreeSet<WorkflowId>) {
        if fault::on(fault::Fault::StaleAudience) {
            return;
        }
        for workflow in touched {
            let plans: Vec<Arc<Plan>> = self
                .plans
                .range((workflow.clone(), 0)..=(workflow.clone(), u32::MAX))
                .map(|(_, p)| Arc::clone(p))
                .collect();
            for plan in plans {
                let audience = Arc::new(self.make_audience(&plan));
                self.audiences
                    .insert((workflow.clone(), plan.revision), audience);
            }
        }
    }

    fn save_workflow(&mut self, revision: u32, json: &str, source: crate::core::record::Source) {
        let Ok(def) = serde_json::from_str::<WorkflowDef>(json) else {
            return;
        };
        let id = def.id.clone();
        let plan = Arc::new(Plan::new(def, revision));
        let audience = Arc::new(self.make_audience(&plan));
        // An older revision stays while a run keeps it.
        let kept = |old: u32| {
            self.runs
                .values()
                .any(|r| r.workflow == id && r.revision == old)
        };
        if let Some(old) = self
            .workflows
            .get(&id)
            .map(|w| w.plan.revision)
            .filter(|old| !kept(*old))
        {
            self.plans.remove(&(id.clone(), old));
            self.audiences.remove(&(id.clone(), old));
        }
        self.plans.insert((id.clone(), revision), Arc::clone(&plan));
        self.audiences.insert((id.clone(), revision), audience);
        self.workflows.insert(
            id,
            Arc::new(Workflow {
                plan,
                json: json.into(),
                source,
            }),
        );
    }
}
