use super::*;
use std::path::Path;

const SOURCE: &str = r#"
rules:
  - name: tell
    on: Event
    limit: 2
    when: event.status == "FAILED"
    do:
      - notify: {level: info, message: "${seen}"}
  - name: beat
    on: Tick
    do:
      - notify: {level: info, message: tick}
"#;

fn session() -> Session {
    Session::new(
        crate::load::parse(Path::new("rules.yaml"), SOURCE).unwrap(),
        "night".to_owned(),
    )
}

fn event(n: u32, status: &str) -> Response {
    Response::Signal(pb::Signal {
        id: format!("e-{n}"),
        time_ms: 1,
        kind: Some(Kind::Event(Box::new(pb::Event {
            kind: "NODE_STATUS".to_owned(),
            cursor: format!("c-{n}"),
            execution: "x1".to_owned(),
            status: status.to_owned(),
            ..Default::default()
        }))),
    })
}

fn started(n: u32) -> Response {
    let started = pb::Started {
        reason: "resubscribe".to_owned(),
        ..Default::default()
    };
    Response::Signal(pb::Signal {
        id: format!("s-{n}"),
        time_ms: 1,
        kind: Some(Kind::Started(started)),
    })
}

fn tick(n: u32) -> Response {
    Response::Signal(pb::Signal {
        id: format!("t-{n}"),
        time_ms: 1,
        kind: Some(Kind::Tick(pb::Tick::default())),
    })
}

fn result(number: u64, code: &str) -> Response {
    let status = if code.is_empty() { "DONE" } else { "REFUSED" };
    Response::Result(pb::DirectiveResult {
        r#ref: number,
        status: status.to_owned(),
        code: code.to_owned(),
        ..Default::default()
    })
}

/// Returns the directives among effects.
fn sent(effects: Vec<Effect>) -> Vec<pb::Directive> {
    effects
        .into_iter()
        .map(|effect| match effect {
            Effect::Send(Request::Directive(directive)) => directive,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn acked(session: &mut Session) -> Option<String> {
    session.take_ack().map(|request| match request {
        Request::Ack(ack) => ack.cursor,
        other => panic!("{other:?}"),
    })
}

#[test]
fn an_event_without_directives_is_acknowledged_at_once() {
    let mut session = session();
    assert_eq!(session.on_frame(event(1, "RUNNING")), []);
    assert_eq!(acked(&mut session).as_deref(), Some("c-1"));
    assert_eq!(acked(&mut session), None, "once is enough");
}

#[test]
fn an_event_is_acknowledged_after_its_directive_has_a_result_and_never_before_an_older_one() {
    let mut session = session();
    let first = sent(session.on_frame(event(1, "FAILED")));
    let second = sent(session.on_frame(event(2, "FAILED")));
    session.on_frame(event(3, "RUNNING"));
    assert_eq!(acked(&mut session), None);
    session.on_frame(result(second[0].r#ref, ""));
    assert_eq!(acked(&mut session), None, "the first is still open");
    session.on_frame(result(first[0].r#ref, "COMMAND_NOT_ALLOWED"));
    assert_eq!(
        acked(&mut session).as_deref(),
        Some("c-3"),
        "a refusal is a result"
    );
}

#[test]
fn a_timer_that_waits_for_its_result_holds_no_event_back() {
    let mut session = session();
    assert_eq!(sent(session.on_frame(tick(1))).len(), 1);
    session.on_frame(event(1, "RUNNING"));
    assert_eq!(acked(&mut session).as_deref(), Some("c-1"));
}

#[test]
fn open_directives_go_out_again_on_a_new_session_under_their_keys() {
    let mut session = session();
    let before = sent(session.on_frame(event(1, "FAILED")));
    let again = sent(session.on_frame(started(1)));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].key, before[0].key);
    assert_eq!(again[0].body, before[0].body);
    assert_ne!(again[0].r#ref, before[0].r#ref);
    session.on_frame(result(before[0].r#ref, ""));
    assert_eq!(
        acked(&mut session),
        None,
        "a number of the old session closes nothing"
    );
    session.on_frame(result(again[0].r#ref, ""));
    assert_eq!(acked(&mut session).as_deref(), Some("c-1"));
}

#[test]
fn a_signal_that_comes_again_is_not_decided_twice() {
    let mut session = session();
    let first = sent(session.on_frame(event(1, "FAILED")));
    assert_eq!(session.on_frame(event(1, "FAILED")), []);
    session.on_frame(result(first[0].r#ref, ""));
    assert!(session.take_ack().is_some());
    assert_eq!(
        session.on_frame(event(1, "FAILED")),
        [],
        "done, but the acknowledgement was lost"
    );
    assert_eq!(acked(&mut session).as_deref(), Some("c-1"));
    let second = sent(session.on_frame(event(2, "FAILED")));
    assert_eq!(
        second.len(),
        1,
        "the repeat did not count against the limit of 2"
    );
}

#[test]
fn a_transient_refusal_is_tried_again_after_the_pause_and_not_for_ever() {
    let mut session = session();
    let mut number = sent(session.on_frame(event(1, "FAILED")))[0].r#ref;
    let mut tries = 1;
    loop {
        let effects = session.on_frame(result(number, "RATE_LIMITED"));
        let [Effect::Later(delay, again)] = effects.as_slice() else {
            break;
        };
        assert_eq!(*delay, PAUSE);
        number = sent(session.again(*again))[0].r#ref;
        tries += 1;
    }
    assert_eq!(tries, TRIES);
    assert_eq!(acked(&mut session).as_deref(), Some("c-1"));
}

#[test]
fn a_refusal_as_stale_leaves_the_directive_for_the_next_session() {
    let mut session = session();
    let first = sent(session.on_frame(event(1, "FAILED")));
    session.on_frame(result(first[0].r#ref, "STALE_SESSION"));
    assert_eq!(acked(&mut session), None);
    assert_eq!(sent(session.on_frame(started(1))).len(), 1);
}

#[test]
fn the_final_result_of_an_approval_is_acknowledged_by_its_id() {
    let mut session = session();
    let result = pb::DirectiveResult {
        signal_id: "d-9".to_owned(),
        ..Default::default()
    };
    session.on_frame(Response::Result(result));
    let Some(Request::Ack(ack)) = session.take_ack() else {
        panic!("nothing acknowledged")
    };
    assert_eq!(ack.signal_ids, ["d-9"]);
    assert_eq!(ack.cursor, "", "the position stays");
}

#[test]
fn a_goaway_says_how_the_session_ends() {
    let goaway = |reason: &str| pb::Goaway {
        reason: reason.to_owned(),
        message: "m".to_owned(),
        retry_after_ms: 1_500,
    };
    let mut session = session();
    assert_eq!(
        session.on_frame(Response::Goaway(goaway("REPLACED"))),
        [Effect::End(End::Replaced("m".to_owned()))]
    );
    let end = End::Goaway {
        reason: "SHUTTING_DOWN".to_owned(),
        retry_after: Some(Duration::from_millis(1_500)),
    };
    assert_eq!(
        session.on_frame(Response::Goaway(goaway("SHUTTING_DOWN"))),
        [Effect::End(end)]
    );
}

#[test]
fn signals_that_are_done_do_not_pile_up() {
    let mut session = session();
    for n in 0..10_000 {
        session.on_frame(event(n, "RUNNING"));
    }
    assert_eq!(session.work.len(), 0);
    assert_eq!(session.known.len(), RECENT);
}
