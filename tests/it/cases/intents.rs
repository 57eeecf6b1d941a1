//! A30: a host that dies between the intent to start an attempt and the process never starts it twice.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use signalbox::testkit::{CrashPoint, Host};

use super::{assert_ended_runs_rest, free};

fn retried() -> Value {
    json!({"id": "w", "nodes": {
        "a": {"run": ["a"], "retries": {"max": 1, "delay": "1s"}},
        "b": {"run": ["b"], "needs": ["a"]},
    }})
}

/// How often each attempt was started, under `<run>/<node>/<attempt>`.
fn ledger(host: &Host) -> BTreeMap<String, usize> {
    let mut ledger = BTreeMap::new();
    for start in host.runtime().starts() {
        let id = start.id;
        *ledger
            .entry(format!("{}/{}/{}", id.execution, id.node, id.attempt))
            .or_default() += 1;
    }
    ledger
}

fn once(attempts: &[&str]) -> BTreeMap<String, usize> {
    attempts.iter().map(|a| ((*a).to_owned(), 1)).collect()
}

#[tokio::test]
async fn a30_an_intent_without_a_process_becomes_one_process() {
    for builder in [free(retried()), free(retried()).on_disk()] {
        let mut host = builder.start().await;
        host.crash_at(CrashPoint::AfterCommit);
        let lost = host.command("run.start", "workflow:w").send();
        host.crashed().await;
        assert!(lost.await.expect("the caller's task goes on").is_err());
        assert!(ledger(&host).is_empty(), "the intent is all there was");
        host.restart().await;
        assert_eq!(ledger(&host), once(&["x1/a/1"]));
        host.restart().await;
        assert_eq!(ledger(&host), once(&["x1/a/1"]));
        host.exit("x1", "a", 0).await;
        host.exit("x1", "b", 0).await;
        assert_eq!(host.run_status("x1").await.as_str(), "SUCCEEDED");
    }
}

#[tokio::test]
async fn a30_a_process_whose_start_nobody_heard_of_is_taken_up() {
    let mut host = free(retried()).start().await;
    let run = host.start_run("w").await;
    host.crash().await;
    host.restart().await;
    assert_eq!(ledger(&host), once(&["x1/a/1"]));
    host.exit(&run, "a", 0).await;
    assert_eq!(host.node_status(&run, "a").await.as_str(), "SUCCEEDED");
}

#[tokio::test]
async fn a30_a_process_that_ended_unseen_is_not_started_again_under_its_attempt() {
    for code in [0, 1] {
        let mut host = free(retried()).start().await;
        let run = host.start_run("w").await;
        host.crash().await;
        host.runtime().exit(&run, "a", code).await;
        host.restart().await;
        if code == 0 {
            host.until_node(&run, "b", "RUNNING").await;
            assert_eq!(ledger(&host), once(&["x1/a/1", "x1/b/1"]));
        } else {
            host.until_node(&run, "a", "READY").await;
            host.advance(1_000).await;
            assert_eq!(ledger(&host), once(&["x1/a/1", "x1/a/2"]));
        }
    }
}

#[tokio::test]
async fn a30_a_process_that_no_record_knows_is_ended() {
    let mut host = free(retried()).start().await;
    let run = host.start_run("w").await;
    let start = host.runtime().next_start().await;
    host.exit(&run, "a", 0).await;
    let mut stray = start.clone();
    stray.id.attempt = 7;
    signalbox::host::runtime::Runtime::start(host.runtime(), stray.clone());
    host.restart().await;
    assert_eq!(host.runtime().orphans(), [stray.id]);
}

/// The steps of a run whose first node fails once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Start,
    Fail,
    Wait,
    First,
    Second,
}

const STEPS: [Step; 5] = [
    Step::Start,
    Step::Fail,
    Step::Wait,
    Step::First,
    Step::Second,
];

async fn play(host: &Host, step: Step) {
    match step {
        Step::Start => {
            // Under a key, as anybody who may have to repeat it would.
            let start = host.command("run.start", "workflow:w").key("k-1").send();
            // A host that dies answers nobody.
            let _ = start.await.expect("the caller's task goes on");
        }
        Step::Fail => host.exit("x1", "a", 1).await,
        Step::Wait => host.advance(1_000).await,
        Step::First => host.exit("x1", "a", 0).await,
        Step::Second => host.exit("x1", "b", 0).await,
    }
}

#[tokio::test]
async fn a30_wherever_the_host_dies_each_attempt_is_started_once_and_the_run_ends_well() {
    for point in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        for dies_in in STEPS {
            let mut host = free(retried()).start().await;
            for step in STEPS {
                if step == dies_in {
                    host.crash_at(point);
                    play(&host, step).await;
                    host.crashed().await;
                    host.restart().await;
                    // What was reported in vain is reported again by the runtime; only the start is the caller's.
                    if step == Step::Start {
                        play(&host, step).await;
                    }
                    host.settled().await;
                    arrived(&host, step).await;
                } else {
                    play(&host, step).await;
                }
            }
            let what = format!("{point:?} in {dies_in:?}");
            assert_eq!(host.run_status("x1").await.as_str(), "SUCCEEDED", "{what}");
            assert_eq!(
                ledger(&host),
                once(&["x1/a/1", "x1/a/2", "x1/b/1"]),
                "{what}"
            );
            assert_ended_runs_rest(&host);
        }
    }
}

/// Waits until what a step leads to is there.
async fn arrived(host: &Host, step: Step) {
    match step {
        Step::Start | Step::Wait => host.until_node("x1", "a", "RUNNING").await,
        Step::Fail => host.until_node("x1", "a", "READY").await,
        Step::First => host.until_node("x1", "b", "RUNNING").await,
        Step::Second => host.until_run("x1", "SUCCEEDED").await,
    };
}
