use super::super::{EngineClient, FakeEngine, Host, command_directive, hello};
use super::Wire;
use crate::wire::proto::v1 as pb;
use pb::connect_request::Body;

/// Two supervisors, each with a workflow of its own.
async fn host() -> Host {
    let workflow = |id: &str| format!("{{ id: {id}, nodes: {{ a: {{ run: [a] }} }} }}");
    let supervisor = |id: &str, workflow: &str| {
        format!(
            "{{ id: {id}, owns: ['workflow:{workflow}'], engine: {{ transport: attached }}, \
             allowedCommands: [run.*], initiative: [run.*], maxDirectivesPerSecond: 10 }}"
        )
    };
    Host::builder()
        .workflow(workflow("nightly"))
        .workflow(workflow("daily"))
        .supervisor(supervisor("night", "nightly"))
        .supervisor(supervisor("day", "daily"))
        .start()
        .await
}

async fn wire(host: &Host) -> Wire {
    host.dial("night")
        .await
        .connect()
        .await
        .expect("headers come before any hello")
}

/// How the host ends a stream on which a test has said something wrong.
async fn end(mut wire: Wire) -> tonic::Status {
    loop {
        match wire.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended as if nothing were wrong"),
            Err(status) => return status,
        }
    }
}

fn start(key: &str, workflow: &str) -> pb::Directive {
    pb::Directive {
        reason: "the test says so".to_owned(),
        ..command_directive(key, "run.start", &format!("workflow:{workflow}"))
    }
}

#[tokio::test]
async fn it_can_skip_the_hello() {
    let host = host().await;
    for body in [
        Body::Alive(pb::Alive {}),
        Body::Directive(start("k-1", "nightly")),
    ] {
        let mut wire = wire(&host).await;
        wire.send(body).await;
        assert_eq!(end(wire).await.code(), tonic::Code::InvalidArgument);
        host.advance(60_000).await;
    }
    assert!(host.view().await.runs.is_empty());
}

#[tokio::test]
async fn it_can_send_a_body_that_nobody_knows() {
    let host = host().await;
    let mut engine = host.engine("night").await;
    engine.wire().send_unknown_body().await;
    let status = engine.ended().await.expect("the stream ends with an error");
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn it_can_claim_to_be_another_supervisors_engine() {
    let host = host().await;
    let client = host.dial("night").await;
    let refused = client.begin(hello("day")).await.map(drop);
    assert_eq!(
        refused.expect_err("the token is another's").code(),
        tonic::Code::PermissionDenied
    );
    let wrong = client.with_authorization("Bearer nobody.0000");
    let refused = wrong.connect().await.map(drop);
    assert_eq!(
        refused.expect_err("the token is nobody's").code(),
        tonic::Code::Unauthenticated
    );
    let none = EngineClient::without_credential(host.engine_addr()).await;
    let refused = none.connect().await.map(drop);
    assert_eq!(
        refused.expect_err("there is no token").code(),
        tonic::Code::Unauthenticated
    );
}

#[tokio::test]
async fn it_can_claim_anothers_unit() {
    let host = host().await;
    let mut engine = host.engine("night").await;
    let result = engine.directive(start("k-1", "daily")).await;
    assert_eq!(result.targets[0].outcome, "NOT_OWNED");
}

#[tokio::test]
async fn it_can_flood() {
    let host = host().await;
    let mut engine = host.engine("night").await;
    let references = engine
        .flood((0..20).map(|n| start(&format!("k-{n}"), "nightly")))
        .await;
    let mut refused = 0;
    for reference in references {
        let result = engine.result(reference).await;
        refused += usize::from(result.code == "RATE_LIMITED");
    }
    assert_eq!(refused, 10);
}

#[tokio::test]
async fn it_can_replay_keys_and_numbers() {
    let host = host().await;
    let mut engine = host.engine("night").await;
    let mut directive = start("k-1", "nightly");
    directive.r#ref = 7;
    let first = engine.directive(directive.clone()).await;
    let again = engine.directive(directive).await;
    assert!(!first.replayed && again.replayed);
    assert_eq!((first.r#ref, again.r#ref), (7, 7));
    assert_eq!(host.view().await.runs.len(), 1);
}

#[tokio::test]
async fn it_can_close_its_half_and_still_hear() {
    let host = host().await;
    let mut engine = host.engine("night").await;
    engine.half_close();
    let client = host.dial("night").await;
    let result = client
        .submit(engine.session(), start("k-1", "nightly"))
        .await;
    assert_eq!(result.expect("it is answered").status, "DONE");
    engine.until_node("x1", "a", "RUNNING").await;
}

#[tokio::test]
async fn it_can_stop_reading_and_nobody_else_waits() {
    let host = host().await;
    let silent = host.engine("night").await;
    let mut other = host.engine("day").await;
    let session = silent.session().to_owned();
    let client = host.dial("night").await;
    let result = client.submit(&session, start("k-1", "nightly")).await;
    assert_eq!(result.expect("it is answered").status, "DONE");
    let result: pb::DirectiveResult = other.directive(start("k-1", "daily")).await;
    assert_eq!(result.status, "DONE");
    other.until_node("x2", "a", "RUNNING").await;
    drop::<FakeEngine>(silent);
}
