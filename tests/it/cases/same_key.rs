//! A48: the same key while the first request is in progress waits for the first one's answer.

use signalbox::contract::directive::{Actor, Command};
use signalbox::contract::outcome::Answer;
use signalbox::core::effect::Refusal;
use signalbox::testkit::{FakeEngine, Host};
use tokio::task::JoinHandle;

use super::{chain, code, outcome, owned, start_by};
use signalbox::contract::outcome::Outcome;

async fn bed() -> (Host, FakeEngine, String) {
    let host = owned(chain()).start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    (host, engine, run)
}

fn pause(host: &Host, run: &str) -> JoinHandle<Result<Answer, Refusal>> {
    host.command("run.pause", &format!("execution:{run}"))
        .key("k-1")
        .send()
}

async fn answer(waiting: JoinHandle<Result<Answer, Refusal>>) -> Answer {
    waiting
        .await
        .expect("the caller's task goes on")
        .expect("the host answers")
}

#[tokio::test]
async fn a48_the_second_waits_for_the_first_and_gets_its_answer() {
    for verdict in ["allow", "deny"] {
        let (host, mut engine, run) = bed().await;
        let first = pause(&host, &run);
        let review = engine.next_review().await;
        host.advance(1).await;
        let second = pause(&host, &run);
        host.settled().await;
        host.advance(3_000).await;
        assert!(!first.is_finished() && !second.is_finished());

        engine.verdict(&review.id, verdict).reason("so it is").await;
        let (first, second) = (answer(first).await, answer(second).await);
        assert!(!first.replayed && second.replayed);
        assert_eq!(
            second,
            Answer {
                replayed: true,
                ..first.clone()
            }
        );
        assert_eq!(first.code.is_none(), verdict == "allow");
        let rows = |kind: &str| {
            host.audit()
                .iter()
                .filter(|row| row.kind == kind && row.op.as_deref() == Some("run.pause"))
                .count()
        };
        let kind = if verdict == "allow" {
            "command"
        } else {
            "refusal"
        };
        assert_eq!(rows(kind), 1, "one row for what was decided once");
        assert_eq!(
            host.view().await.last_review,
            1,
            "the engine was asked once"
        );

        let third = answer(pause(&host, &run)).await;
        assert_eq!(third, second, "afterwards too");
    }
}

#[tokio::test]
async fn a48_many_at_once_are_one_question_and_one_answer() {
    let (host, mut engine, run) = bed().await;
    let callers: Vec<_> = (0..32).map(|_| pause(&host, &run)).collect();
    let review = engine.next_review().await;
    engine.verdict(&review.id, "allow").await;
    let mut first = 0;
    for caller in callers {
        let answer = answer(caller).await;
        assert_eq!(outcome(&answer), Outcome::Applied);
        first += usize::from(!answer.replayed);
    }
    assert_eq!(first, 1);
    assert_eq!(host.view().await.last_review, 1);
    assert_eq!(host.run(&run).await.holds.len(), 1);
}

#[tokio::test]
async fn a48_another_command_under_the_key_of_an_open_one_is_refused_at_once() {
    let (host, mut engine, run) = bed().await;
    let first = pause(&host, &run);
    let review = engine.next_review().await;
    let other = host
        .command("run.stop", &format!("execution:{run}"))
        .key("k-1")
        .await;
    assert_eq!(code(&other), "KEY_CONFLICT");
    engine.verdict(&review.id, "allow").await;
    assert_eq!(outcome(&answer(first).await), Outcome::Applied);
    assert_ne!(host.run_status(&run).await.as_str(), "STOPPING");
}

#[tokio::test]
async fn a48_the_same_key_of_another_caller_is_another_key() {
    let (host, mut engine, run) = bed().await;
    let first = pause(&host, &run);
    let one = engine.next_review().await;
    let second = host
        .command("run.pause", &format!("execution:{run}"))
        .key("k-1")
        .by("somebody-else")
        .send();
    let two = engine.next_review().await;
    assert_ne!(one.id, two.id);
    engine.verdict(&one.id, "allow").await;
    engine.verdict(&two.id, "deny").await;
    assert_eq!(outcome(&answer(first).await), Outcome::Applied);
    assert_eq!(code(&answer(second).await), "CONTROL_REJECTED");
}

#[tokio::test]
async fn a48_the_second_may_come_after_the_host_has_died_and_come_back() {
    let (mut host, mut engine, run) = bed().await;
    let first = pause(&host, &run);
    engine.next_review().await;
    host.restart().await;
    assert!(first.await.expect("the caller's task goes on").is_err());

    let mut engine = host.engine("night").await;
    let second = pause(&host, &run);
    let review = engine.next_review().await;
    host.settled().await;
    engine.verdict(&review.id, "allow").await;
    assert_eq!(outcome(&answer(second).await), Outcome::Applied);
    let rows = host.audit();
    let rows = rows
        .iter()
        .filter(|r| r.kind == "command" && r.op.as_deref() == Some("run.pause"));
    assert_eq!(rows.count(), 1);
    assert_eq!(host.view().await.last_review, 1);
}

#[tokio::test]
async fn a48_a_caller_who_hangs_up_takes_nothing_from_the_other() {
    let (host, mut engine, run) = bed().await;
    let first = pause(&host, &run);
    let review = engine.next_review().await;
    let second = pause(&host, &run);
    host.settled().await;
    first.abort();
    assert!(first.await.is_err_and(|e| e.is_cancelled()));
    engine.verdict(&review.id, "allow").await;
    let second = answer(second).await;
    assert_eq!(outcome(&second), Outcome::Applied);
}

#[tokio::test]
async fn a48_ways_of_their_own_into_the_host_make_no_difference() {
    let (host, mut engine, run) = bed().await;
    let send = |handle: signalbox::host::HostHandle| {
        let command = Command {
            op: "run.pause".to_owned(),
            target: format!("execution:{run}"),
            args: Default::default(),
            if_status: None,
        };
        let actor = Actor {
            kind: "KEY".to_owned(),
            id: "ci".to_owned(),
        };
        tokio::spawn(async move {
            handle
                .command(actor, command, None, Some("k-1".to_owned()))
                .await
        })
    };
    let (first, second) = (send(host.handle().clone()), send(host.handle().clone()));
    let review = engine.next_review().await;
    host.settled().await;
    engine.verdict(&review.id, "allow").await;
    let (first, second) = (answer(first).await, answer(second).await);
    assert_eq!(first.targets, second.targets);
    assert_ne!(first.replayed, second.replayed);
}
