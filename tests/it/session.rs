//! Sessions of engines over real gRPC: who may begin one, what comes first, where a stream goes on, and how it ends.

mod begin;
mod end;
mod resume;
mod serve;
mod slow;

use std::time::Duration;

use serde_json::{Value, json};
use signalbox::testkit::{Builder, FakeEngine, Host, patience};
use signalbox::wire::proto::v1 as pb;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Two nodes, one after the other.
fn workflow() -> Value {
    json!({"id": "w", "nodes": {"a": {"run": ["a"]}, "b": {"run": ["b"], "needs": ["a"]}}})
}

fn supervisor(id: &str, owns: &[&str]) -> Value {
    json!({
        "id": id, "owns": owns, "engine": {"transport": "attached"},
        "allowedCommands": ["run.*", "node.*", "notify"], "operatorAccess": ["run.*"],
        "initiative": ["run.*", "notify"], "maxInitiativePerMinute": 100_000,
        "maxDirectivesPerSecond": 100_000,
    })
}

/// A host on which `night` owns the workflow `w`, and `day` owns nothing.
fn host() -> Builder {
    Host::builder()
        .workflow(workflow())
        .supervisor(supervisor("night", &["workflow:w"]))
        .supervisor(supervisor("day", &[]))
}

/// A host whose limits of seconds are limits of hundredths.
fn hasty() -> Builder {
    host().engine_options(|options| options.second = Duration::from_millis(10))
}

/// Checks a status for its number and for what it says to machines.
fn assert_status(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    let info = status
        .get_details_error_info()
        .expect("every error has an ErrorInfo");
    assert_eq!(
        (info.domain.as_str(), info.reason.as_str()),
        ("signalbox", reason),
        "{status:?}"
    );
}

/// How long a refused engine has to wait.
fn wait_ms(status: &Status) -> u64 {
    let wait = status
        .get_details_retry_info()
        .and_then(|r| r.retry_delay)
        .expect("a time to wait");
    u64::try_from(wait.as_millis()).expect("a short time")
}

/// Waits until the host ends the stream, which must be with an error.
async fn failed(engine: &mut FakeEngine) -> Status {
    patience("the end of the stream", engine.ended())
        .await
        .expect("an error")
}

/// A directive that changes nothing.
fn notify(key: &str) -> pb::Directive {
    pb::Directive {
        key: key.into(),
        cause: "initiative".into(),
        reason: "a test".into(),
        body: Some(pb::directive::Body::Notify(pb::Notify {
            level: "info".into(),
            message: "hello".into(),
            data: None,
        })),
        ..pb::Directive::default()
    }
}

/// What an event says, in short.
fn short(event: &pb::Event) -> String {
    let name = if event.node.is_empty() {
        "run"
    } else {
        event.node.as_str()
    };
    format!("{name} {}", event.status)
}
