//! Engines that do not read: they cost little, and hold up nobody.

use super::*;

#[tokio::test]
async fn an_engine_that_does_not_read_has_what_it_sent_decided_all_the_same() {
    let host = host().start().await;
    let mut deaf = host.engine("night").await;
    let sent = deaf
        .flood((0..200).map(|n| notify(&format!("k-{n}"))))
        .await;
    host.until(|d| d.supervisors.values().any(|s| s.keys.len() >= 60))
        .await;
    for reference in sent {
        let result = deaf.result(reference).await;
        assert!(
            matches!(result.status.as_str(), "DONE" | "REFUSED"),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn an_engine_that_does_not_read_is_not_read_without_end_and_delays_nobody() {
    let host = host().start().await;
    let mut deaf = host.engine("night").await;
    let flood = async {
        let mut n = 0u64;
        loop {
            let mut directive =
                signalbox::testkit::command_directive(&format!("k-{n}"), "node.retry", "node:x1/a");
            directive.cause = "initiative".into();
            directive.reason = "x".repeat(1_000);
            let frame = pb::connect_request::Body::Directive(directive);
            // Ends when nothing was taken for two seconds: the host has stopped reading.
            if tokio::time::timeout(Duration::from_secs(2), deaf.wire().send(frame))
                .await
                .is_err()
            {
                return n;
            }
            n += 1;
        }
    };
    let mut other = host.engine("day").await;
    let answered = async {
        for n in 0..20 {
            let result = other.directive(notify(&format!("d-{n}"))).await;
            assert_eq!(result.status, "DONE");
        }
    };
    let (sent, ()) = tokio::join!(flood, patience("another engine's answers", answered));
    assert!(sent >= 256, "{sent} were taken");
}

#[tokio::test]
async fn an_engine_that_reads_late_gets_everything_in_order() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let cause = format!("event:{}", engine.started().id);
    for n in 0..150 {
        let mut start =
            signalbox::testkit::command_directive(&format!("k-{n}"), "run.start", "workflow:w");
        start.cause.clone_from(&cause);
        engine.directive(start).send().await;
    }
    host.until(|d| d.runs.len() == 150).await;
    let mut last = 0;
    // Every run says that it waits and that its first node could start.
    for _ in 0..300 {
        let (_, event) = engine.next_event().await;
        let number: u64 = event
            .cursor
            .rsplit('-')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a cursor");
        assert!(last == 0 || number == last + 1, "{number} after {last}");
        last = number;
    }
}
