//! Saving definitions and credentials: all or nothing, and the same again changes nothing (C4).

use std::collections::BTreeSet;

use crate::contract::code::Code;
use crate::contract::definition::{Problem, SupervisorDef, WorkflowDef};
use crate::contract::directive::Actor;
use crate::contract::id::{GroupId, NodeId, WorkflowId};
use crate::contract::operation::Op;
use crate::contract::unit::Unit;
use crate::core::audit::AuditEntry;
use crate::core::effect::{Refusal, Reply, Saved};
use crate::core::input::Token;
use crate::core::record::{Credential, Record, Source};
use crate::core::state::Durable;
use crate::core::turn::Turn;

/// The kind of actor that is the host itself: at its start it frees what no file defines any more.
const HOST: &str = "SYSTEM";

/// The longest definition, in bytes of JSON.
const DEFINITION_MOST: usize = 512 << 10;

fn too_long(json: &str) -> Option<Refusal> {
    (json.len() > DEFINITION_MOST).then(|| {
        let message = format!(
            "the definition takes {} bytes as JSON; {DEFINITION_MOST} are the most",
            json.len()
        );
        Refusal::new(Code::InvalidArgument, "definition", message)
    })
}

/// Saves a supervisor.
pub(in crate::core) fn supervisor(
    turn: &mut Turn,
    reply: Token,
    def: &SupervisorDef,
    source: Source,
    actor: &Actor,
) {
    let id = &def.id;
    let json = match serde_json::to_string(def) {
        Ok(json) => json,
        Err(error) => return turn.refuse(reply, unprintable(&error)),
    };
    let durable = turn.state().durable();
    let old = durable.supervisor(id).cloned();
    let warnings = lint(def);
    if old
        .as_ref()
        .is_some_and(|o| *o.json == *json && o.source == source)
    {
        return turn.reply(
            reply,
            Reply::Saved(Saved {
                changed: false,
                warnings,
            }),
        );
    }
    let refusal = in_file(
        old.as_ref().map(|o| o.source),
        source,
        actor,
        "supervisor",
        id.as_str(),
    )
    .or_else(|| too_long(&json))
    .or_else(|| invalid(def.problems()))
    .or_else(|| conflict(durable, def, old.as_ref().map(|o| o.number)));
    if let Some(refusal) = refusal {
        return refuse_save(turn, reply, actor, format!("supervisor:{id}"), refusal);
    }
    let number = old.as_ref().map_or_else(
        || durable.supervisors.get_max().map_or(1, |(n, _)| n + 1),
        |o| o.number,
    );
    let before: BTreeSet<Unit> = old
        .iter()
        .flat_map(|o| o.def.owns.iter().cloned())
        .collect();
    let after: BTreeSet<Unit> = def.owns.iter().cloned().collect();
    turn.emit(Record::SupervisorSaved {
        number,
        json,
        source,
    });
    super::tick::set_period(turn, number, def.tick.map(|t| t.0));
    let texts = |units: &BTreeSet<Unit>, other: &BTreeSet<Unit>| -> Vec<String> {
        units.difference(other).map(Unit::to_string).collect()
    };
    let (gained, lost) = (texts(&after, &before), texts(&before, &after));
    if !gained.is_empty() || !lost.is_empty() {
        turn.emit_to(Record::Ownership { gained, lost }, &[number]);
    }
    audit_save(turn, actor, format!("supervisor:{id}"));
    turn.reply(
        reply,
        Reply::Saved(Saved {
            changed: true,
            warnings,
        }),
    );
}

/// Saves a workflow as a new revision; runs keep the revision that they started with.
pub(in crate::core) fn workflow(
    turn: &mut Turn,
    reply: Token,
    def: &WorkflowDef,
    source: Source,
    actor: &Actor,
) {
    let id = &def.id;
    let json = match serde_json::to_string(def) {
        Ok(json) => json,
        Err(error) => return turn.refuse(reply, unprintable(&error)),
    };
    let durable = turn.state().durable();
    let old = durable.workflows.get(id).cloned();
    if old
        .as_ref()
        .is_some_and(|o| *o.json == *json && o.source == source)
    {
        return turn.reply(reply, Reply::Saved(Saved::default()));
    }
    let refusal = in_file(
        old.as_ref().map(|o| o.source),
        source,
        actor,
        "workflow",
        id.as_str(),
    )
    .or_else(|| too_long(&json))
    .or_else(|| invalid(def.problems()))
    .or_else(|| split_group(durable, def));
    if let Some(refusal) = refusal {
        return refuse_save(turn, reply, actor, format!("workflow:{id}"), refusal);
    }
    let revision = old.as_ref().map_or(1, |o| o.plan.revision + 1);
    turn.emit(Record::WorkflowSaved {
        revision,
        json,
        source,
    });
    audit_save(turn, actor, format!("workflow:{id}"));
    turn.reply(
        reply,
        Reply::Saved(Saved {
            changed: true,
            warnings: Vec::new(),
        }),
    );
}

/// Keeps a credential, whose secret nobody but its holder has.
pub(in crate::core) fn credential(
    turn: &mut Turn,
    reply: Token,
    credential: Credential,
    replace: bool,
    actor: &Actor,
) {
    if let crate::core::record::Access::Engine(id) = &credential.access
        && turn.state().durable().supervisor(id).is_none()
    {
        let message = format!("there is no supervisor `{id}`; save it first");
        return turn.refuse(reply, Refusal::new(Code::NotFound, "supervisor", message));
    }
    let taken = turn.state().durable().credentials.get(&credential.id);
    if taken.is_some_and(|old| !replace || old.access != credential.access) {
        let message = format!(
            "there is a credential `{}` already; choose another name",
            credential.id
        );
        return turn.refuse(
            reply,
            Refusal::new(Code::InvalidArgument, "credential", message),
        );
    }
    let target = format!("credential:{}", credential.id);
    turn.emit(Record::CredentialIssued(credential));
    turn.audit(AuditEntry {
        kind: "credential".into(),
        target: Some(target),
        ..by(actor)
    });
    turn.reply(
        reply,
        Reply::Saved(Saved {
            changed: true,
            warnings: Vec::new(),
        }),
    );
}

fn by(actor: &Actor) -> AuditEntry {
    AuditEntry {
        channel: "OPERATOR".into(),
        actor: actor.to_string(),
        ..AuditEntry::default()
    }
}

fn audit_save(turn: &mut Turn, actor: &Actor, target: String) {
    turn.audit(AuditEntry {
        kind: "save".into(),
        target: Some(target),
        outcome: Some("SAVED".into()),
        ..by(actor)
    });
}

fn refuse_save(turn: &mut Turn, reply: Token, actor: &Actor, target: String, refusal: Refusal) {
    turn.audit(AuditEntry {
        kind: "refusal".into(),
        op: Some("save".into()),
        target: Some(target),
        outcome: Some(refusal.code.as_str().into()),
        check: Some(refusal.check.into()),
        detail: Some(refusal.message.clone()),
        ..by(actor)
    });
    turn.refuse(reply, refusal);
}

fn unprintable(error: &serde_json::Error) -> Refusal {
    Refusal::new(
        Code::Internal,
        "definition",
        format!("the definition cannot be printed as JSON: {error}"),
    )
}

fn in_file(
    old: Option<Source>,
    new: Source,
    actor: &Actor,
    what: &str,
    id: &str,
) -> Option<Refusal> {
    (old == Some(Source::File) && new == Source::Api && actor.kind != HOST).then(|| {
        let message =
            format!("{what} `{id}` is defined in a file; change the file and restart the host");
        Refusal::new(Code::DefinedInFile, "source", message)
    })
}

fn invalid(problems: Vec<Problem>) -> Option<Refusal> {
    let first = problems.first()?;
    let message = format!("{}: {}", first.path, first.message);
    Some(Refusal {
        code: Code::InvalidArgument,
        check: "definition",
        message,
        problems,
    })
}

/// Finds a unit of the definition that somebody else owns, or that overlaps with what somebody owns.
fn conflict(durable: &Durable, def: &SupervisorDef, number: Option<u32>) -> Option<Refusal> {
    let other = |unit: &Unit| {
        durable
            .owners
            .get(unit)
            .copied()
            .filter(|owner| Some(*owner) != number)
    };
    let owner_name = |n: u32| {
        durable
            .supervisors
            .get(&n)
            .map_or_else(String::new, |s| s.def.id.to_string())
    };
    let refuse = |path: String, unit: &Unit, held: &Unit, owner: &str| {
        let message = if unit == held {
            format!("{path}: `{unit}` is owned by supervisor `{owner}`; take it out there or here")
        } else {
            format!(
                "{path}: `{unit}` overlaps with `{held}` of supervisor `{owner}`; take one of them out"
            )
        };
        Refusal {
            code: Code::OwnershipConflict,
            check: "ownership",
            problems: vec![Problem::new(path, message.clone())],
            message,
        }
    };
    for (i, unit) in def.owns.iter().enumerate() {
        let path = format!("owns[{i}]");
        if let Some(owner) = other(unit) {
            return Some(refuse(path, unit, unit, &owner_name(owner)));
        }
        for overlap in overlaps(durable, unit) {
            if let Some(owner) = other(&overlap) {
                return Some(refuse(path, unit, &overlap, &owner_name(owner)));
            }
            // Its own claims of a node and of the node's group do not conflict: both are its.
        }
    }
    None
}

/// Returns the units that hold the same nodes: a node's group, a group's nodes.
fn overlaps(durable: &Durable, unit: &Unit) -> Vec<Unit> {
    let plan = unit
        .workflow()
        .and_then(|w| durable.workflows.get(w))
        .map(|w| &w.plan);
    let Some(plan) = plan else { return Vec::new() };
    match unit {
        Unit::Node(w, n) => {
            let group = plan.def.nodes.get(n).and_then(|node| node.group.clone());
            group
                .into_iter()
                .map(|g| Unit::Group(w.clone(), g))
                .collect()
        }
        Unit::Group(w, g) => {
            let of_group = plan
                .def
                .nodes
                .iter()
                .filter(|(_, node)| node.group.as_ref() == Some(g));
            of_group
                .map(|(n, _)| Unit::Node(w.clone(), n.clone()))
                .collect()
        }
        Unit::Workflow(_) | Unit::Server => Vec::new(),
    }
}

/// Finds a node of a new definition whose group and itself are claimed by two supervisors.
fn split_group(durable: &Durable, def: &WorkflowDef) -> Option<Refusal> {
    let owner = |unit: &Unit| durable.owners.get(unit).copied();
    let pair = |w: &WorkflowId, n: &NodeId, g: &GroupId| {
        (
            Unit::Node(w.clone(), n.clone()),
            Unit::Group(w.clone(), g.clone()),
        )
    };
    def.nodes.iter().find_map(|(id, node)| {
        let (node_unit, group_unit) = pair(&def.id, id, node.group.as_ref()?);
        let (a, b) = (owner(&node_unit)?, owner(&group_unit)?);
        (a != b).then(|| {
            let path = format!("nodes.{id}.group");
            let message = format!("{path}: `{node_unit}` and `{group_unit}` have two owners; give the node another group");
            Refusal {
                code: Code::OwnershipConflict,
                check: "ownership",
                problems: vec![Problem::new(path, message.clone())],
                message,
            }
        })
    })
}

/// Finds what is allowed and probably not meant.
fn lint(def: &SupervisorDef) -> Vec<Problem> {
    let owns_run = def.owns.iter().any(|u| matches!(u, Unit::Workflow(_)));
    let operators_stop =
        def.is_gateway() || def.operator_access.iter().any(|p| p.matches(Op::RunStop));
    let engine_stops = def.allowed_commands.iter().any(|p| p.matches(Op::RunStop));
    let mut out = Vec::new();
    if owns_run && !operators_stop && !engine_stops {
        out.push(Problem::new(
            "operatorAccess",
            "nobody could stop the runs that it owns: add run.stop to operatorAccess, or to allowedCommands",
        ));
    }
    out
}
