use super::definition::{SupervisorDef, WorkflowDef};
use super::directive::Directive;
use super::operation::{OPERATIONS, Op, OpPattern};
use super::signal::Signal;
use super::target::Target;
use super::unit::Unit;
use serde_json::{Value, json};

fn round<T: serde::Serialize + serde::de::DeserializeOwned>(text: &str) {
    let before: Value = serde_json::from_str(text).unwrap();
    let parsed: T = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(parsed).unwrap(), before);
}

#[test]
fn the_seeds_json_examples_parse_and_print_back_the_same() {
    round::<Signal>(
        r#"{ "signal": "Event", "id": "e-4411", "cursor": "c-9120",
             "event": { "kind": "NODE_STATUS", "execution": "x1", "node": "build.compile", "status": "FAILED" } }"#,
    );
    round::<Signal>(
        r#"{ "signal": "Review", "id": "r-77", "timeoutMs": 5000,
             "command": { "op": "run.stop", "target": "execution:x1" }, "actor": { "kind": "KEY", "id": "ci-bot" } }"#,
    );
    round::<Directive>(
        r#"{ "directive": "Command", "key": "k-1", "op": "run.pause", "target": "execution:x1",
             "cause": "event:e-4411", "ifStatus": "RUNNING" }"#,
    );
    round::<Directive>(
        r#"{ "directive": "ReviewVerdict", "answers": "r-77", "verdict": "deny", "reason": "release in progress" }"#,
    );
}

#[test]
fn an_unknown_field_of_a_directive_is_refused_by_name() {
    let error = serde_json::from_value::<Directive>(json!({
        "directive": "Command", "key": "k", "op": "run.stop", "target": "execution:x1", "onlyIf": "RUNNING"
    }))
    .unwrap_err();
    assert!(error.to_string().contains("onlyIf"), "{error}");
}

#[test]
fn every_operation_stands_at_its_own_place_in_the_table() {
    for op in Op::ALL {
        assert_eq!(op.spec().op, *op);
        assert_eq!(Op::from_name(op.as_str()), Some(*op));
    }
    assert_eq!(OPERATIONS.len(), Op::ALL.len());
}

#[test]
fn a_prefix_names_whole_groups_only() {
    let pattern: OpPattern = "run.*".parse().unwrap();
    assert!(pattern.matches(Op::RunStop) && !pattern.matches(Op::NodeStop));
    assert!("ru*".parse::<OpPattern>().is_err());
    assert!("nothing.*".parse::<OpPattern>().is_err());
    assert!("run.fly".parse::<OpPattern>().is_err());
}

#[test]
fn targets_print_as_they_parse() {
    for text in [
        "execution:x1",
        "workflow:w",
        "node:x1/build.compile,x2/a",
        "owned.running",
        "owned.held",
        "server",
    ] {
        assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
    }
    assert_eq!(
        "node:x1/a,b".parse::<Target>().unwrap().to_string(),
        "node:x1/a,x1/b"
    );
    for bad in [
        "",
        "execution:",
        "execution:1",
        "execution:x01",
        "node:",
        "node:a",
        "node:x1/",
        "workflow:*",
        "x1",
    ] {
        assert!(bad.parse::<Target>().is_err(), "{bad}");
    }
}

#[test]
fn at_most_200_nodes_are_named_in_one_target() {
    let list = |n: usize| {
        format!(
            "node:x1/{}",
            (0..n)
                .map(|i| format!("n{i}"))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    assert!(list(200).parse::<Target>().is_ok());
    assert!(list(201).parse::<Target>().is_err());
}

#[test]
fn units_print_as_they_parse() {
    for text in [
        "workflow:w",
        "group:w/build",
        "node:w/build.compile",
        "server",
    ] {
        assert_eq!(text.parse::<Unit>().unwrap().to_string(), text);
    }
    for bad in [
        "",
        "workflow:",
        "workflow:a/b",
        "group:w",
        "node:w/",
        "servers",
        "workflow:-a",
    ] {
        assert!(bad.parse::<Unit>().is_err(), "{bad}");
    }
}

#[test]
fn a_circle_of_needs_is_named() {
    let def: WorkflowDef = serde_json::from_value(json!({"id": "w", "nodes": {
        "a": {"run": ["true"], "needs": ["c"]}, "b": {"run": ["true"], "needs": ["a"]}, "c": {"run": ["true"], "needs": ["b"]}
    }}))
    .unwrap();
    let problems = def.problems();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].message.contains("a → c → b → a"),
        "{problems:?}"
    );
}

#[test]
fn guards_that_are_not_served_are_refused_by_name() {
    let def: SupervisorDef = serde_json::from_value(json!({
        "id": "s", "engine": {"transport": "attached"}, "approval": {"commands": ["run.*"]}, "maxRisk": "low",
        "parents": ["p"], "dryRun": "all"
    }))
    .unwrap();
    let paths: Vec<String> = def.problems().into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["approval", "maxRisk", "parents", "dryRun"]);
}

#[test]
fn a_setting_without_effect_is_refused_by_name() {
    let def: SupervisorDef = serde_json::from_value(json!({
        "id": "s", "engine": {"transport": "attached", "command": ["x"]}, "initiative": ["run.stop"]
    }))
    .unwrap();
    let paths: Vec<String> = def.problems().into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["engine.command", "initiative[0]"]);
}
