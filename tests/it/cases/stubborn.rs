//! A43: a process that ignores SIGTERM holds no run in STOPPING.

use serde_json::{Value, json};
use signalbox::host::runtime::{AttemptId, StopSignal};
use signalbox::testkit::{Builder, Host};

use super::{assert_ended_runs_rest, free};

fn one() -> Value {
    json!({"id": "w", "nodes": {"a": {"run": ["a"]}, "b": {"run": ["b"], "needs": ["a"]}}})
}

async fn running(builder: Builder) -> (Host, String) {
    let host = builder.start().await;
    let run = host.start_run("w").await;
    (host, run)
}

fn attempt(run: &str) -> AttemptId {
    AttemptId {
        execution: run.to_owned(),
        node: "a".to_owned(),
        attempt: 1,
    }
}

fn signals(host: &Host) -> Vec<StopSignal> {
    host.runtime().stops().into_iter().map(|(_, s)| s).collect()
}

async fn stopped(host: &Host, run: &str) {
    host.until_run(run, "STOPPED").await;
    assert_eq!(host.node_status(run, "a").await.as_str(), "STOPPED");
    assert_eq!(host.node_status(run, "b").await.as_str(), "STOPPED");
    assert_eq!(host.runtime().starts().len(), 1);
    assert_ended_runs_rest(host);
}

#[tokio::test]
async fn a43_an_immediate_stop_kills_after_the_grace() {
    for (grace, told) in [(10_000, None), (3_000, Some(3_000)), (0, Some(0))] {
        let (host, run) = running(free(one())).await;
        let mut stop = host
            .command("run.stop", &format!("execution:{run}"))
            .arg("mode", "immediate");
        if let Some(told) = told {
            stop = stop.arg("graceMs", told);
        }
        stop.await;
        if grace > 0 {
            assert_eq!(
                host.runtime().stops(),
                [(attempt(&run), StopSignal::Terminate)]
            );
            host.advance(grace - 1).await;
            assert_eq!(signals(&host), [StopSignal::Terminate]);
            assert_eq!(host.run_status(&run).await.as_str(), "STOPPING");
            host.advance(1).await;
        }
        // A grace of nothing is over at once.
        host.settled().await;
        assert_eq!(signals(&host), [StopSignal::Terminate, StopSignal::Kill]);
        stopped(&host, &run).await;
    }
}

#[tokio::test]
async fn a43_a_drain_with_a_limit_becomes_immediate_at_the_limit() {
    let (host, run) = running(free(one())).await;
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "drain")
        .arg("drainTimeoutMs", 5_000)
        .await;
    host.advance(4_999).await;
    assert!(signals(&host).is_empty());
    host.advance(1).await;
    assert_eq!(signals(&host), [StopSignal::Terminate]);
    host.advance(9_999).await;
    assert_eq!(signals(&host), [StopSignal::Terminate]);
    host.advance(1).await;
    assert_eq!(signals(&host), [StopSignal::Terminate, StopSignal::Kill]);
    stopped(&host, &run).await;
}

#[tokio::test]
async fn a43_a_restart_in_the_middle_moves_no_deadline() {
    for builder in [free(one()), free(one()).on_disk()] {
        let (mut host, run) = running(builder).await;
        host.command("run.stop", &format!("execution:{run}"))
            .arg("mode", "drain")
            .arg("drainTimeoutMs", 5_000)
            .arg("graceMs", 2_000)
            .await;
        host.advance(3_000).await;
        host.restart().await;
        host.advance(1_999).await;
        assert!(signals(&host).is_empty(), "the drain goes on");
        host.advance(1).await;
        assert_eq!(signals(&host), [StopSignal::Terminate]);
        host.restart().await;
        assert!(
            !signals(&host).contains(&StopSignal::Kill),
            "the grace goes on"
        );
        host.advance(1_999).await;
        assert!(!signals(&host).contains(&StopSignal::Kill));
        host.advance(1).await;
        assert_eq!(signals(&host).last(), Some(&StopSignal::Kill));
        stopped(&host, &run).await;
    }
}

#[tokio::test]
async fn a43_a_drain_limit_that_passes_while_the_host_is_down_is_kept_when_it_opens() {
    let (mut host, run) = running(free(one())).await;
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "drain")
        .arg("drainTimeoutMs", 5_000)
        .await;
    host.crash().await;
    host.clock().advance(60_000);
    host.restart().await;
    // The process is told only now, so its grace begins now.
    assert_eq!(signals(&host), [StopSignal::Terminate]);
    host.advance(10_000).await;
    assert_eq!(signals(&host).last(), Some(&StopSignal::Kill));
    stopped(&host, &run).await;
}

#[tokio::test]
async fn a43_a_grace_that_passes_while_the_host_is_down_is_over_when_it_opens() {
    let (mut host, run) = running(free(one())).await;
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .await;
    host.crash().await;
    host.clock().advance(60_000);
    host.restart().await;
    assert_eq!(signals(&host).last(), Some(&StopSignal::Kill));
    stopped(&host, &run).await;
}

#[tokio::test]
async fn a43_a_reboot_in_the_middle_leaves_no_run_stopping() {
    let (mut host, run) = running(free(one())).await;
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .await;
    host.stop().await;
    host.clock().reboot();
    // The process is gone with the machine; the runtime says so.
    host.runtime().lost(&run, "a").await;
    host.restart().await;
    stopped(&host, &run).await;
}

#[tokio::test]
async fn a43_a_kill_whose_end_was_not_seen_is_sent_again_after_a_restart() {
    let (mut host, run) = running(free(one())).await;
    host.runtime().on_kill(|_| None);
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .arg("graceMs", 1_000)
        .await;
    host.advance(1_000).await;
    assert_eq!(signals(&host), [StopSignal::Terminate, StopSignal::Kill]);
    host.advance(60_000).await;
    assert_eq!(
        host.run_status(&run).await.as_str(),
        "STOPPING",
        "a process that lives is never called ended"
    );
    host.runtime()
        .on_kill(|_| Some(signalbox::host::runtime::Exit::Signal(9)));
    host.restart().await;
    assert_eq!(signals(&host).last(), Some(&StopSignal::Kill));
    stopped(&host, &run).await;
}

#[tokio::test]
async fn a43_a_second_harder_stop_is_not_held_up_by_the_first() {
    let (host, run) = running(free(one())).await;
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "drain")
        .await;
    host.advance(3_600_000).await;
    assert!(signals(&host).is_empty(), "a drain without limit waits");
    host.command("run.stop", &format!("execution:{run}"))
        .arg("mode", "immediate")
        .arg("graceMs", 500)
        .await;
    assert_eq!(signals(&host), [StopSignal::Terminate]);
    host.advance(500).await;
    stopped(&host, &run).await;
}
