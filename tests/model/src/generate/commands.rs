//! Commands: an operation, somebody in some state, arguments and a guard. Also operators' commands.

use serde_json::{Value, json};
use signalbox::contract::directive::{Actor, Command};
use signalbox::contract::id::{NodeId, SupervisorId};
use signalbox::contract::status::{NodeStatus, RunStatus};

use super::{Generator, command};
use crate::reference::Reference;
use crate::step::Step;

const RUN_OPS: [&str; 10] = [
    "run.stop",
    "run.stop",
    "run.stop",
    "run.pause",
    "run.pause",
    "run.pause",
    "run.resume",
    "run.resume",
    "run.resumeHeld",
    "run.resumeHeld",
];
const NOT_SERVED: [&str; 5] = [
    "run.restart",
    "node.stop",
    "server.drain",
    "delegate",
    "run.fly",
];
const NODE_LABELS: usize = 10;

impl Generator {
    /// Makes a command that is right in shape. `sender` is the engine that sends it; none for an operator.
    pub(super) fn some_command(
        &mut self,
        reference: &Reference,
        sender: Option<&SupervisorId>,
    ) -> Command {
        let live = reference.runs().filter(|r| r.is_live()).count();
        let starts = if live < 4 { 36 } else { 10 };
        let mut made = match self.rng.u32(0..100) {
            n if n < starts => self.start_command(reference, sender),
            n if n < 64 => {
                let op = self.one(RUN_OPS);
                let (target, status) = self.run_target(reference, sender);
                let args = if op == "run.stop" {
                    self.stop_args()
                } else {
                    Vec::new()
                };
                let mut made = command(op, target, &args);
                made.if_status =
                    self.guard(status, RunStatus::ALL.iter().map(|s| s.as_str()).collect());
                if op == "run.pause" && self.chance(10) {
                    made.args.insert("suspend".to_owned(), Value::Bool(false));
                }
                made
            }
            _ => {
                let op = self.one(["node.retry", "node.retry", "node.skip"]);
                let (target, status) = self.node_target(reference, sender);
                let mut made = command(op, target, &[]);
                made.if_status =
                    self.guard(status, NodeStatus::ALL.iter().map(|s| s.as_str()).collect());
                made
            }
        };
        if self.chance(1) {
            made.target = self
                .one(["execution:x99999", "workflow:nowhere", "node:x99999/a"])
                .to_owned();
            made.op = match made.target.split(':').next() {
                Some("execution") => "run.pause",
                Some("workflow") => "run.start",
                _ => "node.skip",
            }
            .to_owned();
            made.args.clear();
            made.if_status = None;
        }
        made
    }

    /// Spoils a command's shape in one place.
    pub(super) fn spoil(&mut self, made: &mut Command) {
        match self.rng.u32(0..10) {
            0 | 1 => {
                made.op = self.one(NOT_SERVED).to_owned();
                (made.args, made.if_status) = (Default::default(), None);
            }
            2 => {
                made.args.insert("surprise".to_owned(), json!(1));
            }
            3 => {
                *made = command(
                    "run.stop",
                    "execution:x1".to_owned(),
                    &[("mode", json!("softly"))],
                );
            }
            4 => {
                let grace = self
                    .one([json!(-1), json!("1s"), json!(604_800_001_i64), json!(true)].each_ref())
                    .clone();
                *made = command("run.stop", "execution:x1".to_owned(), &[("graceMs", grace)]);
            }
            5 => {
                let priority = self
                    .one([json!(101), json!(-101), json!("high")].each_ref())
                    .clone();
                *made = command(
                    "run.start",
                    "workflow:wide".to_owned(),
                    &[("priority", priority)],
                );
            }
            6 => {
                *made = command(
                    "run.pause",
                    "execution:x1".to_owned(),
                    &[("suspend", json!(true))],
                );
            }
            7 => {
                made.target = self
                    .one([
                        "",
                        "server",
                        "input:i1",
                        "execution:",
                        "execution:x01",
                        "run:x1",
                        "node:a",
                        "workflow:",
                    ])
                    .to_owned();
            }
            8 => {
                let fits_not = if made.op.starts_with("node.") {
                    "execution:x1"
                } else {
                    "node:x1/a"
                };
                made.target = fits_not.to_owned();
                made.if_status = None;
            }
            _ => {
                let guard = if made.op == "run.start" {
                    "RUNNING"
                } else {
                    "running"
                };
                made.if_status = Some(guard.to_owned());
            }
        }
    }

    fn start_command(&mut self, reference: &Reference, sender: Option<&SupervisorId>) -> Command {
        let workflows = ["chain", "diamond", "wide"];
        let mut workflow = self.one(workflows);
        if let Some(sender) = sender.filter(|_| self.rng.u32(0..10) > 0) {
            let owns = |w: &&str| {
                let unit = super::world::id(&format!("workflow:{w}"));
                reference
                    .all_supervisors()
                    .iter()
                    .any(|s| s.id == *sender && s.owns.contains(&unit))
            };
            let own: Vec<&str> = workflows.into_iter().filter(owns).collect();
            workflow = self.pick(&own).copied().unwrap_or(workflow);
        }
        let mut args = Vec::new();
        match (workflow, self.rng.u32(0..20)) {
            ("chain", 0) => {}
            ("chain", 1) => args.push(("params", json!({ "must": "m", "unknown": "u" }))),
            ("chain", 2..10) => args.push(("params", json!({ "must": "m", "may": "n" }))),
            ("chain", _) => args.push(("params", json!({ "must": "m" }))),
            (_, 0) => args.push(("params", json!({ "unknown": "u" }))),
            (_, 1) => args.push(("params", json!({}))),
            _ => {}
        }
        if self.chance(40) {
            args.push(("priority", json!(self.one([-100, -1, 0, 1, 7, 100]))));
        }
        command("run.start", format!("workflow:{workflow}"), &args)
    }

    pub(super) fn stop_args(&mut self) -> Vec<(&'static str, Value)> {
        let mut args = Vec::new();
        let immediate = self.chance(45);
        if immediate {
            args.push(("mode", json!("immediate")));
        } else if self.chance(30) {
            args.push(("mode", json!("drain")));
        }
        if self.chance(65) {
            args.push(("graceMs", json!(self.one([0, 1, 200, 800, 10_000, 20_000]))));
        }
        if !immediate && self.chance(50) {
            args.push(("drainTimeoutMs", json!(self.one([1, 100, 500, 3_000]))));
        }
        args
    }

    /// Picks a target for a run operation, and the status of the run if it is one.
    fn run_target(
        &mut self,
        reference: &Reference,
        sender: Option<&SupervisorId>,
    ) -> (String, Option<&'static str>) {
        if self.chance(18) {
            let workflow = self.one(["workflow:chain", "workflow:diamond", "workflow:wide"]);
            let target = match sender {
                Some(_) => self.one(["owned.running", "owned.held", workflow]),
                None => workflow,
            };
            return (target.to_owned(), None);
        }
        let own_only = sender.is_some() && self.chance(85);
        let runs: Vec<(u64, RunStatus)> = reference
            .runs()
            .filter(|r| !own_only || reference.run_owner(r.id).as_ref() == sender)
            .map(|r| (r.id, r.status))
            .collect();
        // A state first, so that rare ones are met as often as frequent ones.
        let states: Vec<RunStatus> = RunStatus::ALL
            .iter()
            .copied()
            .filter(|s| runs.iter().any(|(_, of)| of == s))
            .collect();
        let Some(state) = self.pick(&states).copied() else {
            return ("execution:x1".to_owned(), None);
        };
        let within: Vec<u64> = runs
            .iter()
            .filter(|(_, of)| *of == state)
            .map(|(id, _)| *id)
            .collect();
        let run = self.pick(&within).copied().unwrap_or(1);
        (format!("execution:x{run}"), Some(state.as_str()))
    }

    /// Picks nodes, and the status of the first.
    fn node_target(
        &mut self,
        reference: &Reference,
        sender: Option<&SupervisorId>,
    ) -> (String, Option<&'static str>) {
        let own_only = sender.is_some() && self.chance(85);
        let mut nodes: Vec<(usize, u64, NodeId, NodeStatus)> = Vec::new();
        for run in reference.runs() {
            for (node, n) in &run.nodes {
                if !own_only || reference.node_owner(run.id, node).as_ref() == sender {
                    // The state with its why, and apart when it could be tried again in an ended run.
                    let upstream = n.status == NodeStatus::Skipped
                        && n.why == Some(signalbox::contract::status::Why::Upstream);
                    let state = n.status as usize + if upstream { NODE_LABELS } else { 0 };
                    nodes.push((
                        state * 2 + usize::from(run.is_live()),
                        run.id,
                        node.clone(),
                        n.status,
                    ));
                }
            }
        }
        let mut states: Vec<usize> = nodes.iter().map(|n| n.0).collect();
        states.sort_unstable();
        states.dedup();
        let Some(state) = self.pick(&states).copied() else {
            return ("node:x1/a".to_owned(), None);
        };
        let within: Vec<_> = nodes.iter().filter(|n| n.0 == state).collect();
        let Some((_, run, node, status)) = self.pick(&within).copied() else {
            return ("node:x1/a".to_owned(), None);
        };
        let mut target = format!("node:x{run}/{node}");
        if self.chance(20) {
            let same: Vec<String> = nodes
                .iter()
                .filter(|n| n.1 == *run && n.2 != *node)
                .map(|n| n.2.to_string())
                .chain(self.chance(50).then(|| "ghost".to_owned()))
                .collect();
            for more in same.iter().take(self.rng.usize(1..4)) {
                target.push(',');
                target.push_str(more);
            }
        }
        (target, Some(status.as_str()))
    }

    fn guard(&mut self, actual: Option<&'static str>, all: Vec<&'static str>) -> Option<String> {
        if !self.chance(20) {
            return None;
        }
        let guard = match actual {
            Some(actual) if self.chance(55) => actual,
            _ => self.pick(&all).copied()?,
        };
        Some(guard.to_owned())
    }

    /// Makes an operator's command: a new one, an old one again, or one with a defect.
    pub(super) fn command_step(&mut self, reference: &Reference) -> Step {
        if self.chance(12) {
            let recent = self.given.len().saturating_sub(12)..self.given.len();
            let at = if recent.is_empty() {
                0
            } else {
                self.rng.usize(recent)
            };
            if let Some(again) = self.given.get(at).cloned() {
                return self.again(again);
            }
        }
        let actor = self.actor();
        let mut made = self.some_command(reference, None);
        let mut key = if self.chance(40) {
            Some(self.new_key())
        } else {
            None
        };
        let mut reason = self.reason();
        if self.chance(4) {
            match self.rng.u32(0..10) {
                0 => key = Some(String::new()),
                1 => key = Some("k".repeat(129)),
                2 => key = Some("k\n".to_owned()),
                3 => reason = Some("r".repeat(1_025)),
                4 => made = command("notify", made.target, &[]),
                5 => made = command("run.pause", "owned.running".to_owned(), &[]),
                6 => made = command("run.stop", "owned.held".to_owned(), &[]),
                _ => self.spoil(&mut made),
            }
        }
        Step::Command {
            actor,
            command: made,
            reason,
            key,
        }
    }

    pub(super) fn actor(&mut self) -> Actor {
        let (kind, id) = self.one([("USER", "ann"), ("USER", "ann"), ("KEY", "ci")]);
        Actor {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }
    }

    /// The same command once more: under its key, for another reason, by another, or its key for another command.
    fn again(&mut self, step: Step) -> Step {
        let Step::Command {
            actor,
            mut command,
            mut reason,
            key,
        } = step
        else {
            return step;
        };
        match self.rng.u32(0..10) {
            0 => reason = Some("again".to_owned()),
            1 => {
                return Step::Command {
                    actor: self.actor(),
                    command,
                    reason,
                    key,
                };
            }
            2 | 3 if key.is_some() => {
                command.op = if command.op == "run.pause" {
                    "run.resume"
                } else {
                    "run.pause"
                }
                .to_owned();
                (command.target, command.if_status) = ("execution:x1".to_owned(), None);
                command.args.clear();
            }
            _ => {}
        }
        Step::Command {
            actor,
            command,
            reason,
            key,
        }
    }
}
