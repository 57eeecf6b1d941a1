//! Operators' commands and their reviews.

use super::*;

fn reviewed(settings: Settings) -> Host {
    let mut host = Host::new(settings);
    host.workflow(
        json!({ "id": "w", "nodes": { "a": { "run": ["true"] }, "b": { "run": ["true"] } } }),
    );
    host.supervisor(
        "s",
        &["workflow:w"],
        json!({ "operatorAccess": ["run.stop", "run.pause"] }),
    );
    host.hello("s");
    host.commands("s", "event:e-1", "run.start", "workflow:w");
    host
}

fn verdict(host: &mut Host, review: &str, verdict: &str) -> String {
    let reply = host.directs(
        "s",
        json!({ "directive": "ReviewVerdict", "answers": review, "verdict": verdict }),
    );
    code(&reply).to_owned()
}

#[test]
fn an_op_that_the_owner_does_not_open_is_controlled_by_it() {
    let mut host = reviewed(Settings::default());
    let reply = host
        .operator("run.resume", "execution:x1", json!({}))
        .unwrap();
    assert_eq!(code(&reply), "CONTROLLED_BY_SUPERVISOR");
}

#[test]
fn an_unowned_unit_is_nobodys_when_the_default_supervisor_is_off() {
    let mut host = Host::new(Settings {
        default_enabled: false,
        ..Settings::default()
    });
    host.workflow(json!({ "id": "w", "nodes": { "a": { "run": ["true"] } } }));
    let reply = host.operator("run.start", "workflow:w", json!({})).unwrap();
    assert_eq!(code(&reply), "CONTROLLED_BY_SUPERVISOR");
}

#[test]
fn an_allowed_command_is_applied_and_the_owner_sees_its_outcome() {
    let mut host = reviewed(Settings::default());
    assert_eq!(host.operator("run.pause", "execution:x1", json!({})), None);
    let asked = host.reference.next_index() - 1;
    assert!(host.seen.iter().any(|s| matches!(
        s,
        Seen::Review {
            id: 1,
            timeout_ms: 5_000,
            ..
        }
    )));
    assert_eq!(verdict(&mut host, "r-1", "allow"), "DONE");
    let reply = host.reply_to(asked).unwrap();
    assert_eq!(only(&reply).0, Outcome::Applied);
    let told = host
        .seen
        .iter()
        .filter(|s| matches!(s, Seen::Event { fields, .. } if fields.contains_key("outcome")));
    assert_eq!(told.count(), 1);
    assert_eq!(verdict(&mut host, "r-1", "deny"), "KEY_CONFLICT");
}

#[test]
fn a_denied_command_is_rejected_and_a_late_verdict_is_not_open() {
    let mut host = reviewed(Settings::default());
    host.operator("run.pause", "execution:x1", json!({}));
    let asked = host.reference.next_index() - 1;
    verdict(&mut host, "r-1", "deny");
    assert_eq!(code(&host.reply_to(asked).unwrap()), "CONTROL_REJECTED");
    host.operator("run.pause", "execution:x1", json!({}));
    host.wait(5_000);
    assert_eq!(verdict(&mut host, "r-2", "allow"), "ANSWER_NOT_OPEN");
}

#[test]
fn on_a_timeout_a_stop_is_allowed_and_anything_else_refused() {
    let mut host = reviewed(Settings::default());
    host.operator("run.pause", "execution:x1", json!({}));
    host.operator("run.stop", "execution:x1", json!({}));
    let stop = host.reference.next_index() - 1;
    host.wait(4_999);
    assert_eq!(host.reply_to(stop), None);
    host.wait(1);
    assert_eq!(code(&host.reply_to(stop - 1).unwrap()), "CONTROL_REJECTED");
    assert_eq!(only(&host.reply_to(stop).unwrap()).0, Outcome::Applied);
    assert_eq!(host.run(1), "STOPPING");
}

#[test]
fn a_command_without_effect_is_answered_without_a_review() {
    let mut host = reviewed(Settings::default());
    let reply = host
        .operator("run.stop", "execution:x1", json!({ "ifStatus": "PAUSED" }))
        .unwrap();
    assert_eq!(only(&reply).0, Outcome::PreconditionFailed);
    assert!(host.reference.state().open_reviews.is_empty());
}

#[test]
fn an_engine_that_is_gone_for_longer_than_the_timeout_is_not_asked() {
    let mut host = reviewed(Settings::default());
    host.step(Step::Disconnect {
        supervisor: "s".parse().unwrap(),
    });
    host.wait(5_000);
    assert_eq!(host.operator("run.pause", "execution:x1", json!({})), None);
    host.wait(1);
    let reply = host
        .operator("run.stop", "execution:x1", json!({}))
        .unwrap();
    assert_eq!(only(&reply).0, Outcome::Applied);
}

#[test]
fn a_repeat_waits_with_the_first_and_a_crash_forgets_who_waits_but_not_the_answer() {
    let mut host = reviewed(Settings::default());
    let pause = |host: &mut Host| {
        host.operator_as("ann", Some("k"), "run.pause", "execution:x1", json!({}))
    };
    assert_eq!((pause(&mut host), pause(&mut host)), (None, None));
    let second = host.reference.next_index() - 1;
    host.step(Step::Crash);
    assert_eq!(pause(&mut host), None);
    host.hello("s");
    assert!(
        host.seen.iter().any(
            |s| matches!(s, Seen::SessionStarted { open_reviews, .. } if *open_reviews == [1])
        )
    );
    verdict(&mut host, "r-1", "allow");
    assert_eq!(host.reply_to(second), None);
    assert!(host.reply_to(second + 2).unwrap().replayed);
    assert!(pause(&mut host).unwrap().replayed);
}

#[test]
fn the_owner_is_checked_again_when_a_review_ends() {
    let mut host = reviewed(Settings::default());
    host.operator("run.pause", "execution:x1", json!({}));
    let asked = host.reference.next_index() - 1;
    host.supervisor("s", &[], json!({}));
    verdict(&mut host, "r-1", "allow");
    assert_eq!(only(&host.reply_to(asked).unwrap()).0, Outcome::NotOwned);
}

#[test]
fn a_unit_has_one_owner() {
    let mut host = Host::new(Settings::default());
    let node = json!({ "run": ["true"], "group": "g" });
    host.workflow(json!({ "id": "w", "nodes": { "a": node } }));
    assert_eq!(
        code(&host.supervisor("s", &["group:w/g"], json!({}))),
        "DONE"
    );
    assert_eq!(
        code(&host.supervisor("t", &["node:w/a"], json!({}))),
        "OWNERSHIP_CONFLICT"
    );
    assert_eq!(
        code(&host.supervisor("t", &["workflow:w"], json!({}))),
        "DONE"
    );
}
