//! A35 and A36: a stop ends retries for good, and leaves no node alive in a run that has ended.

use serde_json::{Value, json};
use signalbox::testkit::{Builder, CrashPoint, Host};

use super::{assert_ended_runs_rest, free, outcomes, owned, start_by};

/// A node that is tried eleven times, and one that waits for it.
fn stubborn() -> Value {
    json!({"id": "w", "nodes": {
        "a": {"run": ["false"], "retries": {"max": 10, "delay": "1s"}},
        "b": {"run": ["b"], "needs": ["a"]},
    }})
}

/// A run whose second attempt has failed and whose third waits for its delay.
async fn before_the_third(host: &Host) -> String {
    let run = host.start_run("w").await;
    host.exit(&run, "a", 1).await;
    host.advance(1_000).await;
    host.exit(&run, "a", 1).await;
    assert_eq!(host.node(&run, "a").await.attempt, 3);
    assert_eq!(host.node_status(&run, "a").await.as_str(), "READY");
    run
}

/// Waits far longer than any retry, and sees that nothing was started.
async fn nothing_comes(host: &Host, run: &str) {
    let starts = host.runtime().starts().len();
    for _ in 0..3 {
        host.advance(60_000).await;
    }
    assert_eq!(host.runtime().starts().len(), starts);
    assert_eq!(host.run_status(run).await.as_str(), "STOPPED");
    assert_ended_runs_rest(host);
}

async fn stop(host: &Host, run: &str, mode: &str) {
    let answer = host
        .command("run.stop", &format!("execution:{run}"))
        .arg("mode", mode)
        .await;
    assert_eq!(answer.targets[0].outcome.as_str(), "APPLIED");
}

#[tokio::test]
async fn a35_a_stop_in_the_delay_before_a_retry_ends_the_retries() {
    for mode in ["drain", "immediate"] {
        let host = free(stubborn()).start().await;
        let run = before_the_third(&host).await;
        stop(&host, &run, mode).await;
        assert_eq!(host.run_status(&run).await.as_str(), "STOPPED");
        nothing_comes(&host, &run).await;
        assert_eq!(host.runtime().starts().len(), 2);
    }
}

#[tokio::test]
async fn a35_an_engines_stop_ends_the_retries_too() {
    let host = owned(stubborn()).start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    host.exit(&run, "a", 1).await;
    let (event, _) = engine.until_node(&run, "a", "READY").await;
    let result = engine
        .command("stop", "run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .cause(&format!("event:{event}"))
        .await;
    assert_eq!(outcomes(&result), ["APPLIED"]);
    nothing_comes(&host, &run).await;
    assert_eq!(host.runtime().starts().len(), 1);
}

#[tokio::test]
async fn a35_no_retry_comes_after_a_restart_of_a_stopped_run() {
    for builder in [free(stubborn()), free(stubborn()).on_disk()] {
        let mut host = builder.start().await;
        let run = before_the_third(&host).await;
        stop(&host, &run, "immediate").await;
        host.restart().await;
        nothing_comes(&host, &run).await;
        host.stop().await;
        host.restart().await;
        nothing_comes(&host, &run).await;
    }
}

#[tokio::test]
async fn a35_a_delay_goes_on_over_a_restart_and_a_stop_after_it_ends_the_retries() {
    let mut host = free(stubborn()).start().await;
    let run = before_the_third(&host).await;
    host.restart().await;
    host.advance(999).await;
    assert_eq!(host.runtime().starts().len(), 2);
    stop(&host, &run, "immediate").await;
    nothing_comes(&host, &run).await;
}

#[tokio::test]
async fn a35_a_stop_whose_answer_was_lost_in_a_crash_holds_if_it_was_committed() {
    for point in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        let mut host = free(stubborn()).start().await;
        let run = before_the_third(&host).await;
        host.crash_at(point);
        let lost = host
            .command("run.stop", &format!("execution:{run}"))
            .arg("mode", "immediate")
            .send();
        host.crashed().await;
        assert!(lost.await.expect("the caller's task goes on").is_err());
        host.restart().await;
        match point {
            CrashPoint::AfterCommit => nothing_comes(&host, &run).await,
            CrashPoint::BeforeCommit => {
                host.advance(1_000).await;
                assert_eq!(host.runtime().starts().len(), 3, "the stop never happened");
            }
        }
    }
}

/// A run whose second attempt runs.
async fn in_the_second(builder: Builder) -> (Host, String) {
    let host = builder.start().await;
    let run = host.start_run("w").await;
    host.exit(&run, "a", 1).await;
    host.advance(1_000).await;
    assert_eq!(host.node_status(&run, "a").await.as_str(), "RUNNING");
    (host, run)
}

#[tokio::test]
async fn a36_a_stop_while_a_retry_runs_leaves_no_node_running_in_a_run_that_has_ended() {
    for (mode, code) in [
        ("immediate", 1),
        ("immediate", 0),
        ("drain", 1),
        ("drain", 0),
    ] {
        let (host, run) = in_the_second(free(stubborn())).await;
        stop(&host, &run, mode).await;
        // While the attempt lives, so does the run.
        assert_eq!(host.run_status(&run).await.as_str(), "STOPPING");
        assert_eq!(host.node_status(&run, "a").await.as_str(), "RUNNING");
        assert_eq!(host.node_status(&run, "b").await.as_str(), "STOPPED");
        host.exit(&run, "a", code).await;
        let node = host.node(&run, "a").await;
        let expected = match (mode, code) {
            ("drain", 0) => "SUCCEEDED",
            ("drain", _) => "FAILED",
            _ => "STOPPED",
        };
        assert_eq!(node.status.as_str(), expected, "{mode}, exit {code}");
        nothing_comes(&host, &run).await;
        assert_eq!(host.runtime().starts().len(), 2);
    }
}

#[tokio::test]
async fn a36_the_same_holds_when_the_host_dies_while_the_attempt_is_being_stopped() {
    let (mut host, run) = in_the_second(free(stubborn())).await;
    stop(&host, &run, "immediate").await;
    host.crash().await;
    host.runtime().exit(&run, "a", 143).await;
    host.restart().await;
    host.until_run(&run, "STOPPED").await;
    nothing_comes(&host, &run).await;
}

#[tokio::test]
async fn a36_the_same_holds_for_an_attempt_that_is_lost_or_never_began() {
    for lost in [true, false] {
        let (host, run) = in_the_second(free(stubborn())).await;
        stop(&host, &run, "immediate").await;
        if lost {
            host.runtime().lost(&run, "a").await;
        } else {
            host.runtime().not_started(&run, "a").await;
        }
        host.until_run(&run, "STOPPED").await;
        nothing_comes(&host, &run).await;
    }
}

#[tokio::test]
async fn a36_a_snapshot_never_shows_a_node_running_in_a_run_that_has_ended() {
    let host = owned(stubborn()).start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    host.exit(&run, "a", 1).await;
    host.advance(1_000).await;
    let stop = engine
        .command("stop", "run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .reason("enough")
        .await;
    assert_eq!(outcomes(&stop), ["APPLIED"]);

    let engine = host.engine("night").await;
    let seen = engine.started().execution(&run);
    let statuses: Vec<_> = seen.nodes.iter().map(|n| n.status.as_str()).collect();
    assert_eq!(
        (seen.status.as_str(), statuses),
        ("STOPPING", vec!["RUNNING", "STOPPED"])
    );
    host.exit(&run, "a", 1).await;

    let engine = host.engine("night").await;
    // A snapshot holds what is live; should it show what has ended, then with everything in it ended too.
    let ended = engine.started().executions.iter().find(|e| e.id == run);
    for node in ended.iter().flat_map(|e| &e.nodes) {
        assert_eq!(node.status, "STOPPED");
        assert!(node.ended_ms.is_some());
    }
    assert_ended_runs_rest(&host);
}
