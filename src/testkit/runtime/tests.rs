use super::*;

fn start(node: &str, attempt: u32) -> StartAttempt {
    StartAttempt {
        id: AttemptId {
            execution: "x1".to_owned(),
            node: node.to_owned(),
            attempt,
        },
        argv: vec!["true".to_owned()],
        env: BTreeMap::new(),
        cwd: None,
    }
}

fn host(runtime: &FakeRuntime) -> mpsc::Receiver<Report> {
    let (say, hear) = mpsc::channel();
    runtime.attach(Arc::new(move |report| {
        // A test that has heard enough hangs up.
        let _ = say.send(report);
    }));
    hear
}

#[tokio::test]
async fn an_attempt_ends_when_the_test_says_so_and_the_host_is_told_once() {
    let runtime = FakeRuntime::new();
    let reports = host(&runtime);
    runtime.start(start("a", 1));
    assert_eq!(runtime.next_start().await, start("a", 1));
    runtime.exit("x1", "a", 3).await;
    assert_eq!(
        reports.try_recv(),
        Ok(exited(&start("a", 1).id, Exit::Code(3)))
    );
    assert!(reports.try_recv().is_err());
    assert!(runtime.running().is_empty());
}

#[tokio::test]
async fn a_second_start_of_the_same_attempt_starts_nothing() {
    let runtime = FakeRuntime::new();
    runtime.start(start("a", 1));
    runtime.start(start("a", 1));
    assert_eq!(runtime.starts().len(), 1);
}

#[tokio::test]
async fn what_ended_while_no_host_was_there_is_told_to_the_next_one() {
    let runtime = FakeRuntime::new();
    let first = host(&runtime);
    runtime.start(start("a", 1));
    runtime.start(start("b", 1));
    runtime.detach();
    runtime.exit("x1", "a", 0).await;
    assert!(first.try_recv().is_err());

    let second = host(&runtime);
    // The journal of the second host knows nothing of b, and of an attempt that never began.
    runtime.recover(vec![start("a", 1), start("c", 1)]);
    assert_eq!(
        second.recv_timeout(super::super::PATIENCE),
        Ok(exited(&start("a", 1).id, Exit::Code(0)))
    );
    assert_eq!(runtime.orphans(), [start("b", 1).id]);
    assert_eq!(runtime.running(), [start("c", 1).id]);
}

#[tokio::test]
async fn a_kill_ends_an_attempt_and_a_polite_signal_is_ignored() {
    let runtime = FakeRuntime::new();
    let reports = host(&runtime);
    runtime.start(start("a", 1));
    runtime.stop(&start("a", 1).id, StopSignal::Terminate);
    assert_eq!(runtime.running(), [start("a", 1).id]);
    runtime.stop(&start("a", 1).id, StopSignal::Kill);
    assert_eq!(
        reports.recv_timeout(super::super::PATIENCE),
        Ok(exited(&start("a", 1).id, Exit::Signal(9)))
    );
}
