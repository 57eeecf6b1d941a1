//! Cases that others have reported of systems like this one, each for its whole kind. A function begins with the name
//! of its case.
//!
//! Time is virtual and attempts are fakes; engines speak real gRPC.

mod answers;
mod identical_saves;
mod intents;
mod keys;
mod over_http;
mod retries;
mod reviews;
mod same_key;
mod stop_order;
mod stubborn;

use serde_json::{Value, json};
use signalbox::contract::outcome::{Answer, Outcome};
use signalbox::contract::status::{NodeStatus, RunStatus};
use signalbox::core::record::{Entry, Record};
use signalbox::core::state::State;
use signalbox::testkit::{Builder, FakeEngine, Host};
use signalbox::wire::proto::v1::DirectiveResult;

/// Two nodes, one after the other.
fn chain() -> Value {
    json!({"id": "w", "nodes": {"a": {"run": ["a"]}, "b": {"run": ["b"], "needs": ["a"]}}})
}

/// A supervisor that owns the workflow `w`, whose engine may do everything, and which operators may ask for everything.
fn night() -> Value {
    json!({
        "id": "night", "owns": ["workflow:w"], "engine": {"transport": "attached"},
        "allowedCommands": ["run.*", "node.*", "notify"], "operatorAccess": ["run.*", "node.*"],
        "initiative": ["run.*", "node.*", "notify"], "maxInitiativePerMinute": 1000,
    })
}

/// A host on which nobody owns the workflow `w`: operators command it directly.
fn free(workflow: Value) -> Builder {
    Host::builder().workflow(workflow)
}

/// A host on which `night` owns the workflow `w`.
fn owned(workflow: Value) -> Builder {
    Host::builder().workflow(workflow).supervisor(night())
}

/// Lets an engine start a run of `w`, because its session started, and returns the run's id.
async fn start_by(engine: &mut FakeEngine, key: &str) -> String {
    let cause = format!("event:{}", engine.started().id);
    let result = engine
        .command(key, "run.start", "workflow:w")
        .cause(&cause)
        .await;
    assert_eq!(outcomes(&result), ["APPLIED"], "{result:?}");
    let target = &result.targets[0].target;
    target
        .strip_prefix("execution:")
        .unwrap_or(target)
        .to_owned()
}

/// The outcomes of a directive's targets.
fn outcomes(result: &DirectiveResult) -> Vec<&str> {
    result.targets.iter().map(|t| t.outcome.as_str()).collect()
}

/// The outcome of an operator's command on one target.
fn outcome(answer: &Answer) -> Outcome {
    match answer.targets.as_slice() {
        [one] => one.outcome,
        _ => panic!("one target was expected: {answer:?}"),
    }
}

/// The code of a refusal, as it stands on the wire.
fn code(answer: &Answer) -> &'static str {
    answer.code.expect("the answer is a refusal").as_str()
}

/// Plays the journal again and holds every state on the way to this: in a run that has ended, every node has, and
/// has an end time; and no node begins in a run that is being stopped.
fn assert_ended_runs_rest(host: &Host) {
    let mut state = State::default();
    for entry in host.records() {
        assert_no_start_in_a_stopping_run(&state, &entry);
        // A stop names the run first and its nodes right after, in one step that nobody sees half of.
        let same_step = matches!(
            entry.record,
            Record::NodeStatus {
                to: NodeStatus::Stopped,
                ..
            }
        );
        if !same_step {
            assert_rest(&state);
        }
        state.apply(&entry);
    }
    assert_rest(&state);
}

fn assert_rest(state: &State) {
    let seq = state.durable().seq;
    for run in state
        .durable()
        .runs
        .values()
        .filter(|r| r.status.is_terminal())
    {
        for (id, node) in run.named_nodes() {
            assert!(
                node.status.is_terminal(),
                "{}/{id} is {} in a run that is {}, after record {seq}",
                run.id,
                node.status.as_str(),
                run.status.as_str(),
            );
            assert!(node.changed_wall > 0, "{}/{id} has no end time", run.id);
        }
    }
}

fn assert_no_start_in_a_stopping_run(state: &State, entry: &Entry) {
    let Record::NodeStatus {
        run,
        node,
        to: NodeStatus::Running | NodeStatus::Ready,
        ..
    } = &entry.record
    else {
        return;
    };
    let status = state.durable().run(*run).map(|r| r.status);
    assert!(
        !matches!(status, Some(RunStatus::Stopping | RunStatus::Stopped)),
        "{run}/{node} goes on in a run that is {status:?}, at record {}",
        entry.seq
    );
}
