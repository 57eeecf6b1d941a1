//! A42: nothing starts after a stop's place in the run's order, whatever happens at the same moment.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use signalbox::contract::status::{NodeStatus, RunStatus};
use signalbox::core::record::Record;
use signalbox::testkit::Host;

use super::{assert_ended_runs_rest, free, owned, start_by};

/// `c` needs `a` and `b`; `d` needs `c`; `e` needs `a` alone.
fn diamond() -> Value {
    json!({"id": "w", "nodes": {
        "a": {"run": ["a"]}, "b": {"run": ["b"]},
        "c": {"run": ["c"], "needs": ["a", "b"]}, "d": {"run": ["d"], "needs": ["c"]},
        "e": {"run": ["e"], "needs": ["a"]},
    }})
}

/// Every order of the steps.
fn orders(steps: &[&'static str]) -> Vec<Vec<&'static str>> {
    if steps.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let mut rest = steps.to_vec();
        rest.remove(place);
        for mut order in orders(&rest) {
            order.insert(0, step);
            all.push(order);
        }
    }
    all
}

/// Sees that every start that the runtime was asked for stands before the stop in the journal.
fn assert_nothing_started_after_the_stop(host: &Host, what: &str) {
    let mut stopped = false;
    let mut running = 0;
    for entry in host.records() {
        match entry.record {
            Record::RunStatus {
                to: RunStatus::Stopping | RunStatus::Stopped,
                ..
            } => stopped = true,
            Record::NodeStatus {
                node,
                to: NodeStatus::Running,
                ..
            } => {
                assert!(!stopped, "{what}: {node} started after the stop");
                running += 1;
            }
            _ => {}
        }
    }
    assert!(stopped, "{what}: the run was stopped");
    assert_eq!(host.runtime().starts().len(), running, "{what}");
    assert_ended_runs_rest(host);
}

/// Ends whatever still runs.
async fn drain(host: &Host) {
    for id in host.runtime().running() {
        host.exit(&id.execution, &id.node, 0).await;
    }
}

#[tokio::test]
async fn a42_in_every_order_of_a_stop_and_the_ends_of_nodes_nothing_starts_after_the_stop() {
    for mode in ["drain", "immediate"] {
        for slots in [1, 2, 32] {
            for order in orders(&["a", "b", "c", "stop"]) {
                let what = format!("{mode}, {slots} slots, {order:?}");
                let host = free(diamond())
                    .settings(|s| s.max_running_nodes = slots)
                    .start()
                    .await;
                let run = host.start_run("w").await;
                for step in order {
                    if step == "stop" {
                        let target = format!("execution:{run}");
                        host.command("run.stop", &target).arg("mode", mode).await;
                    } else if host.runtime().running().iter().any(|id| id.node == step) {
                        host.exit(&run, step, 0).await;
                    }
                }
                drain(&host).await;
                host.until_run(&run, "STOPPED").await;
                assert_nothing_started_after_the_stop(&host, &what);
            }
        }
    }
}

#[tokio::test]
async fn a42_a_stop_and_the_end_of_a_node_in_the_same_moment_have_one_order() {
    let mut seen = BTreeSet::new();
    for round in 0..100 {
        let host = free(diamond()).start().await;
        let run = host.start_run("w").await;
        host.exit(&run, "b", 0).await;
        let target = format!("execution:{run}");
        let runtime = host.runtime().clone();
        // Both are on their way at once; which is first is the machine's choice.
        let stop = host.command("run.stop", &target).send();
        let exit = tokio::spawn({
            let run = run.clone();
            async move { runtime.exit(&run, "a", 0).await }
        });
        stop.await
            .expect("the caller's task goes on")
            .expect("the host answers");
        exit.await.expect("the runtime reports");
        host.settled().await;
        seen.insert(host.runtime().starts().len());
        drain(&host).await;
        host.until_run(&run, "STOPPED").await;
        assert_nothing_started_after_the_stop(&host, &format!("round {round}"));
    }
    assert!(
        seen.is_subset(&BTreeSet::from([2, 4])),
        "either c and e started before the stop or nothing did: {seen:?}"
    );
}

#[tokio::test]
async fn a42_an_engines_stop_in_the_same_moment_as_the_end_of_a_node_has_one_order_too() {
    for round in 0..20 {
        let host = owned(diamond()).start().await;
        let mut engine = host.engine("night").await;
        let run = start_by(&mut engine, "start").await;
        host.exit(&run, "b", 0).await;
        let target = format!("execution:{run}");
        let reference = engine
            .command("stop", "run.stop", &target)
            .reason("the test says so")
            .send()
            .await;
        host.exit(&run, "a", 0).await;
        engine.result(reference).await;
        drain(&host).await;
        host.until_run(&run, "STOPPED").await;
        assert_nothing_started_after_the_stop(&host, &format!("round {round}"));
    }
}

#[tokio::test]
async fn a42_a_run_that_is_stopped_in_the_queue_never_starts() {
    let host = free(diamond())
        .settings(|s| s.max_running_runs = 1)
        .start()
        .await;
    let first = host.start_run("w").await;
    let second = host.start_run("w").await;
    host.command("run.stop", &format!("execution:{second}"))
        .await;
    assert_eq!(host.run_status(&second).await.as_str(), "STOPPED");
    host.command("run.stop", &format!("execution:{first}"))
        .await;
    drain(&host).await;
    host.until_run(&first, "STOPPED").await;
    assert!(
        host.runtime()
            .starts()
            .iter()
            .all(|s| s.id.execution == first)
    );
    assert_ended_runs_rest(&host);
}
