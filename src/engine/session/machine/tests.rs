//! Every state with every input, as the table says.

use serde_json::json;

use super::*;
use crate::contract::id::Cursor;
use crate::wire::hello::{Resume, Signals};

fn hello(heartbeat: bool) -> Box<Hello> {
    Box::new(Hello {
        supervisor: "pipeline".parse().expect("id"),
        engine: "test".into(),
        resume: Resume::Acknowledged,
        tick_period: None,
        kinds: None,
        signals: Signals {
            events: true,
            ticks: true,
            reviews: true,
        },
        heartbeat,
    })
}

fn directive() -> Box<Directive> {
    let json = json!({"directive": "NoOpinion", "key": "k"});
    Box::new(serde_json::from_value(json).expect("a directive"))
}

const CURSOR: Cursor = Cursor { epoch: 1, n: 4 };

fn bad() -> Malformed {
    Malformed::new("field", "bad")
}

/// Every input, by name.
fn inputs() -> Vec<(&'static str, Input)> {
    let frame = Input::Frame;
    let refusal = Refusal::new(Code::NotFound, "supervisor", "none");
    vec![
        ("Hello", frame(Frame::Hello(Ok(hello(true))))),
        ("BadHello", frame(Frame::Hello(Err(BadHello::Version(2))))),
        (
            "Directive",
            frame(Frame::Directive(Label::default(), Ok(directive()))),
        ),
        (
            "BadDirective",
            frame(Frame::Directive(Label::default(), Err(bad()))),
        ),
        ("Ack", frame(Frame::Ack(Ok(Some(CURSOR))))),
        ("EmptyAck", frame(Frame::Ack(Ok(None)))),
        ("BadAck", frame(Frame::Ack(Err(bad())))),
        (
            "Fault",
            frame(Frame::Fault {
                signal: Some("e-1".into()),
                message: "oops".into(),
            }),
        ),
        ("Alive", frame(Frame::Alive)),
        ("Unknown", frame(Frame::Unknown)),
        ("HalfClosed", Input::HalfClosed),
        (
            "Broken",
            Input::Broken {
                what: "reset".into(),
                violation: false,
            },
        ),
        ("Gone", Input::Gone),
        ("Refused", Input::Refused(refusal)),
        ("Replaced", Input::Replaced),
        ("Stopping", Input::Stopping),
        ("HostGone", Input::HostGone),
        ("Damaged", Input::Damaged("frame 3".into())),
        ("Drained", Input::Drained),
        ("Second", Input::Second),
    ]
}

/// What the effects are, in a word: `violation` and `failure` count against the engine, `end` does not.
fn word(effects: &[Effect]) -> &'static str {
    match effects {
        [] => "",
        [Effect::Open(_)] => "open",
        [Effect::Direct(..)] => "direct",
        [Effect::Answer(..)] => "answer",
        [Effect::Acknowledge(_)] => "acknowledge",
        [Effect::Report(_)] => "report",
        [Effect::Progress] => "progress",
        [Effect::End(end)] => match (&end.goaway, &end.error, &end.failure) {
            (Some(_), _, None) => "goaway",
            (None, Some((Code::InvalidArgument | Code::VersionNotServed, _)), Some(_)) => {
                "violation"
            }
            (None, _, Some(_)) => "failure",
            (None, _, None) => "end",
            (Some(_), _, Some(_)) => "both",
        },
        _ => "many",
    }
}

fn state(session: &Session) -> &'static str {
    match session.state {
        State::AwaitHello => "AwaitHello",
        State::Active { .. } => "Active",
        State::Draining { .. } => "Draining",
        State::Closed => "Closed",
    }
}

fn waiting() -> Session {
    Session::new(Limits::default())
}

fn active(heartbeat: bool) -> Session {
    let mut session = waiting();
    session.on(Input::Frame(Frame::Hello(Ok(hello(heartbeat)))));
    session
}

fn draining() -> Session {
    let mut session = active(false);
    session.on(Input::Stopping);
    session
}

fn closed() -> Session {
    let mut session = waiting();
    session.on(Input::Gone);
    session
}

/// Checks one row of the table for every input.
fn check(make: fn() -> Session, expected: &[(&str, &str, &str)]) {
    let inputs = inputs();
    assert_eq!(inputs.len(), expected.len());
    for ((name, input), (input_name, effect, next)) in inputs.into_iter().zip(expected) {
        assert_eq!(name, *input_name);
        let mut session = make();
        let before = state(&session);
        let effects = session.on(input);
        assert_eq!(
            (word(&effects), state(&session)),
            (*effect, *next),
            "{name} in {before}"
        );
    }
}

#[test]
fn a_session_that_awaits_its_hello_takes_nothing_else() {
    const A: &str = "AwaitHello";
    check(
        waiting,
        &[
            ("Hello", "open", "Active"),
            ("BadHello", "violation", "Closed"),
            ("Directive", "violation", "Closed"),
            ("BadDirective", "violation", "Closed"),
            ("Ack", "violation", "Closed"),
            ("EmptyAck", "violation", "Closed"),
            ("BadAck", "violation", "Closed"),
            ("Fault", "violation", "Closed"),
            ("Alive", "violation", "Closed"),
            ("Unknown", "violation", "Closed"),
            ("HalfClosed", "end", "Closed"),
            ("Broken", "failure", "Closed"),
            ("Gone", "end", "Closed"),
            ("Refused", "", A),
            ("Replaced", "", A),
            ("Stopping", "end", "Closed"),
            ("HostGone", "end", "Closed"),
            ("Damaged", "", A),
            ("Drained", "", A),
            ("Second", "", A),
        ],
    );
}

#[test]
fn an_active_session_does_what_its_engine_asks() {
    const A: &str = "Active";
    check(
        || active(false),
        &[
            ("Hello", "violation", "Closed"),
            ("BadHello", "violation", "Closed"),
            ("Directive", "direct", A),
            ("BadDirective", "answer", A),
            ("Ack", "acknowledge", A),
            ("EmptyAck", "", A),
            ("BadAck", "violation", "Closed"),
            ("Fault", "report", "Draining"),
            ("Alive", "", A),
            ("Unknown", "violation", "Closed"),
            ("HalfClosed", "", A),
            ("Broken", "failure", "Closed"),
            ("Gone", "end", "Closed"),
            ("Refused", "end", "Closed"),
            ("Replaced", "goaway", "Closed"),
            ("Stopping", "", "Draining"),
            ("HostGone", "goaway", "Closed"),
            ("Damaged", "end", "Closed"),
            ("Drained", "", A),
            ("Second", "", A),
        ],
    );
}

#[test]
fn a_draining_session_takes_nothing_new() {
    const D: &str = "Draining";
    check(
        draining,
        &[
            ("Hello", "", D),
            ("BadHello", "", D),
            ("Directive", "", D),
            ("BadDirective", "", D),
            ("Ack", "acknowledge", D),
            ("EmptyAck", "", D),
            ("BadAck", "", D),
            ("Fault", "", D),
            ("Alive", "", D),
            ("Unknown", "", D),
            ("HalfClosed", "", D),
            ("Broken", "failure", "Closed"),
            ("Gone", "end", "Closed"),
            ("Refused", "", D),
            ("Replaced", "goaway", "Closed"),
            ("Stopping", "", D),
            ("HostGone", "goaway", "Closed"),
            ("Damaged", "end", "Closed"),
            ("Drained", "goaway", "Closed"),
            ("Second", "", D),
        ],
    );
}

#[test]
fn a_closed_session_does_nothing_more() {
    let rows: Vec<_> = inputs()
        .into_iter()
        .map(|(name, _)| (name, "", "Closed"))
        .collect();
    check(closed, &rows);
}

/// Lets seconds pass until something happens; returns how many, and what.
fn seconds(session: &mut Session, most: u32) -> (u32, &'static str) {
    for second in 1..=most {
        let effects = session.on(Input::Second);
        if !effects.is_empty() {
            return (second, word(&effects));
        }
    }
    (most, "")
}

#[test]
fn a_hello_that_does_not_come_ends_the_stream_after_ten_seconds() {
    let mut session = waiting();
    assert_eq!(seconds(&mut session, 60), (10, "failure"));
}

#[test]
fn an_idle_stream_says_how_far_it_is_every_ten_seconds() {
    let mut session = active(false);
    assert_eq!(seconds(&mut session, 60), (10, "progress"));
    assert_eq!(seconds(&mut session, 60), (10, "progress"));
    seconds(&mut session, 6);
    session.said();
    assert_eq!(seconds(&mut session, 60), (10, "progress"));
}

#[test]
fn an_engine_that_promised_a_heartbeat_may_be_silent_for_less_than_thirty_seconds() {
    let mut session = active(true);
    let mut total = 0;
    let mut last = "";
    while last != "failure" && total < 100 {
        let (passed, what) = seconds(&mut session, 100);
        (total, last) = (total + passed, what);
    }
    assert_eq!((total, last), (30, "failure"));

    let mut session = active(true);
    for _ in 0..10 {
        for _ in 0..29 {
            assert_ne!(word(&session.on(Input::Second)), "failure");
        }
        session.on(Input::Frame(Frame::Alive));
    }
    assert_eq!(state(&session), "Active");
}

#[test]
fn an_engine_without_a_heartbeat_may_be_silent_for_ever() {
    let mut session = active(false);
    for _ in 0..1_000 {
        assert!(matches!(word(&session.on(Input::Second)), "" | "progress"));
    }
}

#[test]
fn a_drain_ends_by_itself_when_answers_do_not_come() {
    assert_eq!(seconds(&mut draining(), 60), (10, "goaway"));
}

#[test]
fn a_fault_ends_the_session_as_a_failure_after_its_answers() {
    let mut session = active(false);
    let fault = Frame::Fault {
        signal: None,
        message: "cannot read it".into(),
    };
    assert_eq!(session.on(Input::Frame(fault)), []);
    let effects = session.on(Input::Drained);
    assert_eq!(word(&effects), "failure");
    let [Effect::End(end)] = effects.as_slice() else {
        panic!("no end");
    };
    assert_eq!(end.failure.as_deref(), Some("fault: cannot read it"));
}

#[test]
fn an_engine_that_leaves_after_its_fault_has_failed_all_the_same() {
    let mut session = active(false);
    let fault = Frame::Fault {
        signal: None,
        message: "oops".into(),
    };
    session.on(Input::Frame(fault));
    assert_eq!(word(&session.on(Input::Gone)), "failure");
}
