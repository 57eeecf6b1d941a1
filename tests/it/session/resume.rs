//! Where a stream goes on: nothing is lost, nothing is skipped without a word.

use pb::hello::Resume;
use signalbox::testkit::hello;

use super::*;

fn after(cursor: &str) -> pb::Hello {
    pb::Hello {
        resume: Some(Resume::AfterCursor(cursor.into())),
        ..hello("night")
    }
}

fn snapshot() -> pb::Hello {
    pb::Hello {
        resume: Some(Resume::Snapshot(true)),
        ..hello("night")
    }
}

async fn connect(host: &Host, hello: pb::Hello) -> FakeEngine {
    host.dial("night")
        .await
        .begin(hello)
        .await
        .expect("a session")
}

/// Lets an engine start a run, and returns the run's id.
async fn start_run(engine: &mut FakeEngine, key: &str) -> String {
    let cause = format!("event:{}", engine.started().id);
    let start = engine
        .command(key, "run.start", "workflow:w")
        .cause(&cause)
        .await;
    start.targets[0].execution.clone()
}

/// Reads so many events: their cursors and what they say.
async fn events(engine: &mut FakeEngine, count: usize) -> Vec<pb::Event> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(engine.next_event().await.1);
    }
    events
}

fn said(events: &[pb::Event]) -> Vec<String> {
    events.iter().map(short).collect()
}

fn number(cursor: &str) -> u64 {
    cursor
        .rsplit('-')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a cursor")
}

const FIRST: [&str; 4] = ["run QUEUED", "a READY", "run RUNNING", "a RUNNING"];

#[tokio::test]
async fn events_come_in_their_order_with_dense_cursors() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let mut got = events(&mut engine, FIRST.len()).await;
    host.exit(&run, "a", 0).await;
    host.exit(&run, "b", 0).await;
    got.extend(events(&mut engine, 5).await);
    let rest = [
        "a SUCCEEDED",
        "b READY",
        "b RUNNING",
        "b SUCCEEDED",
        "run SUCCEEDED",
    ];
    assert_eq!(said(&got), [&FIRST[..], &rest[..]].concat());
    let cursors: Vec<u64> = got.iter().map(|e| number(&e.cursor)).collect();
    assert!(cursors.windows(2).all(|w| w[1] == w[0] + 1), "{cursors:?}");
    assert!(got.iter().all(|e| !e.history));
}

#[tokio::test]
async fn what_came_after_a_cursor_comes_again_as_history_and_then_news() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let seen = events(&mut engine, FIRST.len()).await;

    let mut again = connect(&host, after(&seen[1].cursor)).await;
    assert_eq!(again.started().started.cursor, seen[1].cursor);
    assert_eq!(again.started().started.as_of, seen[3].cursor);
    let redelivered = events(&mut again, 2).await;
    assert!(redelivered.iter().all(|e| e.history));
    for (again, before) in redelivered.iter().zip(&seen[2..]) {
        assert_eq!(
            (&again.cursor, short(again)),
            (&before.cursor, short(before))
        );
    }
    host.exit(&run, "a", 0).await;
    let (_, news) = again.next_event().await;
    assert!(!news.history);
    assert_eq!(short(&news), "a SUCCEEDED");
}

#[tokio::test]
async fn without_a_cursor_a_stream_goes_on_after_what_was_acknowledged() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    start_run(&mut engine, "k-1").await;
    let seen = events(&mut engine, FIRST.len()).await;
    engine.ack(&seen[0].cursor).await;
    // Of another epoch: it says nothing about this stream, and is no fault.
    engine.ack("c9-1").await;
    host.until(|d| d.supervisors.values().any(|s| s.acknowledged.is_some()))
        .await;

    let mut again = connect(&host, hello("night")).await;
    assert_eq!(again.started().started.cursor, seen[0].cursor);
    assert_eq!(said(&events(&mut again, 3).await), FIRST[1..]);
}

#[tokio::test]
async fn a_stream_that_was_never_acknowledged_begins_now() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let mut again = connect(&host, hello("night")).await;
    assert_eq!(
        again.started().started.cursor,
        again.started().started.as_of
    );
    host.exit(&run, "a", 0).await;
    assert_eq!(short(&again.next_event().await.1), "a SUCCEEDED");
}

#[tokio::test]
async fn a_snapshot_that_leaves_a_hole_says_so() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let seen = events(&mut engine, FIRST.len()).await;
    engine.ack(&seen[0].cursor).await;
    host.until(|d| d.supervisors.values().any(|s| s.acknowledged.is_some()))
        .await;

    let mut again = connect(&host, snapshot()).await;
    let (_, event) = again.next_event().await;
    assert_eq!(
        (event.kind.as_str(), event.cursor.as_str()),
        ("EventsMissed", seen[3].cursor.as_str())
    );
    let missed = event.missed.expect("a gap");
    assert_eq!(
        (missed.from_cursor.as_str(), missed.to_cursor.as_str()),
        (seen[1].cursor.as_str(), seen[3].cursor.as_str())
    );
    assert_eq!((missed.count, missed.reason.as_str()), (3, "SNAPSHOT"));
    host.exit(&run, "a", 0).await;
    assert_eq!(short(&again.next_event().await.1), "a SUCCEEDED");
}

#[tokio::test]
async fn a_cursor_that_means_nothing_here_is_a_gap_and_no_error() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let seen = events(&mut engine, FIRST.len()).await;
    let last = &seen[3].cursor;
    for cursor in ["c77-2", "c1-1000000", "rubbish", "c-1"] {
        let mut again = connect(&host, after(cursor)).await;
        assert_eq!(again.started().started.cursor, *last);
        assert_eq!(again.started().executions.len(), 1);
        let missed = again.next_event().await.1.missed.expect("a gap");
        assert_eq!((missed.reason.as_str(), &missed.to_cursor), ("EPOCH", last));
        assert!(missed.count >= 4 && !missed.summary_exact);
    }
    let mut again = connect(&host, after("c77-2")).await;
    again.next_event().await;
    host.exit(&run, "a", 0).await;
    assert_eq!(short(&again.next_event().await.1), "a SUCCEEDED");
}

#[tokio::test]
async fn kinds_that_were_not_asked_for_leave_no_trace() {
    let host = host().start().await;
    let narrow = pb::Hello {
        event_kinds: vec!["WORKFLOW_STATUS".into()],
        ..hello("night")
    };
    let mut engine = connect(&host, narrow).await;
    assert_eq!(engine.started().started.event_kinds, ["WORKFLOW_STATUS"]);
    let run = start_run(&mut engine, "k-1").await;
    host.exit(&run, "a", 0).await;
    host.exit(&run, "b", 0).await;
    let got = events(&mut engine, 3).await;
    assert_eq!(said(&got), ["run QUEUED", "run RUNNING", "run SUCCEEDED"]);
}

#[tokio::test]
async fn a_stream_goes_on_over_a_restart_of_the_host() {
    let mut host = host().start().await;
    let mut engine = host.engine("night").await;
    let run = start_run(&mut engine, "k-1").await;
    let seen = events(&mut engine, FIRST.len()).await;
    host.stop().await;
    host.restart().await;
    let mut again = connect(&host, after(&seen[2].cursor)).await;
    assert_eq!(again.started().started.reason, "resubscribe");
    let (_, event) = again.next_event().await;
    assert_eq!((short(&event).as_str(), event.history), ("a RUNNING", true));
    host.exit(&run, "a", 0).await;
    assert_eq!(short(&again.next_event().await.1), "a SUCCEEDED");
}
