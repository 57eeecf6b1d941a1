//! Definitions of supervisors and workflows (contract §2), as people write them.
//!
//! A definition parses field by field and refuses what it does not know. What needs more than the
//! definition itself (ownership, cycles over several definitions) is checked by the core at save.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::duration::Millis;
use super::id::{GroupId, NodeId, SupervisorId, WorkflowId};
use super::operation::{Op, OpPattern, Risk};
use super::signal::EventKind;
use super::unit::Unit;

/// A supervisor as defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SupervisorDef {
    /// Its id.
    pub id: SupervisorId,
    /// The units it owns.
    #[serde(default)]
    pub owns: Vec<Unit>,
    /// Its engine.
    pub engine: EngineDef,
    /// How often a `Tick` is sent, 100 ms at least; absent means never, unless the hello asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Millis>,
    /// The kinds of events that take a place in its stream; absent means all but `LOG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<BTreeSet<EventKind>>,
    /// What its engine may command.
    #[serde(default = "default_allowed")]
    pub allowed_commands: Vec<OpPattern>,
    /// What operators may command on its units, after a review by its engine.
    #[serde(default)]
    pub operator_access: Vec<OpPattern>,
    /// What its engine may command by a tick or at its own initiative.
    #[serde(default)]
    pub initiative: Vec<OpPattern>,
    /// How many such commands in any 60 s.
    #[serde(default = "default_initiative")]
    pub max_initiative_per_minute: u32,
    /// How many directives in any second.
    #[serde(default = "default_rate")]
    pub max_directives_per_second: u32,
    /// What needs an approval. Not served yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalDef>,
    /// The highest risk its engine may take. Not served yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_risk: Option<Risk>,
    /// Whom it asks. Not served yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<SupervisorId>>,
    /// How it asks them. Not served yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationDef>,
    /// How long its engine has to answer a review; absent means the host's `supervisor.review-timeout` (5 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_timeout: Option<Millis>,
    /// How long after its delivery a signal can be a cause.
    #[serde(default = "default_cause_age")]
    pub cause_max_age: Millis,
    /// How many commands one signal can cause.
    #[serde(default = "default_per_event")]
    pub max_commands_per_event: u32,
    /// What is only predicted. Not served yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRunDef>,
}

fn default_allowed() -> Vec<OpPattern> {
    vec![OpPattern::One(Op::Notify), OpPattern::One(Op::Delegate)]
}

fn default_initiative() -> u32 {
    10
}

fn default_rate() -> u32 {
    200
}

fn default_cause_age() -> Millis {
    Millis(3_600_000)
}

fn default_per_event() -> u32 {
    20
}

/// Where a supervisor's engine runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineDef {
    /// How it is reached.
    pub transport: Transport,
    /// The built-in's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The managed process's program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The managed process's environment; never read back.
    #[serde(default, skip_serializing)]
    pub env: BTreeMap<String, String>,
}

/// How an engine is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Part of the host, found by `name`.
    Builtin,
    /// A process that somebody else runs and that connects with a credential.
    Attached,
    /// A process that the host starts and restarts.
    Managed,
}

/// Which commands need an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalDef {
    /// These.
    #[serde(default)]
    pub commands: Vec<OpPattern>,
    /// And those of this risk or a higher one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_at_least: Option<Risk>,
}

/// How parents are asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DelegationDef {
    /// `ORDERED`, `ALL` or `ANY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How long each parent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
}

/// What is only predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DryRunDef {
    /// Commands by a tick or at own initiative.
    Initiative,
    /// Every command.
    All,
}

/// A workflow as defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDef {
    /// Its id.
    pub id: WorkflowId,
    /// Its parameters: reach nodes as environment variables of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamDef>,
    /// How long a run may take from its start; absent means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Its nodes. At least one.
    pub nodes: BTreeMap<NodeId, NodeDef>,
}

/// A parameter of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParamDef {
    /// Its value when a start gives none; absent means that a start must give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A node of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeDef {
    /// The program and its arguments; never a shell line.
    pub run: Vec<String>,
    /// The nodes that must end well before it starts.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<NodeId>,
    /// Its environment, beside the run's parameters; wins over them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its working directory; absent means one that the run's nodes share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How long one attempt may take; absent means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// How often a failed attempt is tried again; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetryDef>,
    /// The group it belongs to, for ownership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
}

/// How a failed attempt is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryDef {
    /// How many attempts after the first, at most.
    pub max: u32,
    /// How long between a failure and the next attempt.
    #[serde(default = "no_delay")]
    pub delay: Millis,
}

fn no_delay() -> Millis {
    Millis(0)
}

/// The most nodes a workflow may have.
pub const MAX_NODES: usize = 1_000;

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The path of the bad field, for instance `nodes.build.needs`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Problem {
    /// Makes a problem.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl SupervisorDef {
    /// Finds everything that is wrong with the definition by itself (C4).
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut out = Vec::new();
        for (path, given) in [
            ("approval", self.approval.is_some()),
            ("maxRisk", self.max_risk.is_some()),
            ("parents", self.parents.is_some()),
            ("delegation", self.delegation.is_some()),
            ("dryRun", self.dry_run.is_some()),
        ] {
            if given {
                out.push(Problem::new(
                    path,
                    "this version of the host does not serve it yet; take the field out",
                ));
            }
        }
        self.engine_problems(&mut out);
        if self.tick.is_some_and(|t| t.0 < 100) {
            out.push(Problem::new(
                "tick",
                "a tick is sent every 100ms at most; give 100ms or more",
            ));
        }
        if self
            .events
            .as_ref()
            .is_some_and(|e| e.contains(&EventKind::Log))
        {
            out.push(Problem::new(
                "events",
                "LOG events are not served yet by this version; leave LOG out",
            ));
        }
        for (path, value) in [
            ("maxDirectivesPerSecond", self.max_directives_per_second),
            ("maxCommandsPerEvent", self.max_commands_per_event),
        ] {
            if !(1..=100_000).contains(&value) {
                out.push(Problem::new(path, "give a number from 1 to 100000"));
            }
        }
        if self.max_initiative_per_minute > 100_000 {
            out.push(Problem::new(
                "maxInitiativePerMinute",
                "give a number from 0 to 100000",
            ));
        }
        for (path, value) in [
            ("reviewTimeout", self.review_timeout),
            ("causeMaxAge", Some(self.cause_max_age)),
        ] {
            if value.is_some_and(|v| !(1..=86_400_000).contains(&v.0)) {
                out.push(Problem::new(path, "give a duration from 1ms to 1d"));
            }
        }
        for (i, unit) in self.owns.iter().enumerate() {
            if self.owns[..i].contains(unit) {
                out.push(Problem::new(
                    format!("owns[{i}]"),
                    format!("`{unit}` is listed twice; list it once"),
                ));
            }
        }
        // An initiative that is not allowed at all could never have an effect.
        for (i, pattern) in self.initiative.iter().enumerate() {
            let useful = Op::ALL.iter().any(|op| {
                pattern.matches(*op) && self.allowed_commands.iter().any(|a| a.matches(*op))
            });
            if !useful {
                out.push(Problem::new(
                    format!("initiative[{i}]"),
                    format!(
                        "`{pattern}` has no effect: allow it in allowedCommands too, or take it out"
                    ),
                ));
            }
        }
        out
    }

    fn engine_problems(&self, out: &mut Vec<Problem>) {
        let EngineDef {
            transport,
            name,
            command,
            env,
        } = &self.engine;
        let mut no_effect = |given: bool, path: &str, who: &str| {
            if given {
                out.push(Problem::new(
                    path,
                    format!("has no effect here: it belongs to transport {who}; take it out"),
                ));
            }
        };
        no_effect(
            *transport != Transport::Builtin && name.is_some(),
            "engine.name",
            "builtin",
        );
        no_effect(
            *transport != Transport::Managed && !command.is_empty(),
            "engine.command",
            "managed",
        );
        no_effect(
            *transport != Transport::Managed && !env.is_empty(),
            "engine.env",
            "managed",
        );
        if *transport == Transport::Managed && command.is_empty() {
            out.push(Problem::new(
                "engine.command",
                "give the program to start and its arguments",
            ));
        }
        if *transport == Transport::Builtin && name.as_deref() != Some(OPERATOR_GATEWAY) {
            out.push(Problem::new(
                "engine.name",
                format!("the only built-in engine is `{OPERATOR_GATEWAY}`"),
            ));
        }
    }

    /// Says whether events of the kind take a place in its stream.
    #[must_use]
    pub fn streams(&self, kind: EventKind) -> bool {
        match &self.events {
            Some(kinds) => kinds.contains(&kind),
            None => kind != EventKind::Log,
        }
    }

    /// Says whether the engine is the built-in that lets operators' commands pass (C3).
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.engine.transport == Transport::Builtin
    }
}

/// The name of the built-in engine that leaves the operators' endpoints unchanged (C3).
pub const OPERATOR_GATEWAY: &str = "operator-gateway";

impl WorkflowDef {
    /// Finds everything that is wrong with the definition by itself.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut out = Vec::new();
        if self.nodes.is_empty() || self.nodes.len() > MAX_NODES {
            out.push(Problem::new(
                "nodes",
                format!("give 1 to {MAX_NODES} nodes"),
            ));
        }
        for name in self.params.keys() {
            check_variable(name, &format!("params.{name}"), &mut out);
        }
        for (id, node) in &self.nodes {
            let path = |field: &str| format!("nodes.{id}.{field}");
            if node.run.first().is_none_or(String::is_empty) {
                out.push(Problem::new(
                    path("run"),
                    "give the program to run and its arguments, as a list",
                ));
            }
            if node.run.iter().any(|a| a.contains('\0')) {
                out.push(Problem::new(
                    path("run"),
                    "an argument holds a NUL character; take it out",
                ));
            }
            for need in &node.needs {
                if !self.nodes.contains_key(need) {
                    out.push(Problem::new(
                        path("needs"),
                        format!("there is no node `{need}`"),
                    ));
                }
            }
            for name in node.env.keys() {
                check_variable(name, &path(&format!("env.{name}")), &mut out);
            }
            if node.timeout.is_some_and(|t| t.0 == 0) {
                out.push(Problem::new(path("timeout"), "give a duration above 0"));
            }
            if node.retries.is_some_and(|r| !(1..=1_000).contains(&r.max)) {
                out.push(Problem::new(
                    path("retries.max"),
                    "give a number from 1 to 1000, or leave retries out",
                ));
            }
        }
        if self.timeout.is_some_and(|t| t.0 == 0) {
            out.push(Problem::new("timeout", "give a duration above 0"));
        }
        if let Some(cycle) = self.cycle() {
            let names: Vec<&str> = cycle.iter().map(|n| n.as_str()).collect();
            out.push(Problem::new(
                format!("nodes.{}.needs", cycle[0]),
                format!(
                    "the nodes need each other in a circle: {}; take one of these needs out",
                    names.join(" → ")
                ),
            ));
        }
        out
    }

    /// Finds a circle of needs: its nodes in order, the first again at the end.
    fn cycle(&self) -> Option<Vec<&NodeId>> {
        let mut done: BTreeSet<&NodeId> = BTreeSet::new();
        for start in self.nodes.keys() {
            // Depth first with a path of our own, since a definition may be 1,000 nodes deep.
            let mut path: Vec<(&NodeId, Vec<&NodeId>)> = Vec::new();
            let open = |id| {
                self.nodes
                    .get_key_value(id)
                    .map(|(id, n)| (id, n.needs.iter().collect::<Vec<_>>()))
            };
            if !done.contains(start) {
                path.extend(open(start));
            }
            while let Some((id, rest)) = path.last_mut() {
                let Some(next) = rest.pop() else {
                    done.insert(id);
                    path.pop();
                    continue;
                };
                if let Some(at) = path.iter().position(|(id, _)| *id == next) {
                    let mut cycle: Vec<&NodeId> = path[at..].iter().map(|(id, _)| *id).collect();
                    cycle.push(next);
                    return Some(cycle);
                }
                if !done.contains(next) {
                    path.extend(open(next));
                }
            }
        }
        None
    }
}

fn check_variable(name: &str, path: &str, out: &mut Vec<Problem>) {
    let bytes = name.as_bytes();
    let good = bytes
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if !good {
        out.push(Problem::new(
            path,
            "it becomes an environment variable: use letters, digits and _ , not a digit first",
        ));
    } else if name.starts_with("SIGNALBOX_") || name.starts_with("LD_") {
        out.push(Problem::new(
            path,
            "names that begin with SIGNALBOX_ or LD_ are the host's and the loader's; use another",
        ));
    }
}
