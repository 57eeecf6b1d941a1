//! What the wire promises: nothing is lost, defaulted or let through on its way between bytes and vocabulary.

use prost::Message as _;
use serde_json::{Value, json};
use tonic_types::StatusExt as _;

use super::directive::{receive, refusal, result};
use super::frame::Frame;
use super::hello::{BadHello, Hello, Resume};
use super::proto::v1 as pb;
use super::signal::signal;
use super::{Malformed, status, strict, value};
use crate::contract::code::Code;
use crate::contract::directive::{Actor, Body, Command, Directive};
use crate::contract::outcome::{Answer, Outcome, TargetResult};
use crate::contract::signal::{Event, EventKind, Signal};

fn raw(body: pb::directive::Body) -> pb::Directive {
    pb::Directive {
        r#ref: 7,
        key: "k-1".into(),
        cause: "event:e-1".into(),
        reason: String::new(),
        dry_run: false,
        body: Some(body),
    }
}

fn command(args: &Value) -> pb::directive::Body {
    pb::directive::Body::Command(pb::Command {
        op: "run.stop".into(),
        target: "execution:x1".into(),
        args: args.as_object().map(value::to_struct),
        if_status: String::new(),
    })
}

fn field_of(raw: pb::Directive) -> String {
    receive(raw).1.expect_err("malformed").field
}

#[test]
fn a_command_comes_out_equal_to_its_json_form() {
    let mut sent = raw(command(&json!({"mode": "immediate", "graceMs": 10_000})));
    sent.reason = "enough".into();
    let (label, got) = receive(sent);
    let from_json: Directive = serde_json::from_value(json!({
        "directive": "Command", "key": "k-1", "op": "run.stop", "target": "execution:x1",
        "args": {"mode": "immediate", "graceMs": 10_000}, "cause": "event:e-1", "reason": "enough"
    }))
    .expect("a directive");
    assert_eq!(got, Ok(from_json));
    assert_eq!(
        (label.reference, label.key.as_str(), label.starts),
        (7, "k-1", false)
    );
}

#[test]
fn json_values_survive_the_wire_and_whole_numbers_stay_whole() {
    let sent =
        json!({"a": [1, -2, 0.5, true, null, "x"], "b": {"c": 9_007_199_254_740_992_u64, "d": {}}});
    let wire = value::to_struct(sent.as_object().expect("an object"));
    let got = Value::Object(value::fields(wire, "args").expect("values"));
    assert_eq!(got, sent);
    assert!(got["a"][0].is_i64());
}

#[test]
fn a_value_without_a_kind_and_one_that_is_no_number_are_named() {
    let mut args = value::to_struct(json!({"a": {"b": [1]}}).as_object().expect("an object"));
    let deep = |kind| {
        let mut fields = std::collections::BTreeMap::new();
        fields.insert("b".to_owned(), prost_types::Value { kind });
        prost_types::Struct { fields }
    };
    for kind in [None, Some(prost_types::value::Kind::NumberValue(f64::NAN))] {
        let inner = prost_types::value::Kind::StructValue(deep(kind));
        args.fields
            .insert("a".into(), prost_types::Value { kind: Some(inner) });
        let error = value::fields(args.clone(), "args").expect_err("malformed");
        assert_eq!(error.field, "args.a.b");
    }
}

#[test]
fn what_is_missing_or_unspecified_is_an_error_that_names_the_field() {
    use pb::directive::Body as Wire;
    let mut empty = raw(command(&json!({})));
    empty.body = None;
    assert_eq!(field_of(empty), "directive.body");
    for number in [0, 99] {
        let verdict = pb::ReviewVerdict {
            answers: "r-1".into(),
            verdict: number,
            reason: String::new(),
        };
        assert_eq!(
            field_of(raw(Wire::ReviewVerdict(verdict))),
            "directive.review_verdict.verdict"
        );
    }
    let answer = pb::DelegationAnswer {
        answers: "d-1".into(),
        answer: None,
        reason: String::new(),
    };
    assert_eq!(
        field_of(raw(Wire::DelegationAnswer(answer))),
        "directive.delegation_answer.answer"
    );
    assert_eq!(
        Frame::from(pb::ConnectRequest { body: None }),
        Frame::Unknown
    );
}

#[test]
fn two_reasons_that_differ_are_refused_and_equal_ones_are_one() {
    let verdict = |outer: &str, own: &str| {
        let body = pb::ReviewVerdict {
            answers: "r-1".into(),
            verdict: 2,
            reason: own.into(),
        };
        let mut raw = raw(pb::directive::Body::ReviewVerdict(body));
        raw.reason = outer.into();
        receive(raw).1.map(|d| d.reason)
    };
    assert_eq!(verdict("", "no"), Ok(Some("no".into())));
    assert_eq!(verdict("no", ""), Ok(Some("no".into())));
    assert_eq!(verdict("no", "no"), Ok(Some("no".into())));
    assert_eq!(
        verdict("no", "never").expect_err("differ").field,
        "directive.review_verdict.reason"
    );
}

#[test]
fn the_result_of_a_verdict_without_a_key_carries_the_default_one() {
    let body = pb::ReviewVerdict {
        answers: "r-1".into(),
        verdict: 1,
        reason: String::new(),
    };
    let mut raw = raw(pb::directive::Body::ReviewVerdict(body));
    raw.key = String::new();
    let (label, directive) = receive(raw);
    assert_eq!(label.key, "answers:r-1");
    let body = Body::ReviewVerdict {
        answers: "r-1".into(),
        verdict: "allow".into(),
    };
    assert_eq!(directive.expect("a directive").body, body);
}

#[test]
fn a_result_says_what_the_answer_says() {
    let (label, _) = receive(raw(pb::directive::Body::Command(pb::Command {
        op: "run.start".into(),
        target: "workflow:w".into(),
        args: None,
        if_status: String::new(),
    })));
    let target = |target: &str, outcome, detail: &str| TargetResult {
        target: target.into(),
        outcome,
        detail: Some(detail.to_owned()).filter(|d| !d.is_empty()),
        order: (outcome == Outcome::Applied).then_some(3),
    };
    let answer = Answer {
        matched: Some(300),
        ..Answer::done(vec![
            target("execution:x9", Outcome::Applied, ""),
            target("execution:x2", Outcome::PreconditionFailed, "state STOPPED"),
            target(
                "execution:x3",
                Outcome::Applied,
                "cleared supervisor:a, SYSTEM; STILL_HELD by person:KEY:b",
            ),
        ])
    };
    let got = result(label, answer, true);
    assert_eq!(
        (got.r#ref, got.key.as_str(), got.status.as_str()),
        (7, "k-1", "DONE")
    );
    assert_eq!(
        (got.matched, got.truncated, got.durable),
        (Some(300), true, true)
    );
    assert_eq!(got.targets[0].execution, "x9");
    assert_eq!(got.targets[0].order, 3);
    assert_eq!(got.targets[1].status, "STOPPED");
    assert_eq!(got.targets[2].cleared, ["supervisor:a", "SYSTEM"]);
}

#[test]
fn only_transient_refusals_say_when_to_come_back() {
    for code in Code::ALL {
        let got = result(
            Default::default(),
            Answer::refused(*code, "check", "why"),
            true,
        );
        assert!(
            got.retry_after_ms.is_none() || code.is_transient(),
            "{code}"
        );
    }
    let got = result(
        Default::default(),
        Answer::refused(Code::RateLimited, "flood", "why"),
        true,
    );
    assert_eq!(
        (got.code.as_str(), got.check.as_str(), got.retry_after_ms),
        ("RATE_LIMITED", "flood", Some(1_000))
    );
}

/// A field that no message of the contract has: number 999, a varint.
const STRANGER: [u8; 3] = [0xb8, 0x3e, 1];

/// Puts a length-delimited field around bytes.
fn wrap(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![(number << 3) | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut out);
    out.extend_from_slice(inner);
    out
}

fn strictly(bytes: &[u8]) -> pb::ConnectRequest {
    let mut frame = pb::ConnectRequest::decode(bytes).expect("a frame");
    strict::check_frame(&mut frame, bytes);
    frame
}

fn refused_field(frame: pb::ConnectRequest) -> Option<String> {
    match Frame::from(frame) {
        Frame::Directive(_, directive) => directive.err().map(|m| m.field),
        other => panic!("not a directive: {other:?}"),
    }
}

#[test]
fn a_field_that_the_host_does_not_know_is_refused_by_its_place() {
    let known = raw(command(
        &json!({"mode": "drain", "deep": {"list": [1, {"x": null}]}}),
    ));
    assert_eq!(
        refused_field(strictly(&wrap(2, &known.encode_to_vec()))),
        None
    );

    let outer = [known.encode_to_vec(), STRANGER.to_vec()].concat();
    assert_eq!(
        refused_field(strictly(&wrap(2, &outer))).as_deref(),
        Some("directive.999")
    );

    let inner = [pb::Command::default().encode_to_vec(), STRANGER.to_vec()].concat();
    let directive = wrap(6, &inner);
    assert_eq!(
        refused_field(strictly(&wrap(2, &directive))).as_deref(),
        Some("directive.command.999")
    );

    let value = [
        prost_types::Struct::default().encode_to_vec(),
        STRANGER.to_vec(),
    ]
    .concat();
    let directive = wrap(6, &wrap(3, &value));
    assert_eq!(
        refused_field(strictly(&wrap(2, &directive))).as_deref(),
        Some("directive.command.args.999")
    );
}

#[test]
fn the_number_and_key_of_a_refused_directive_stay_for_its_result() {
    let bytes = [raw(command(&json!({}))).encode_to_vec(), STRANGER.to_vec()].concat();
    let Frame::Directive(label, Err(malformed)) = Frame::from(strictly(&wrap(2, &bytes))) else {
        panic!("it was let through");
    };
    let got = result(label, refusal(&malformed), true);
    assert_eq!(
        (got.r#ref, got.key.as_str(), got.code.as_str()),
        (7, "k-1", "INVALID_ARGUMENT")
    );
    assert!(got.message.contains("directive.999"), "{}", got.message);
}

#[test]
fn a_call_with_an_unknown_field_is_refused_too() {
    let directive = [raw(command(&json!({}))).encode_to_vec(), STRANGER.to_vec()].concat();
    let bytes = wrap(2, &directive);
    let mut call = pb::SubmitDirectiveRequest::decode(bytes.as_slice()).expect("a call");
    strict::check_submit(&mut call, &bytes);
    assert_eq!(
        field_of(call.directive.expect("a directive")),
        "directive.999"
    );
}

fn hello() -> pb::Hello {
    pb::Hello {
        supervisor: "pipeline".into(),
        engine: Some(pb::EngineInfo {
            name: "test".into(),
            ..Default::default()
        }),
        contract_version: 1,
        ..Default::default()
    }
}

#[test]
fn a_hello_of_another_version_is_told_so_before_anything_else() {
    let other = pb::Hello {
        contract_version: 2,
        supervisor: "?".into(),
        ..hello()
    };
    assert_eq!(Hello::try_from(other), Err(BadHello::Version(2)));
}

#[test]
fn what_a_hello_names_wrongly_is_named() {
    let field = |raw: pb::Hello| match Hello::try_from(raw) {
        Err(BadHello::Malformed(Malformed { field, .. })) => field,
        other => panic!("accepted: {other:?}"),
    };
    assert_eq!(
        field(pb::Hello {
            supervisor: "a b".into(),
            ..hello()
        }),
        "hello.supervisor"
    );
    assert_eq!(
        field(pb::Hello {
            engine: None,
            ..hello()
        }),
        "hello.engine.name"
    );
    assert_eq!(
        field(pb::Hello {
            tick_period_ms: 99,
            ..hello()
        }),
        "hello.tick_period_ms"
    );
    let kinds = vec!["NODE_STATUS".into(), "NODE_STATE".into()];
    assert_eq!(
        field(pb::Hello {
            event_kinds: kinds,
            ..hello()
        }),
        "hello.event_kinds[1]"
    );
    assert_eq!(
        field(pb::Hello {
            signals: vec!["review".into()],
            ..hello()
        }),
        "hello.signals[0]"
    );
    let resume = Some(pb::hello::Resume::Snapshot(false));
    assert_eq!(field(pb::Hello { resume, ..hello() }), "hello.snapshot");
}

#[test]
fn a_hello_that_says_nothing_more_takes_everything() {
    let got = Hello::try_from(hello()).expect("accepted");
    assert_eq!(
        (got.kinds, got.resume, got.tick_period),
        (None, Resume::Acknowledged, None)
    );
    assert!(got.signals.events && got.signals.ticks && got.signals.reviews);
    let narrow = pb::Hello {
        signals: vec!["Event".into()],
        tick_period_ms: 100,
        ..hello()
    };
    let got = Hello::try_from(narrow).expect("accepted");
    assert_eq!(got.tick_period, Some(100));
    assert!(got.signals.events && !got.signals.ticks && !got.signals.reviews);
}

#[test]
fn an_event_goes_out_whole() {
    let mut event = Event::of(EventKind::NodeStatus);
    event.execution = Some("x1".parse().expect("id"));
    event.node = Some("build.compile".parse().expect("id"));
    event.status = Some("READY".into());
    event.attempt = Some(2);
    event.exit_code = Some(0);
    event.retry_in_ms = Some(500);
    let sent = Signal::Event {
        id: "e-3".into(),
        cursor: "c1-3".into(),
        time_ms: Some(1_000),
        history: true,
        event,
    };
    let got = signal(sent, 9);
    assert_eq!((got.id.as_str(), got.time_ms), ("e-3", 1_000));
    let Some(pb::signal::Kind::Event(event)) = got.kind else {
        panic!("no event")
    };
    assert_eq!(
        (event.kind.as_str(), event.cursor.as_str(), event.history),
        ("NODE_STATUS", "c1-3", true)
    );
    assert_eq!(
        (event.execution.as_str(), event.node.as_str(), event.attempt),
        ("x1", "build.compile", 2)
    );
    assert_eq!(
        (event.exit, event.retry_at_ms),
        (Some(pb::event::Exit::ExitCode(0)), Some(1_500))
    );
}

#[test]
fn a_review_goes_out_whole() {
    let command = Command {
        op: "run.stop".into(),
        target: "execution:x1".into(),
        args: [("graceMs".to_owned(), json!(5))].into(),
        if_status: Some("RUNNING".into()),
    };
    let sent = Signal::Review {
        id: "r-7".into(),
        timeout_ms: 5_000,
        command,
        reason: Some("late".into()),
        actor: Actor {
            kind: "KEY".into(),
            id: "ci".into(),
        },
        as_of: Some("c1-4".into()),
    };
    let Some(pb::signal::Kind::Review(review)) = signal(sent, 9).kind else {
        panic!("no review")
    };
    let command = review.command.expect("a command");
    assert_eq!(
        (review.id.as_str(), review.timeout_ms, review.as_of.as_str()),
        ("r-7", 5_000, "c1-4")
    );
    assert_eq!(
        (command.if_status.as_str(), command.reason.as_str()),
        ("RUNNING", "late")
    );
    assert!(command.args.expect("args").fields.contains_key("graceMs"));
}

#[test]
fn every_status_carries_its_code_for_machines() {
    for code in Code::ALL.iter().filter(|c| c.grpc_status() != 0) {
        let status = status::refused(*code, "why");
        assert_eq!(status.code() as i32, code.grpc_status(), "{code}");
        let info = status.get_details_error_info().expect("error info");
        assert_eq!(
            (info.domain.as_str(), info.reason.as_str()),
            ("signalbox", code.as_str())
        );
    }
    let status = status::malformed(&Malformed::new("hello.supervisor", "bad"));
    let bad = status.get_details_bad_request().expect("field violations");
    assert_eq!(bad.field_violations[0].field, "hello.supervisor");
    let wait = std::time::Duration::from_millis(250);
    let status = status::retry_after(Code::Unavailable, "later", wait);
    assert_eq!(
        status.get_details_retry_info().and_then(|r| r.retry_delay),
        Some(wait)
    );
}
