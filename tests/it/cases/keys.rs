//! A62 and A63: a key stands for one thing, and for one effect of it.

use signalbox::testkit::{EngineClient, FakeEngine, Host, command_directive};
use signalbox::wire::proto::v1 as pb;

use super::{chain, code, night, outcome, outcomes, owned, start_by};
use signalbox::contract::outcome::Outcome;

async fn bed() -> (Host, FakeEngine, String) {
    let host = owned(chain()).start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    (host, engine, run)
}

/// A command at the engine's own initiative.
fn directive(key: &str, op: &str, target: &str) -> pb::Directive {
    pb::Directive {
        reason: "the test says so".to_owned(),
        ..command_directive(key, op, target)
    }
}

async fn never_stopped(host: &Host, run: &str) {
    let status = host.run_status(run).await;
    assert!(
        ["PAUSING", "PAUSED"].contains(&status.as_str()),
        "the run is {}",
        status.as_str()
    );
}

#[tokio::test]
async fn a62_a_key_that_paused_a_run_stops_nothing_by_whatever_way_it_comes() {
    let (mut host, mut engine, run) = bed().await;
    let target = format!("execution:{run}");
    let paused = engine
        .directive(directive("k-1", "run.pause", &target))
        .await;
    assert_eq!(outcomes(&paused), ["APPLIED"]);
    let stop = directive("k-1", "run.stop", &target);

    // On the same stream.
    let again = engine.directive(stop.clone()).await;
    assert_eq!(again.code, "KEY_CONFLICT");
    never_stopped(&host, &run).await;

    // By a unary call, on a connection of its own.
    let session = engine.session().to_owned();
    let client = host.dial("night").await;
    let again = client.submit(&session, stop.clone()).await;
    assert_eq!(again.expect("a refusal is a result").code, "KEY_CONFLICT");
    never_stopped(&host, &run).await;

    // After a reconnect.
    let mut engine = host.engine("night").await;
    let again = engine.directive(stop.clone()).await;
    assert_eq!(again.code, "KEY_CONFLICT");
    never_stopped(&host, &run).await;

    // After the host has died.
    host.restart().await;
    let mut engine = host.engine("night").await;
    let again = engine.directive(stop).await;
    assert_eq!(again.code, "KEY_CONFLICT");
    never_stopped(&host, &run).await;

    // What it stands for, it still stands for.
    let first = engine
        .directive(directive("k-1", "run.pause", &target))
        .await;
    assert!(first.replayed);
    assert_eq!(outcomes(&first), ["APPLIED"]);
}

#[tokio::test]
async fn a62_everything_but_the_reason_belongs_to_what_a_key_stands_for() {
    let (host, mut engine, run) = bed().await;
    let target = format!("execution:{run}");
    let first = directive("k-1", "run.pause", &target);
    engine.directive(first.clone()).await;

    let mut other_reason = first.clone();
    other_reason.reason = "for another reason".to_owned();
    let result = engine.directive(other_reason).await;
    assert!(result.replayed && result.status == "DONE", "{result:?}");

    let mut other_cause = first.clone();
    other_cause.cause = format!("event:{}", engine.started().id);
    let guarded = engine
        .directive(first.clone())
        .if_status("RUNNING")
        .into_directive();
    let other_target = directive("k-1", "run.pause", "workflow:w");
    for other in [other_cause, guarded, other_target] {
        let result = engine.directive(other.clone()).await;
        assert_eq!(result.code, "KEY_CONFLICT", "{other:?}");
    }
    assert_eq!(host.run(&run).await.holds.len(), 1);
}

#[tokio::test]
async fn a62_a_refused_command_keeps_its_key_unless_the_refusal_is_transient() {
    let mut supervisor = night();
    supervisor["allowedCommands"] = serde_json::json!(["run.start", "run.pause"]);
    supervisor["initiative"] = serde_json::json!(["run.start", "run.pause"]);
    let host = Host::builder()
        .workflow(chain())
        .supervisor(supervisor)
        .start()
        .await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    let target = format!("execution:{run}");

    let refused = engine
        .directive(directive("k-1", "run.stop", &target))
        .await;
    assert_eq!(refused.code, "INITIATIVE_NOT_ALLOWED");
    let conflict = engine
        .directive(directive("k-1", "run.pause", &target))
        .await;
    assert_eq!(conflict.code, "KEY_CONFLICT");

    let malformed = engine
        .directive(directive("k-2", "run.pause", "execution:"))
        .await;
    assert_eq!(malformed.code, "INVALID_ARGUMENT");
    let good = engine
        .directive(directive("k-2", "run.pause", &target))
        .await;
    assert_eq!(outcomes(&good), ["APPLIED"], "{good:?}");
}

#[tokio::test]
async fn a62_operators_keys_are_theirs_alone() {
    let host = super::free(chain()).start().await;
    let run = host.start_run("w").await;
    let target = format!("execution:{run}");
    let pause = host.command("run.pause", &target).key("k-1").await;
    assert_eq!(outcome(&pause), Outcome::Applied);
    let stop = host.command("run.stop", &target).key("k-1").await;
    assert_eq!(code(&stop), "KEY_CONFLICT");
    never_stopped(&host, &run).await;
    let other = host
        .command("run.stop", &target)
        .key("k-1")
        .by("somebody-else")
        .await;
    assert_eq!(outcome(&other), Outcome::Applied);
}

/// Sends the same start 64 times over 8 connections at once.
async fn sixty_four(
    host: &Host,
    session: &str,
    directive: pb::Directive,
) -> Vec<pb::DirectiveResult> {
    let mut calls = Vec::new();
    for _ in 0..8 {
        let client: EngineClient = host.dial("night").await;
        for _ in 0..8 {
            let (client, session, directive) =
                (client.clone(), session.to_owned(), directive.clone());
            calls.push(tokio::spawn(async move {
                client.submit(&session, directive).await
            }));
        }
    }
    let mut results = Vec::new();
    for call in calls {
        let result = call.await.expect("the caller's task goes on");
        results.push(result.expect("a unary call is answered"));
    }
    results
}

/// Sees that one of the answers is the first and all others are the same again.
fn assert_one_answer(results: &[pb::DirectiveResult]) {
    let first: Vec<_> = results.iter().filter(|r| !r.replayed).collect();
    assert_eq!(first.len(), 1, "one of them was the first");
    for result in results {
        let mut same = result.clone();
        same.replayed = false;
        same.r#ref = first[0].r#ref;
        assert_eq!(&same, first[0]);
    }
    assert_eq!(outcomes(first[0]), ["APPLIED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_sixty_four_starts_with_one_key_over_eight_connections_are_one_run() {
    let host = owned(chain()).start().await;
    let engine = host.engine("night").await;
    let start = directive("k-1", "run.start", "workflow:w");
    let results = sixty_four(&host, engine.session(), start).await;
    assert_eq!(results.len(), 64);
    assert_one_answer(&results);
    assert_eq!(host.view().await.runs.len(), 1);
    let audit = host.audit();
    let rows = audit
        .iter()
        .filter(|r| r.kind == "command" && r.op.as_deref() == Some("run.start"));
    assert_eq!(rows.count(), 1, "one row for one effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_on_one_stream_and_by_unary_calls_at_once_they_are_one_run_too() {
    let host = owned(chain()).start().await;
    let mut engine = host.engine("night").await;
    let start = directive("k-1", "run.start", "workflow:w");
    let session = engine.session().to_owned();
    let (references, mut results) = tokio::join!(
        engine.flood(vec![start.clone(); 64]),
        sixty_four(&host, &session, start)
    );
    for reference in references {
        results.push(engine.result(reference).await);
    }
    assert_eq!(results.len(), 128);
    assert_one_answer(&results);
    assert_eq!(host.view().await.runs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_a_crash_in_the_middle_makes_no_second_run() {
    use signalbox::testkit::CrashPoint;
    for point in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        let mut host = owned(chain()).start().await;
        let engine = host.engine("night").await;
        let client = host.dial("night").await;
        let start = directive("k-1", "run.start", "workflow:w");
        host.crash_at(point);
        let lost = client.submit(engine.session(), start.clone()).await;
        assert!(
            lost.map_or(true, |result| result.code == "UNAVAILABLE"),
            "a host that dies promises nothing"
        );
        host.crashed().await;
        host.restart().await;
        let engine = host.engine("night").await;
        let results = sixty_four(&host, engine.session(), start).await;
        assert_eq!(host.view().await.runs.len(), 1);
        let first = results.iter().filter(|r| !r.replayed).count();
        let expected = usize::from(point == CrashPoint::BeforeCommit);
        assert_eq!(first, expected, "{point:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_sixty_four_starts_of_an_operator_with_one_key_are_one_run() {
    let host = super::free(chain()).start().await;
    let calls: Vec<_> = (0..64)
        .map(|_| host.command("run.start", "workflow:w").key("k-1").send())
        .collect();
    let mut targets = Vec::new();
    for call in calls {
        let answer = call
            .await
            .expect("the caller's task goes on")
            .expect("the host answers");
        targets.push(answer.targets);
    }
    assert!(targets.iter().all(|t| *t == targets[0]));
    assert_eq!(host.view().await.runs.len(), 1);
}
