//! Engines' directives.

use super::*;

fn governed(fields: Value) -> Host {
    let mut host = Host::with_nodes(&[("a", &[]), ("b", &["a"])]);
    host.supervisor("s", &["workflow:w"], fields);
    host.hello("s");
    host
}

#[test]
fn a_repeat_under_its_key_gets_the_first_answer_and_anything_else_a_conflict() {
    let mut host = governed(json!({}));
    let mut start = |cause: &str, reason: &str| {
        let d = json!({ "directive": "Command", "key": "k", "op": "run.start", "target": "workflow:w",
                        "cause": cause, "reason": reason });
        host.directs("s", d)
    };
    let first = start("event:e-1", "one");
    let again = start("event:e-1", "two");
    assert!(again.replayed);
    assert_eq!(again.targets, first.targets);
    assert_eq!(code(&start("event:s-1", "one")), "KEY_CONFLICT");
    assert!(host.reference.run(2).is_none());
}

#[test]
fn a_cause_is_known_young_and_not_used_up() {
    let mut host = governed(json!({ "causeMaxAge": "5s", "maxCommandsPerEvent": 2 }));
    let mut cite =
        |cause: &str| code(&host.commands("s", cause, "run.pause", "owned.running")).to_owned();
    assert_eq!(cite("event:e-9"), "CAUSE_UNKNOWN");
    assert_eq!(cite("event:s-9"), "CAUSE_UNKNOWN");
    assert_eq!(cite("answers:r-1"), "CAUSE_UNKNOWN");
    assert_eq!(cite("tick"), "CAUSE_UNKNOWN");
    assert_eq!(cite("event:e-1"), "DONE");
    assert_eq!(cite("event:e-1"), "DONE");
    assert_eq!(cite("event:e-1"), "CAUSE_EXHAUSTED");
    assert_eq!(cite("event:s-1"), "DONE");
    host.wait(5_000);
    let late = host.commands("s", "event:s-1", "run.pause", "owned.running");
    assert_eq!(code(&late), "DONE");
    host.wait(1);
    let late = host.commands("s", "event:s-1", "run.pause", "owned.running");
    assert_eq!(code(&late), "CAUSE_EXPIRED");
}

#[test]
fn initiative_needs_a_reason_a_place_in_the_list_and_budget() {
    let mut host = governed(json!({ "initiative": ["run.pause"], "maxInitiativePerMinute": 1 }));
    let mut direct = |key: &str, op: &str, reason: &str| {
        let d = json!({ "directive": "Command", "key": key, "op": op, "target": "owned.running",
                        "cause": "initiative", "reason": reason });
        code(&host.directs("s", d)).to_owned()
    };
    assert_eq!(direct("1", "run.pause", ""), "REASON_REQUIRED");
    assert_eq!(direct("2", "run.stop", "why"), "INITIATIVE_NOT_ALLOWED");
    assert_eq!(direct("3", "run.pause", "why"), "DONE");
    assert_eq!(direct("4", "run.pause", "why"), "INITIATIVE_RATE_LIMITED");
    host.wait(60_000);
    let d = json!({ "directive": "Command", "key": "5", "op": "run.pause", "target": "owned.running",
                    "cause": "initiative", "reason": "why" });
    assert_eq!(code(&host.directs("s", d)), "DONE");
}

#[test]
fn a_flood_is_refused_by_the_message_and_forgotten_after_a_second() {
    let mut host = governed(json!({ "maxDirectivesPerSecond": 2 }));
    let send =
        |host: &mut Host| code(&host.commands("s", "event:e-1", "run.fly", "server")).to_owned();
    assert_eq!(send(&mut host), "UNKNOWN_OPERATION");
    host.wait(1);
    assert_eq!(send(&mut host), "UNKNOWN_OPERATION");
    host.wait(998);
    assert_eq!(send(&mut host), "RATE_LIMITED");
    host.wait(1_000);
    assert_eq!(send(&mut host), "UNKNOWN_OPERATION");
}

#[test]
fn a_directive_names_the_live_session_and_a_newer_hello_fences_the_older() {
    let mut host = governed(json!({}));
    host.hello("s");
    assert!(
        host.seen
            .iter()
            .any(|s| matches!(s, Seen::Goaway { session: 1, .. }))
    );
    let directive: Directive =
        serde_json::from_value(json!({ "directive": "NoOpinion", "key": "n" })).unwrap();
    let send = |host: &mut Host, session, unary| {
        let (supervisor, directive) = ("s".parse().unwrap(), directive.clone());
        host.step(Step::Directive {
            supervisor,
            session,
            unary,
            directive,
            cause_delivered: None,
        });
        code(&host.reply()).to_owned()
    };
    assert_eq!(send(&mut host, Some(1), false), "STALE_SESSION");
    assert_eq!(send(&mut host, None, true), "STALE_SESSION");
    assert_eq!(send(&mut host, Some(2), true), "DONE");
    host.step(Step::Disconnect {
        supervisor: "s".parse().unwrap(),
    });
    assert_eq!(send(&mut host, Some(2), false), "STALE_SESSION");
    assert_eq!(send(&mut host, None, true), "DONE");
}

#[test]
fn targets_are_found_then_owned_then_guarded_then_judged() {
    let mut host = governed(json!({}));
    host.supervisor("t", &["node:w/b"], json!({}));
    host.hello("t");
    host.commands("s", "event:e-1", "run.start", "workflow:w");
    let reply = host.commands("t", "event:e-1", "node.skip", "node:x1/b,a,z,x2/b");
    let outcomes: Vec<Outcome> = reply.targets.iter().map(|t| t.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Applied,
            Outcome::NotOwned,
            Outcome::NotFound,
            Outcome::NotFound
        ]
    );
    assert_eq!(
        only(&host.commands("t", "event:e-1", "run.stop", "workflow:w")).0,
        Outcome::NotOwned
    );
    let guarded = json!({ "directive": "Command", "key": "g", "op": "run.stop", "target": "execution:x1",
                          "cause": "event:e-1", "ifStatus": "PAUSED" });
    let reply = host.directs("s", guarded);
    assert_eq!(
        only(&reply),
        (Outcome::PreconditionFailed, Some("ifStatus RUNNING"))
    );
}

#[test]
fn an_engine_frees_supervisors_holds_but_no_persons() {
    let mut host = governed(json!({}));
    host.supervisor("s", &[], json!({}));
    host.operator("run.start", "workflow:w", json!({}));
    host.operator("run.pause", "execution:x1", json!({}));
    host.supervisor("s", &["workflow:w"], json!({}));
    host.commands("s", "event:s-1", "run.pause", "execution:x1");
    let reply = host.commands("s", "event:s-1", "run.resume", "execution:x1");
    assert_eq!(
        only(&reply),
        (
            Outcome::Applied,
            Some("cleared supervisor:s; STILL_HELD by person:USER:ann")
        )
    );
    let reply = host.commands("s", "event:s-1", "run.resume", "execution:x1");
    assert_eq!(
        only(&reply),
        (
            Outcome::PreconditionFailed,
            Some("STILL_HELD by person:USER:ann")
        )
    );
    let reply = host.commands("s", "event:s-1", "run.resumeHeld", "execution:x1");
    assert_eq!(only(&reply).0, Outcome::AlreadyInState);
}

#[test]
fn a_supervisor_sees_changes_but_not_the_outcomes_of_its_own_commands() {
    let mut host = governed(json!({}));
    host.commands("s", "event:e-1", "run.start", "workflow:w");
    assert_eq!(
        host.statuses("s"),
        ["QUEUED", "a READY", "RUNNING", "a RUNNING"]
    );
    let fields = host.seen.iter().find_map(|s| match s {
        Seen::Event { fields, .. } => Some(fields.clone()),
        _ => None,
    });
    assert_eq!(fields.unwrap()["actor"], "supervisor:s");
    assert!(
        !host
            .seen
            .iter()
            .any(|s| matches!(s, Seen::Event { fields, .. } if fields.contains_key("outcome")))
    );
}

#[test]
fn late_ticks_collapse_into_one() {
    let mut host = governed(json!({ "tick": "100ms" }));
    host.wait(99);
    assert!(host.seen.is_empty());
    host.wait(1);
    assert_eq!(
        host.seen,
        [Seen::Tick {
            session: 1,
            scheduled: 1_100,
            missed: 0
        }]
    );
    host.wait(350);
    assert_eq!(
        host.seen,
        [Seen::Tick {
            session: 1,
            scheduled: 1_400,
            missed: 2
        }]
    );
}
