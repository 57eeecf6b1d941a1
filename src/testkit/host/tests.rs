use super::*;

const NIGHTLY: &str = "
id: nightly
nodes:
  build: { run: [make], retries: { max: 1, delay: 1s } }
  ship: { run: [ship], needs: [build] }
";

async fn host(builder: Builder) -> Host {
    builder.workflow(NIGHTLY).start().await
}

#[tokio::test]
async fn a_run_goes_from_node_to_node_as_the_test_ends_attempts() {
    let host = host(Host::builder()).await;
    let run = host.start_run("nightly").await;
    assert_eq!(host.runtime().next_start().await.argv, ["make"]);
    host.exit(&run, "build", 0).await;
    assert_eq!(host.runtime().next_start().await.argv, ["ship"]);
    host.exit(&run, "ship", 0).await;
    host.until_run(&run, "SUCCEEDED").await;
}

#[tokio::test]
async fn nothing_is_due_before_the_test_moves_the_clock() {
    let host = host(Host::builder()).await;
    let run = host.start_run("nightly").await;
    host.exit(&run, "build", 1).await;
    host.advance(999).await;
    assert_eq!(host.runtime().starts().len(), 1);
    host.advance(1).await;
    assert_eq!(host.runtime().starts().len(), 2);
}

#[tokio::test]
async fn a_crash_takes_what_was_not_committed_and_nothing_else() {
    for builder in [Host::builder(), Host::builder().on_disk()] {
        let mut host = host(builder).await;
        let first = host.start_run("nightly").await;

        host.crash_at(CrashPoint::BeforeCommit);
        let lost = host.command("run.start", "workflow:nightly").send();
        host.crashed().await;
        assert!(lost.await.unwrap().is_err());
        host.restart().await;
        assert_eq!(host.view().await.runs.len(), 1);

        host.crash_at(CrashPoint::AfterCommit);
        let kept = host.command("run.start", "workflow:nightly").send();
        host.crashed().await;
        assert!(kept.await.unwrap().is_err());
        host.restart().await;
        assert_eq!(host.view().await.runs.len(), 2);
        assert_eq!(host.run_status(&first).await, RunStatus::Running);
    }
}

#[tokio::test]
async fn a_clean_stop_keeps_everything() {
    for builder in [Host::builder(), Host::builder().on_disk()] {
        let mut host = host(builder).await;
        let run = host.start_run("nightly").await;
        host.stop().await;
        host.restart().await;
        host.exit(&run, "build", 0).await;
        host.exit(&run, "ship", 0).await;
        assert_eq!(host.run_status(&run).await, RunStatus::Succeeded);
    }
}

#[tokio::test]
async fn attempts_that_end_at_once_finish_a_run_without_a_word_of_the_test() {
    let host = host(Host::builder().runtime(FakeRuntime::finishing())).await;
    let run = host.start_run("nightly").await;
    host.until_run(&run, "SUCCEEDED").await;
}
