//! Runs and nodes.

use super::*;

const CHAIN: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["b"])];

#[test]
fn a_chain_runs_node_by_node_and_succeeds() {
    let mut host = Host::with_nodes(CHAIN);
    let reply = host.operator("run.start", "workflow:w", json!({})).unwrap();
    assert_eq!(reply.targets[0].target, "execution:x1");
    assert_eq!(reply.targets[0].order, Some(1));
    assert_eq!(host.starts(), ["x1/a 1"]);
    for (node, next) in [("a", vec!["x1/b 1"]), ("b", vec!["x1/c 1"]), ("c", vec![])] {
        host.ends(1, node, 1, Exit::Code(0));
        assert_eq!(host.starts(), next);
    }
    assert_eq!(host.run(1), "SUCCEEDED");
}

#[test]
fn a_node_below_a_failure_is_skipped_and_other_branches_go_on() {
    let mut host = Host::with_nodes(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("z", &[])]);
    host.operator("run.start", "workflow:w", json!({}));
    host.ends(1, "a", 1, Exit::Code(2));
    assert_eq!(
        (host.node(1, "b"), host.node(1, "c")),
        ("SKIPPED upstream".into(), "SKIPPED upstream".into())
    );
    assert_eq!(host.run(1), "RUNNING");
    host.ends(1, "z", 1, Exit::Code(0));
    assert_eq!(host.run(1), "FAILED");
}

#[test]
fn a_paused_run_lets_what_runs_finish_and_starts_nothing() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator("run.pause", "execution:x1", json!({}));
    assert_eq!(host.run(1), "PAUSING");
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(
        (host.run(1), host.node(1, "b")),
        ("PAUSED".into(), "READY".into())
    );
    assert!(host.starts().is_empty());
    let reply = host
        .operator("run.resume", "execution:x1", json!({}))
        .unwrap();
    assert_eq!(
        only(&reply),
        (Outcome::Applied, Some("cleared person:USER:ann"))
    );
    assert_eq!(host.starts(), ["x1/b 1"]);
}

#[test]
fn a_paused_run_with_nothing_left_to_start_ends_too_and_its_holds_with_it() {
    let mut host = Host::with_nodes(&[("a", &[])]);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator("run.pause", "execution:x1", json!({}));
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(host.run(1), "SUCCEEDED");
    assert!(host.reference.run(1).unwrap().holds.is_empty());
}

#[test]
fn a_drain_lets_running_nodes_finish_and_leads_only_to_stopped() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator("run.stop", "execution:x1", json!({}));
    assert!(host.stops().is_empty());
    assert_eq!(
        (host.run(1), host.node(1, "b")),
        ("STOPPING".into(), "STOPPED".into())
    );
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(
        (host.run(1), host.node(1, "a")),
        ("STOPPED".into(), "SUCCEEDED".into())
    );
}

#[test]
fn an_immediate_stop_ends_and_after_the_grace_kills() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator(
        "run.stop",
        "execution:x1",
        json!({ "args": { "mode": "immediate", "graceMs": 500 } }),
    );
    assert_eq!(host.stops(), ["end a"]);
    host.wait(499);
    assert!(host.stops().is_empty());
    host.wait(1);
    assert_eq!(host.stops(), ["kill a"]);
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(
        (host.run(1), host.node(1, "a")),
        ("STOPPED".into(), "STOPPED".into())
    );
}

#[test]
fn a_stop_is_already_in_state_unless_it_is_harder_or_earlier() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    let mut stop = |args: Value| {
        let reply = host
            .operator("run.stop", "execution:x1", json!({ "args": args }))
            .unwrap();
        only(&reply).0
    };
    assert_eq!(stop(json!({ "drainTimeoutMs": 900 })), Outcome::Applied);
    assert_eq!(stop(json!({})), Outcome::AlreadyInState);
    assert_eq!(
        stop(json!({ "drainTimeoutMs": 900 })),
        Outcome::AlreadyInState
    );
    assert_eq!(stop(json!({ "drainTimeoutMs": 800 })), Outcome::Applied);
    assert_eq!(
        stop(json!({ "mode": "immediate", "graceMs": 700 })),
        Outcome::Applied
    );
    assert_eq!(
        stop(json!({ "drainTimeoutMs": 1 })),
        Outcome::AlreadyInState
    );
    assert_eq!(
        stop(json!({ "mode": "immediate", "graceMs": 700 })),
        Outcome::AlreadyInState
    );
    assert_eq!(
        stop(json!({ "mode": "immediate", "graceMs": 600 })),
        Outcome::Applied
    );
    host.wait(600);
    assert_eq!(host.stops(), ["kill a"]);
}

#[test]
fn a_drain_that_takes_too_long_goes_on_as_immediate() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator(
        "run.stop",
        "execution:x1",
        json!({ "args": { "drainTimeoutMs": 300, "graceMs": 50 } }),
    );
    host.wait(300);
    assert_eq!(host.stops(), ["end a"]);
    host.wait(50);
    assert_eq!(host.stops(), ["kill a"]);
}

#[test]
fn a_queued_run_is_stopped_at_once() {
    let mut host = Host::new(Settings {
        max_running_runs: 0,
        ..Settings::default()
    });
    host.workflow(json!({ "id": "w", "nodes": { "a": { "run": ["true"] } } }));
    host.supervisor(
        "s",
        &["workflow:w"],
        json!({ "engine": { "transport": "attached" } }),
    );
    host.hello("s");
    host.commands("s", "event:e-1", "run.start", "workflow:w");
    assert_eq!(host.run(1), "QUEUED");
    host.commands("s", "event:e-1", "run.stop", "execution:x1");
    assert_eq!(host.statuses("s"), ["STOPPED", "a STOPPED"]);
}

#[test]
fn a_failed_attempt_is_tried_again_after_its_delay() {
    let mut host = Host::new(Settings::default());
    let node = json!({ "run": ["true"], "retries": { "max": 1, "delay": "200ms" } });
    host.workflow(json!({ "id": "w", "nodes": { "a": node } }));
    host.operator("run.start", "workflow:w", json!({}));
    host.ends(1, "a", 1, Exit::Signal(9));
    assert_eq!(host.node(1, "a"), "READY");
    host.wait(199);
    assert!(host.starts().is_empty());
    host.wait(1);
    assert_eq!(host.starts(), ["x1/a 2"]);
    host.ends(1, "a", 2, Exit::Code(1));
    assert_eq!(
        (host.node(1, "a"), host.run(1)),
        ("FAILED".into(), "FAILED".into())
    );
}

#[test]
fn an_attempt_that_takes_too_long_fails_whatever_its_exit_is() {
    let mut host = Host::new(Settings::default());
    host.workflow(json!({ "id": "w", "nodes": { "a": { "run": ["true"], "timeout": "1s" } } }));
    host.operator("run.start", "workflow:w", json!({}));
    host.wait(1_000);
    assert_eq!(host.stops(), ["end a"]);
    host.wait(10_000);
    assert_eq!(host.stops(), ["kill a"]);
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(host.node(1, "a"), "FAILED");
}

#[test]
fn a_runs_timeout_stops_it_by_system_and_no_attempt_begins_past_it() {
    let mut host = Host::new(Settings::default());
    host.workflow(json!({ "id": "w", "timeout": "1s", "nodes": { "a": { "run": ["true"] } } }));
    host.supervisor("s", &["workflow:w"], json!({}));
    host.hello("s");
    host.commands("s", "event:e-1", "run.start", "workflow:w");
    host.wait(1_000);
    let outcome = host.seen.iter().find_map(|s| match s {
        Seen::Event { fields, .. } if fields.contains_key("outcome") => Some(fields.clone()),
        _ => None,
    });
    let outcome = outcome.unwrap();
    assert_eq!(
        (outcome["channel"].as_str(), outcome["reason"].as_str()),
        ("SYSTEM", "timeout")
    );
    assert_eq!(outcome["order"], "2");
    host.ends(1, "a", 1, Exit::Signal(15));
    assert_eq!(host.run(1), "STOPPED");
    let reply = host.commands("s", "event:e-1", "node.retry", "node:x1/a");
    assert_eq!(only(&reply), (Outcome::PreconditionFailed, Some("timeout")));
}

#[test]
fn a_retry_reopens_an_ended_run_and_its_downstream() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.ends(1, "a", 1, Exit::Lost);
    assert_eq!(host.run(1), "FAILED");
    let reply = host.operator("node.retry", "node:x1/b", json!({})).unwrap();
    assert_eq!(
        only(&reply),
        (Outcome::PreconditionFailed, Some("need a is FAILED"))
    );
    host.operator("node.retry", "node:x1/a", json!({}));
    assert_eq!(
        (host.run(1), host.node(1, "c")),
        ("RUNNING".into(), "PENDING".into())
    );
    assert_eq!(host.starts(), ["x1/a 2"]);
    let reply = host.operator("node.retry", "node:x1/a", json!({})).unwrap();
    assert_eq!(only(&reply).0, Outcome::AlreadyInState);
}

#[test]
fn a_node_whose_dependent_has_started_is_not_retried() {
    let mut host = Host::with_nodes(&[("a", &[]), ("b", &["a"])]);
    host.operator("run.start", "workflow:w", json!({}));
    host.operator("node.skip", "node:x1/b", json!({}));
    host.ends(1, "a", 1, Exit::Code(1));
    host.operator("node.skip", "node:x1/a", json!({}));
    assert_eq!(host.run(1), "SUCCEEDED");
    let mut host = Host::with_nodes(&[("a", &[]), ("b", &["a"])]);
    host.operator("run.start", "workflow:w", json!({}));
    host.ends(1, "a", 1, Exit::Code(1));
    host.operator("node.skip", "node:x1/a", json!({}));
    assert_eq!(host.starts(), ["x1/b 1"]);
    let reply = host.operator("node.retry", "node:x1/a", json!({})).unwrap();
    assert_eq!(
        only(&reply),
        (Outcome::PreconditionFailed, Some("dependent b has started"))
    );
}

#[test]
fn a_skip_satisfies_dependents_and_leaves_running_nodes_alone() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    let reply = host
        .operator("node.skip", "node:x1/a,b", json!({}))
        .unwrap();
    assert_eq!(reply.targets[0].outcome, Outcome::PreconditionFailed);
    assert_eq!(reply.targets[1].outcome, Outcome::Applied);
    assert_eq!(
        (host.node(1, "b"), host.starts()),
        ("SKIPPED command".into(), vec!["x1/c 1".to_owned()])
    );
}

#[test]
fn a_freed_slot_starts_one_run_by_priority_then_age() {
    let mut host = Host::new(Settings {
        max_running_runs: 1,
        max_queued_runs: 2,
        ..Settings::default()
    });
    host.workflow(json!({ "id": "w", "nodes": { "a": { "run": ["true"] } } }));
    for priority in [0, 5, 7] {
        host.operator(
            "run.start",
            "workflow:w",
            json!({ "args": { "priority": priority } }),
        );
    }
    let reply = host.operator("run.start", "workflow:w", json!({})).unwrap();
    assert_eq!(
        (code(&reply), reply.check.as_deref()),
        ("UNAVAILABLE", Some("queue"))
    );
    host.ends(1, "a", 1, Exit::Code(0));
    assert_eq!(
        (host.run(2), host.run(3)),
        ("QUEUED".into(), "RUNNING".into())
    );
}

#[test]
fn a_late_report_is_kept_as_stale_and_changes_nothing() {
    let mut host = Host::with_nodes(CHAIN);
    host.operator("run.start", "workflow:w", json!({}));
    host.ends(1, "a", 2, Exit::Code(0));
    assert_eq!(host.node(1, "a"), "RUNNING");
    host.ends(1, "a", 1, Exit::Code(0));
    host.ends(1, "a", 1, Exit::Code(1));
    assert_eq!(
        (host.node(1, "a"), host.seen.len()),
        ("SUCCEEDED".into(), 0)
    );
}
