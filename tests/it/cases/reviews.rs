//! A11 and A24: engines that are gone, silent or out of order hold up no operator.

use std::time::Duration;

use signalbox::contract::outcome::{Answer, ResultStatus};
use signalbox::core::effect::Refusal;
use signalbox::testkit::{FakeEngine, Host, hello};
use tokio::task::JoinHandle;

use super::{chain, code, night, outcome, owned, start_by};
use signalbox::contract::outcome::Outcome;

type Waiting = JoinHandle<Result<Answer, Refusal>>;

/// How soon a closed connection must be noticed.
const SOON: Duration = Duration::from_secs(1);

/// A host, its engine, and a run.
async fn bed() -> (Host, FakeEngine, String) {
    let host = owned(chain()).start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    (host, engine, run)
}

/// Sends an operator's command and waits until its review is open.
async fn asked(host: &Host, op: &str, run: &str) -> Waiting {
    let before = host.view().await.last_review;
    let waiting = host.command(op, &format!("execution:{run}")).send();
    host.until(|view| view.last_review == before + 1).await;
    waiting
}

async fn open_reviews(host: &Host) -> usize {
    let view = host.view().await;
    view.reviews.values().filter(|r| r.end.is_none()).count()
}

async fn answer(waiting: Waiting) -> Answer {
    waiting
        .await
        .expect("the caller's task goes on")
        .expect("the host answers")
}

async fn applied(waiting: Waiting) {
    let answer = answer(waiting).await;
    assert_eq!(outcome(&answer), Outcome::Applied, "{answer:?}");
}

async fn refused_by_timeout(waiting: Waiting) {
    let answer = answer(waiting).await;
    assert_eq!(code(&answer), "CONTROL_REJECTED");
    assert_eq!(answer.code.expect("a refusal").http_status(), 403);
    assert!(
        answer
            .message
            .expect("a refusal says why")
            .starts_with("timeout")
    );
}

#[tokio::test]
async fn a11_a_closed_connection_is_offline_at_once_and_open_reviews_end_by_their_own_deadlines() {
    let (host, mut engine, run) = bed().await;
    let pause = asked(&host, "run.pause", &run).await;
    engine.next_review().await;
    host.advance(1_000).await;
    let stop = asked(&host, "run.stop", &run).await;
    engine.next_review().await;
    host.advance(1_000).await;

    engine.kill();
    tokio::time::timeout(SOON, host.until_offline("night"))
        .await
        .expect("a closed connection is noticed within a second");
    assert_eq!(
        open_reviews(&host).await,
        2,
        "the loss itself decides nothing"
    );

    host.advance(2_999).await;
    assert_eq!(open_reviews(&host).await, 2);
    host.advance(1).await;
    assert_eq!(open_reviews(&host).await, 1);
    refused_by_timeout(pause).await;
    assert_eq!(host.run_status(&run).await.as_str(), "RUNNING");
    host.advance(999).await;
    assert_eq!(open_reviews(&host).await, 1);
    host.advance(1).await;
    applied(stop).await;
}

#[tokio::test]
async fn a11_an_engine_that_comes_back_is_asked_again_with_the_time_that_is_left() {
    let (host, mut engine, run) = bed().await;
    let pause = asked(&host, "run.pause", &run).await;
    let first = engine.next_review().await;
    assert_eq!(first.timeout_ms, 5_000);
    engine.kill();
    host.until_offline("night").await;
    host.advance(3_000).await;

    let mut engine = host.engine("night").await;
    let again = engine.next_review().await;
    assert_eq!((&again.id, again.timeout_ms), (&first.id, 2_000));
    engine.verdict(&again.id, "allow").await;
    applied(pause).await;
}

#[tokio::test]
async fn a11_a_half_closed_stream_is_not_offline() {
    let (host, mut engine, run) = bed().await;
    engine.half_close();
    let pause = asked(&host, "run.pause", &run).await;
    let review = engine.next_review().await;
    let client = host.dial("night").await;
    let session = engine.session().to_owned();
    let verdict = engine.verdict(&review.id, "allow").into_directive();
    let result = client
        .submit(&session, verdict)
        .await
        .expect("a verdict may come by a unary call");
    assert_eq!(result.status, "DONE", "{result:?}");
    applied(pause).await;
    assert!(host.engine_status("night").is_some_and(|s| s.connected));
}

#[tokio::test]
async fn a11_nobody_waits_for_an_engine_that_has_been_gone_for_longer_than_the_review_timeout() {
    let (host, engine, run) = bed().await;
    engine.kill();
    host.until_offline("night").await;
    host.advance(5_001).await;
    let pause = host.command("run.pause", &format!("execution:{run}")).await;
    assert_eq!(code(&pause), "CONTROL_REJECTED");
    let stop = host.command("run.stop", &format!("execution:{run}")).await;
    assert_eq!(outcome(&stop), Outcome::Applied);
    assert_eq!(host.view().await.last_review, 0, "nobody was asked");
}

/// Asks for a stop and a pause, lets the time pass, and sees each end after five seconds and not before.
async fn dead_for_five_seconds(host: &Host, run: &str) {
    let pause = asked(host, "run.pause", run).await;
    let stop = asked(host, "run.stop", run).await;
    host.advance(4_999).await;
    assert_eq!(open_reviews(host).await, 2);
    host.advance(1).await;
    assert_eq!(open_reviews(host).await, 0);
    refused_by_timeout(pause).await;
    applied(stop).await;
    let verdicts: Vec<_> = host
        .audit()
        .into_iter()
        .filter(|row| row.kind == "verdict")
        .collect();
    assert_eq!(verdicts.len(), 2);
    assert!(
        verdicts
            .iter()
            .all(|row| row.channel == "SYSTEM" && row.outcome.as_deref() == Some("timeout")),
        "the audit says why: {verdicts:?}"
    );
}

#[tokio::test]
async fn a24_a_dead_engine_that_keeps_its_connection_lets_a_stop_pass_after_five_seconds() {
    let (host, engine, run) = bed().await;
    dead_for_five_seconds(&host, &run).await;
    drop(engine);
}

#[tokio::test]
async fn a24_an_engine_that_has_just_gone_lets_a_stop_pass_after_five_seconds() {
    let (host, engine, run) = bed().await;
    engine.kill();
    host.until_offline("night").await;
    dead_for_five_seconds(&host, &run).await;
}

#[tokio::test]
async fn a24_the_deadline_is_the_same_when_the_host_dies_in_the_middle() {
    let (mut host, mut engine, run) = bed().await;
    let pause = asked(&host, "run.pause", &run).await;
    let stop = asked(&host, "run.stop", &run).await;
    engine.next_review().await;
    host.advance(2_000).await;
    host.restart().await;
    assert!(pause.await.expect("the caller's task goes on").is_err());
    assert!(stop.await.expect("the caller's task goes on").is_err());
    assert_eq!(open_reviews(&host).await, 2);
    host.advance(2_999).await;
    assert_eq!(open_reviews(&host).await, 2);
    host.advance(1).await;
    assert_eq!(open_reviews(&host).await, 0);
    assert_eq!(host.run_status(&run).await.as_str(), "STOPPING");
}

#[tokio::test]
async fn a24_a_deadline_that_passes_while_the_host_is_down_is_decided_when_it_opens() {
    let (mut host, mut engine, run) = bed().await;
    let _stop = asked(&host, "run.stop", &run).await;
    engine.next_review().await;
    host.crash().await;
    host.clock().advance(60_000);
    host.restart().await;
    assert_eq!(open_reviews(&host).await, 0);
    assert_eq!(host.run_status(&run).await.as_str(), "STOPPING");
}

#[tokio::test]
async fn a24_each_command_but_a_stop_is_refused() {
    let (host, engine, run) = bed().await;
    host.exit(&run, "a", 1).await;
    host.until_run(&run, "FAILED").await;
    let live = host.engine("night").await;
    drop((engine, live));
    host.until_offline("night").await;
    for (op, target) in [
        ("run.start", "workflow:w".to_owned()),
        ("node.retry", format!("node:{run}/a")),
        ("node.skip", format!("node:{run}/a")),
    ] {
        let waiting = host.command(op, &target).send();
        host.until(|view| view.reviews.values().any(|r| r.end.is_none()))
            .await;
        host.advance(5_000).await;
        refused_by_timeout(waiting).await;
        // The next one is asked too: the engine counts as gone only since now.
        let back = host.engine("night").await;
        drop(back);
        host.until_offline("night").await;
    }
    assert_eq!(host.run_status(&run).await.as_str(), "FAILED");
}

#[tokio::test]
async fn a24_an_engine_that_has_no_opinion_is_as_one_that_is_silent_but_at_once() {
    let (host, mut engine, run) = bed().await;
    let pause = asked(&host, "run.pause", &run).await;
    let review = engine.next_review().await;
    engine.no_opinion(&review.id).await;
    refused_by_timeout(pause).await;

    let pause = asked(&host, "run.pause", &run).await;
    let review = engine.next_review().await;
    engine.fault(&review.id, "out of order").await;
    refused_by_timeout(pause).await;

    // An engine that failed is let go, and has to wait a little before it comes back.
    engine.ended().await;
    host.advance(1_000).await;
    let mut quiet = hello("night");
    quiet.signals = vec!["Event".to_owned()];
    let quiet = host.dial("night").await.begin(quiet).await;
    let quiet = quiet.expect("an engine need not take reviews");
    let stop = host.command("run.stop", &format!("execution:{run}")).await;
    assert_eq!(outcome(&stop), Outcome::Applied);
    drop(quiet);
}

#[tokio::test]
async fn a24_a_definition_may_name_another_time() {
    let mut supervisor = night();
    supervisor["reviewTimeout"] = "300ms".into();
    let host = Host::builder()
        .workflow(chain())
        .supervisor(supervisor)
        .start()
        .await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    let stop = asked(&host, "run.stop", &run).await;
    assert_eq!(engine.next_review().await.timeout_ms, 300);
    host.advance(299).await;
    assert_eq!(open_reviews(&host).await, 1);
    host.advance(1).await;
    let answer = answer(stop).await;
    assert_eq!(answer.status, ResultStatus::Done);
}
