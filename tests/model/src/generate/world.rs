//! The small world: settings, workflows and supervisors, each with variations.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::str::FromStr;

use fastrand::Rng;
use serde_json::{Value, json};
use signalbox::contract::definition::{SupervisorDef, WorkflowDef};
use signalbox::contract::id::SupervisorId;
use signalbox::contract::unit::Unit;

use crate::step::Settings;

/// The supervisors with an engine that connects.
pub(super) const ENGINES: [&str; 3] = ["north", "south", "east"];
/// The supervisor with the built-in engine.
pub(super) const GATE: &str = "gate";
/// How long signals can be causes for most supervisors.
pub(super) const CAUSE_AGE_MS: u64 = 5_000;
/// How long reviews stay open for most supervisors.
pub(super) const REVIEW_MS: u64 = 1_500;

/// Everything that may be owned in the world, so that a claim never names what is nowhere.
const UNITS: [&str; 11] = [
    "workflow:chain",
    "workflow:diamond",
    "workflow:wide",
    "group:chain/tail",
    "group:diamond/mid",
    "node:chain/a",
    "node:chain/c",
    "node:diamond/d",
    "node:diamond/b",
    "node:wide/x",
    "server",
];

/// Makes an id of a text that is one.
pub(super) fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|e| unreachable!("{text}: {e:?}"))
}

fn workflow_of(value: Value) -> WorkflowDef {
    serde_json::from_value(value)
        .unwrap_or_else(|e| unreachable!("the definition is well-formed: {e}"))
}

pub(super) fn supervisor_of(value: Value) -> SupervisorDef {
    serde_json::from_value(value)
        .unwrap_or_else(|e| unreachable!("the definition is well-formed: {e}"))
}

pub(super) fn settings(rng: &mut Rng) -> Settings {
    Settings {
        max_running_runs: rng.u32(1..6),
        max_running_nodes: rng.u32(1..7),
        max_queued_runs: rng.u32(2..8),
        review_timeout_ms: 2_000,
        default_enabled: rng.u32(0..3) > 0,
    }
}

/// One of the workflows, in one of its revisions.
pub(super) fn workflow(rng: &mut Rng) -> WorkflowDef {
    let which = rng.usize(0..3);
    if rng.u32(0..12) == 0 {
        return bad_workflow();
    }
    revision(which, rng)
}

/// A workflow whose nodes need each other.
fn bad_workflow() -> WorkflowDef {
    workflow_of(json!({ "id": "chain", "nodes": {
        "a": { "run": ["true"], "needs": ["b"] }, "b": { "run": ["true"], "needs": ["a"] } } }))
}

/// A revision of one of the three workflows.
pub(super) fn revision(which: usize, rng: &mut Rng) -> WorkflowDef {
    let mut def = match which {
        0 => json!({ "id": "chain", "params": { "must": {}, "may": { "default": "x" } }, "nodes": {
            "a": { "run": ["true"], "retries": { "max": 2, "delay": "300ms" } },
            "b": { "run": ["true"], "needs": ["a"], "group": "tail", "timeout": "700ms" },
            "c": { "run": ["true"], "needs": ["b"] } } }),
        1 => json!({ "id": "diamond", "nodes": {
            "a": { "run": ["true"] },
            "b": { "run": ["true"], "needs": ["a"], "timeout": "900ms", "retries": { "max": 1 } },
            "c": { "run": ["true"], "needs": ["a"], "group": "mid" },
            "d": { "run": ["true"], "needs": ["b", "c"] } } }),
        _ => json!({ "id": "wide", "nodes": {
            "x": { "run": ["true"] },
            "y": { "run": ["true"] },
            "y.z": { "run": ["true"], "needs": ["y"] } } }),
    };
    if rng.u32(0..3) == 0 {
        def["timeout"] = json!(["2s", "6s", "15s"][rng.usize(0..3)]);
    }
    if rng.u32(0..6) == 0 {
        match which {
            // The group loses its node, or takes another.
            0 => def["nodes"]["b"] = json!({ "run": ["true"], "needs": ["a"] }),
            1 => def["nodes"]["e"] = json!({ "run": ["true"], "needs": ["d"], "group": "mid" }),
            _ => def["nodes"]["y.z"]["needs"] = json!(["x", "y"]),
        }
    }
    workflow_of(def)
}

/// A supervisor as it is at the beginning.
pub(super) fn first(name: &str, rng: &mut Rng) -> SupervisorDef {
    let owns: &[&str] = match name {
        "north" => &["workflow:chain", "node:wide/x"],
        "south" => &["workflow:diamond", "node:chain/c"],
        "east" => &["workflow:wide", "group:diamond/mid"],
        _ => &[],
    };
    define(name, owns.iter().map(|u| id(u)).collect(), rng)
}

/// Some supervisor, with units that are mostly free.
pub(super) fn supervisor(rng: &mut Rng, taken: &[(SupervisorId, Vec<Unit>)]) -> SupervisorDef {
    let name = [ENGINES[0], ENGINES[1], ENGINES[2], GATE][rng.usize(0..4)];
    let mut owns: BTreeSet<Unit> = taken
        .iter()
        .filter(|(id, _)| id.as_str() == name)
        .flat_map(|(_, units)| units.clone())
        .collect();
    let foreign = |unit: &Unit| {
        taken
            .iter()
            .any(|(id, units)| id.as_str() != name && units.contains(unit))
    };
    // Gives up one, takes what is free.
    for _ in 0..rng.usize(0..2) {
        let at = rng.usize(0..owns.len().max(1));
        if let Some(unit) = owns.iter().nth(at).cloned() {
            owns.remove(&unit);
        }
    }
    for _ in 0..rng.usize(0..6) {
        let unit: Unit = id(UNITS[rng.usize(0..UNITS.len())]);
        if !foreign(&unit) || rng.u32(0..25) == 0 {
            owns.insert(unit);
        }
    }
    let mut def = define(name, owns.into_iter().collect(), rng);
    if rng.u32(0..20) == 0 {
        def.max_commands_per_event = 0;
    }
    def
}

fn define(name: &str, owns: Vec<Unit>, rng: &mut Rng) -> SupervisorDef {
    if name == GATE {
        let engine = json!({ "transport": "builtin", "name": "operator-gateway" });
        return supervisor_of(json!({ "id": name, "owns": owns, "engine": engine }));
    }
    let mut def = json!({
        "id": name, "owns": owns, "engine": { "transport": "attached" },
        "allowedCommands": ["run.*", "node.*", "notify"],
        "operatorAccess": ["run.*", "node.*"],
        "initiative": ["run.*", "notify"],
        "maxInitiativePerMinute": 2,
        "maxCommandsPerEvent": 2,
        "causeMaxAge": "5s",
        "reviewTimeout": "1500ms",
    });
    match name {
        "north" => {
            def["maxDirectivesPerSecond"] = json!(3);
            def["tick"] = json!("250ms");
        }
        "south" => {
            def["allowedCommands"] = json!(["run.*", "node.*"]);
            def["initiative"] = json!(["run.*"]);
            def["operatorAccess"] = json!(["run.stop", "run.pause", "node.*"]);
            def["maxCommandsPerEvent"] = json!(20);
        }
        _ => {
            def["maxDirectivesPerSecond"] = json!(100_000);
            def["maxCommandsPerEvent"] = json!(5);
            def["maxInitiativePerMinute"] = json!(4);
            def["tick"] = json!("1s");
        }
    }
    if rng.u32(0..8) == 0 {
        def["events"] = json!([["NODE_STATUS"], ["WORKFLOW_STATUS"]][rng.usize(0..2)]);
    }
    match rng.u32(0..12) {
        0 => def["operatorAccess"] = json!([]),
        1 => def["reviewTimeout"] = Value::Null,
        2 => def["tick"] = json!("100ms"),
        3 => def["allowedCommands"] = json!(["run.*", "node.retry", "notify"]),
        4 => def["causeMaxAge"] = json!("1s"),
        5 => def["maxInitiativePerMinute"] = json!(0),
        _ => {}
    }
    supervisor_of(def)
}
