//! P12: the cause `answers:` is accepted once, only while the request is open, only from whom it was asked.

use serde_json::json;
use signalbox::contract::outcome::Answer;
use signalbox::core::effect::Refusal;
use signalbox::testkit::{FakeEngine, Host};
use signalbox::wire::proto::v1 as pb;
use tokio::task::JoinHandle;

use super::{chain, code, night, outcome, start_by};
use signalbox::contract::outcome::Outcome;

/// A host with two supervisors, each with its engine; the first one owns the workflow.
async fn bed() -> (Host, FakeEngine, FakeEngine, String) {
    let mut other = night();
    other["id"] = "day".into();
    other["owns"] = json!(["workflow:other"]);
    let mut second = chain();
    second["id"] = "other".into();
    let host = Host::builder()
        .workflow(chain())
        .workflow(second)
        .supervisor(night())
        .supervisor(other)
        .start()
        .await;
    let mut engine = host.engine("night").await;
    let stranger = host.engine("day").await;
    let run = start_by(&mut engine, "start").await;
    (host, engine, stranger, run)
}

/// Asks for a pause, and returns the review.
async fn ask(
    host: &Host,
    engine: &mut FakeEngine,
    run: &str,
) -> (JoinHandle<Result<Answer, Refusal>>, pb::Review) {
    let waiting = host
        .command("run.pause", &format!("execution:{run}"))
        .send();
    (waiting, engine.next_review().await)
}

#[tokio::test]
async fn p12_a_verdict_is_accepted_once() {
    for (first, second) in [("allow", "deny"), ("deny", "allow"), ("allow", "allow")] {
        let (host, mut engine, _stranger, run) = bed().await;
        let (waiting, review) = ask(&host, &mut engine, &run).await;
        let done = engine.verdict(&review.id, first).await;
        assert_eq!(done.status, "DONE", "{done:?}");
        let answer = waiting.await.expect("the task goes on").expect("an answer");
        let holds = host.run(&run).await.holds.len();
        assert_eq!(holds, usize::from(first == "allow"));

        // The same again is the same answer; another one under the same key, or under a key of its own, is nothing.
        let repeat = engine.verdict(&review.id, first).await;
        assert!(repeat.replayed && repeat.status == "DONE");
        let late = engine.verdict(&review.id, second).key("k-late").await;
        assert_eq!(late.code, "ANSWER_NOT_OPEN");
        if first != second {
            let changed = engine.verdict(&review.id, second).await;
            assert_eq!(changed.code, "KEY_CONFLICT");
        }
        assert_eq!(host.run(&run).await.holds.len(), holds);
        match first {
            "allow" => assert_eq!(outcome(&answer), Outcome::Applied),
            _ => assert_eq!(code(&answer), "CONTROL_REJECTED"),
        }
    }
}

#[tokio::test]
async fn p12_only_whom_it_was_asked_may_answer() {
    let (host, mut engine, mut stranger, run) = bed().await;
    let (waiting, review) = ask(&host, &mut engine, &run).await;
    let foreign = stranger.verdict(&review.id, "allow").await;
    assert_eq!(foreign.code, "ANSWER_NOT_OPEN");
    let unknown = engine.verdict("r-999", "allow").await;
    assert_eq!(unknown.code, "ANSWER_NOT_OPEN");
    assert!(!waiting.is_finished());
    engine.verdict(&review.id, "deny").await;
    let answer = waiting.await.expect("the task goes on").expect("an answer");
    assert_eq!(code(&answer), "CONTROL_REJECTED");
}

#[tokio::test]
async fn p12_after_its_deadline_nothing_is_open_any_more() {
    let (host, mut engine, _stranger, run) = bed().await;
    let (waiting, review) = ask(&host, &mut engine, &run).await;
    host.advance(5_000).await;
    let late = engine.verdict(&review.id, "allow").await;
    assert_eq!(late.code, "ANSWER_NOT_OPEN");
    let answer = waiting.await.expect("the task goes on").expect("an answer");
    assert_eq!(code(&answer), "CONTROL_REJECTED");
    assert!(host.run(&run).await.holds.is_empty());
}

#[tokio::test]
async fn p12_an_answer_is_no_cause_of_a_command() {
    let (host, mut engine, _stranger, run) = bed().await;
    let (waiting, review) = ask(&host, &mut engine, &run).await;
    let target = format!("execution:{run}");
    let command = engine
        .command("k-1", "run.stop", &target)
        .cause(&format!("answers:{}", review.id))
        .await;
    assert_eq!(command.code, "CAUSE_UNKNOWN");
    let reserved = engine
        .command("answers:r-1", "run.stop", &target)
        .reason("with a key that is not its own")
        .await;
    assert_eq!(reserved.code, "INVALID_ARGUMENT");
    // The review itself is a good cause, while it is open and afterwards.
    let cause = format!("event:{}", review.id);
    engine.verdict(&review.id, "deny").await;
    let stop = engine
        .command("k-2", "run.stop", &target)
        .cause(&cause)
        .await;
    assert_eq!(super::outcomes(&stop), ["APPLIED"], "{stop:?}");
    let answer = waiting.await.expect("the task goes on").expect("an answer");
    assert_eq!(code(&answer), "CONTROL_REJECTED");
}

#[tokio::test]
async fn p12_a_replaced_session_answers_nothing() {
    let (host, mut engine, _stranger, run) = bed().await;
    let (waiting, review) = ask(&host, &mut engine, &run).await;
    let old = engine.session().to_owned();
    let mut newer = host.engine("night").await;
    assert_eq!(engine.goaway().await.reason, "REPLACED");
    let client = host.dial("night").await;
    let verdict = newer.verdict(&review.id, "allow").into_directive();
    let stale = client.submit(&old, verdict).await;
    assert_eq!(stale.expect("a refusal is a result").code, "STALE_SESSION");
    let again = newer.next_review().await;
    assert_eq!(again.id, review.id);
    newer.verdict(&again.id, "deny").await;
    let answer = waiting.await.expect("the task goes on").expect("an answer");
    assert_eq!(code(&answer), "CONTROL_REJECTED");
}
