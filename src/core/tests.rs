//! Stored bytes of every version stay readable: golden files of records, audit rows and states.
//!
//! `SIGNALBOX_BLESS=1` writes files that are not there yet. A file that is there is never changed: a new version of
//! the stored form gets a directory of its own.

use std::path::PathBuf;

use super::audit::AuditEntry;
use super::input::{Input, Stamp};
use super::record::{
    Access, AttemptEnd, By, Channel, Cited, Credential, Ending, Entry, Hold, Holder, Record,
    ReviewEnd, Settings, Source, StopMode,
};
use super::state::{Durable, State};
use crate::contract::code::Code;
use crate::contract::directive::Actor;
use crate::contract::id::{ExecutionId, ReviewId, SessionId};
use crate::contract::operation::Op;
use crate::contract::outcome::{Answer, Outcome, TargetResult};
use crate::contract::status::{NodeStatus, RunStatus, Why};
use crate::contract::time::HostTime;

fn golden(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/core/v1")
        .join(name);
    if std::env::var_os("SIGNALBOX_BLESS").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, make()).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn by() -> By {
    By {
        channel: Channel::Engine,
        actor: "supervisor:s".into(),
        cause: Some("event:e-1".into()),
        reason: Some("because".into()),
    }
}

fn actor() -> Actor {
    Actor {
        kind: "KEY".into(),
        id: "admin".into(),
    }
}

/// One record of each kind, every field set.
fn records() -> Vec<Record> {
    let (run, node) = (ExecutionId(7), "build.compile".parse().unwrap());
    let workflow = "w".parse().unwrap();
    let answer = Answer {
        matched: Some(201),
        ..Answer::done(vec![TargetResult {
            target: "execution:x7".into(),
            outcome: Outcome::Applied,
            detail: Some("cleared SYSTEM".into()),
            order: Some(3),
        }])
    };
    let workflow_json = r#"{"id":"w","nodes":{"build.compile":{"run":["true"]}}}"#;
    vec![
        Record::Opened {
            boot: "boot".into(),
            monotonic: 5,
            settings: Settings::default(),
        },
        Record::SupervisorSaved {
            number: 1,
            json: r#"{"id":"s","owns":["workflow:w"],"engine":{"transport":"attached"}}"#.into(),
            source: Source::File,
        },
        Record::Ownership {
            gained: vec!["workflow:w".into()],
            lost: vec!["server".into()],
        },
        Record::WorkflowSaved {
            revision: 1,
            json: workflow_json.into(),
            source: Source::Api,
        },
        Record::CredentialIssued(Credential {
            id: "c".into(),
            digest: [9; 32],
            access: Access::Engine("s".parse().unwrap()),
            issued_wall: 8,
        }),
        Record::SessionAccepted {
            supervisor: 1,
            session: SessionId(4),
        },
        Record::Acknowledged {
            supervisor: 1,
            cursor: 2,
        },
        Record::RunCreated {
            run,
            workflow: WorkflowIdOf::clone(&workflow),
            revision: 1,
            params: vec![("P".into(), "v".into())],
            priority: -5,
            deadline: Some(HostTime(99)),
            by: by(),
        },
        Record::RunStatus {
            run,
            workflow: WorkflowIdOf::clone(&workflow),
            from: RunStatus::Queued,
            to: RunStatus::Running,
            by: Some(by()),
        },
        Record::NodeStatus {
            run,
            workflow: WorkflowIdOf::clone(&workflow),
            node: NodeIdOf::clone(&node),
            from: NodeStatus::Running,
            to: NodeStatus::Ready,
            attempt: 2,
            why: Some(Why::Retry),
            end: Some(AttemptEnd::Signal(9)),
            deadline: Some(HostTime(50)),
            retry_in: Some(10),
            by: None,
        },
        Record::HoldAdded {
            run,
            hold: Hold {
                holder: Holder::Person("KEY:admin".into()),
                reason: Some("r".into()),
                since_wall: 6,
            },
        },
        Record::HoldsCleared {
            run,
            holders: vec![Holder::Supervisor("s".parse().unwrap()), Holder::System],
        },
        Record::StopSet {
            run,
            mode: StopMode::Immediate,
            grace: 10,
            deadline: Some(HostTime(60)),
        },
        Record::AttemptEnding {
            run,
            node: NodeIdOf::clone(&node),
            ending: Ending::Timeout,
            kill_at: Some(HostTime(70)),
        },
        Record::ControlOutcome {
            run,
            workflow,
            node: Some(NodeIdOf::clone(&node)),
            op: Op::NodeRetry,
            outcome: Outcome::Applied,
            detail: Some("d".into()),
            order: 3,
            by: by(),
        },
        Record::Directed {
            supervisor: 1,
            key: "k".into(),
            fingerprint: [3; 16],
            answer: answer.clone(),
            cited: Some(Cited::Event(1)),
            initiative: true,
            notify: true,
        },
        Record::Commanded {
            actor: actor(),
            key: "k".into(),
            fingerprint: [4; 16],
            answer: Some(Answer::refused(Code::ControlRejected, "review", "denied")),
            review: Some(ReviewId(1)),
        },
        Record::ReviewOpened {
            id: ReviewId(1),
            supervisor: 1,
            command: r#"{"op":"run.stop","target":"execution:x7"}"#.into(),
            reason: Some("r".into()),
            actor: actor(),
            fingerprint: [4; 16],
            targets: vec!["execution:x7".into()],
            deadline: HostTime(80),
            as_of: 2,
        },
        Record::ReviewClosed {
            id: ReviewId(1),
            end: ReviewEnd::Denied,
        },
        Record::StaleReport {
            run,
            node,
            attempt: 1,
            end: AttemptEnd::Code(0),
        },
        Record::RunTimedOut { run },
    ]
}

type WorkflowIdOf = crate::contract::id::WorkflowId;
type NodeIdOf = crate::contract::id::NodeId;

fn entries() -> Vec<Entry> {
    let entry = |(i, record)| Entry {
        seq: i as u64 + 1,
        time: HostTime(40),
        wall: 1_000,
        to: vec![(1, 2)],
        record,
    };
    records().into_iter().enumerate().map(entry).collect()
}

#[test]
fn stored_records_of_version_1_are_read_for_ever() {
    let bytes = golden("records.bin", || {
        let mut out = Vec::new();
        for entry in entries() {
            let mut one = Vec::new();
            entry.encode_into(&mut one).unwrap();
            out.extend(u32::try_from(one.len()).unwrap().to_le_bytes());
            out.extend(one);
        }
        out
    });
    let mut rest = bytes.as_slice();
    for expected in entries() {
        let (len, tail) = rest.split_first_chunk::<4>().unwrap();
        let (one, tail) = tail.split_at(u32::from_le_bytes(*len) as usize);
        assert_eq!(Entry::decode(one).unwrap(), expected);
        rest = tail;
    }
    assert!(rest.is_empty());
}

#[test]
fn stored_audit_rows_of_version_1_are_read_for_ever() {
    let text = |s: &str| Some(s.to_owned());
    let row = AuditEntry {
        time: HostTime(1),
        wall_ms: 2,
        kind: "refusal".into(),
        channel: "ENGINE".into(),
        actor: "supervisor:s".into(),
        op: text("run.stop"),
        target: text("execution:x1"),
        outcome: text("CAUSE_EXPIRED"),
        check: text("cause"),
        detail: text("d"),
        cause: text("event:e-1"),
        reason: text("r"),
        key: text("k"),
        order: Some(3),
        initiative: true,
        host_down: true,
        count: Some(4),
    };
    let bytes = golden("audit.bin", || row.to_bytes().unwrap());
    assert_eq!(AuditEntry::from_bytes(&bytes).unwrap(), row);
}

#[test]
fn stored_states_of_version_1_are_read_for_ever() {
    let mut state = State::default();
    for entry in entries() {
        state.apply(&entry);
    }
    let bytes = golden("state.bin", || state.durable().to_bytes().unwrap());
    assert!(Durable::from_bytes(&bytes).unwrap() == *state.durable());
}

#[test]
fn bytes_of_a_newer_version_are_refused_by_that_name() {
    let error = Entry::decode(&[2, 0]).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
    assert!(
        Entry::decode(&[]).is_err()
            && AuditEntry::from_bytes(&[9]).is_err()
            && Durable::from_bytes(&[9]).is_err()
    );
}

#[test]
fn time_never_goes_back_whatever_the_clock_says() {
    let mut state = State::default();
    let opened = Input::Opened {
        boot: "b".into(),
        monotonic: 0,
        settings: Settings::default(),
    };
    state.decide(
        opened,
        Stamp {
            now: HostTime(1_000),
            wall: 0,
        },
    );
    state.decide(
        Input::Time,
        Stamp {
            now: HostTime(10),
            wall: 0,
        },
    );
    assert_eq!(state.durable().now, HostTime(1_000));
}

#[test]
fn no_text_of_a_directive_makes_a_row_or_record_that_is_too_long_to_store() {
    use crate::contract::directive::{Args, Body, Command, Directive};
    let long = "x".repeat(3 << 20);
    let some = || Some(long.clone());
    let command = |op: &str, target: &str, args: Args, if_status| {
        Body::Command(Command {
            op: op.into(),
            target: target.into(),
            args,
            if_status,
        })
    };
    let params = |name: &str, value: &str| {
        Args::from([("params".to_owned(), serde_json::json!({name: value}))])
    };
    let bodies = [
        command(&long, "execution:x1", Args::new(), None),
        command("run.stop", &long, Args::new(), None),
        command("run.stop", "execution:x1", Args::new(), some()),
        command(
            "run.stop",
            "execution:x1",
            Args::from([(long.clone(), serde_json::json!(1))]),
            None,
        ),
        command("run.start", "workflow:w", params(&long, "v"), None),
        command("run.start", "workflow:w", params("p", &long), None),
        command(
            "run.start",
            "workflow:w",
            params(&"p".repeat(60_000), "v"),
            None,
        ),
        Body::ReviewVerdict {
            answers: long.clone(),
            verdict: "allow".into(),
        },
        Body::ReviewVerdict {
            answers: "r-1".into(),
            verdict: long.clone(),
        },
        Body::NoOpinion { answers: some() },
        Body::Notify {
            level: long.clone(),
            message: "m".into(),
            data: None,
        },
        Body::Notify {
            level: "info".into(),
            message: long.clone(),
            data: None,
        },
        Body::Notify {
            level: "info".into(),
            message: "m".into(),
            data: Some(long.clone().into()),
        },
        Body::Delegate {
            kind: long.clone(),
            payload: long.clone().into(),
            choices: vec![long.clone()],
        },
        Body::DelegationAnswer {
            answers: long.clone(),
            answer: some(),
            value: None,
        },
    ];
    let mut state = State::default();
    for entry in entries().into_iter().take(4) {
        state.apply(&entry);
    }
    let mut now = 1_000;
    let mut longest = 0;
    for body in bodies {
        for (key, cause, reason) in [
            (Some("k".to_owned()), Some("event:e-1".to_owned()), None),
            (some(), Some("event:e-1".to_owned()), None),
            (Some("k".to_owned()), Some(format!("event:{long}")), None),
            (Some("k".to_owned()), some(), None),
            (Some("k".to_owned()), Some("event:e-1".to_owned()), some()),
            (None, None, None),
        ] {
            now += 2_000;
            let directive = Directive {
                key,
                cause,
                reason,
                dry_run: false,
                body: body.clone(),
            };
            let input = Input::Directive {
                reply: 1,
                supervisor: "s".parse().unwrap(),
                session: None,
                directive: Box::new(directive),
                delivered: None,
            };
            let decision = state.decide(
                input,
                Stamp {
                    now: HostTime(now),
                    wall: 0,
                },
            );
            for entry in decision.entries {
                let mut bytes = Vec::new();
                entry.encode_into(&mut bytes).unwrap();
                longest = longest.max(bytes.len());
            }
            longest = longest.max(
                decision
                    .audit
                    .iter()
                    .map(|r| r.to_bytes().unwrap().len())
                    .max()
                    .unwrap_or(0),
            );
        }
    }
    assert!(
        longest > 100 && longest < 128 << 10,
        "the longest takes {longest} bytes"
    );
}
