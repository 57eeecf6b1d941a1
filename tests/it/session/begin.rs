//! The beginning: credentials, hello, `Started` and the snapshot.

use pb::connect_request::Body;
use signalbox::testkit::{EngineClient, command_directive, hello};

use super::*;

#[tokio::test]
async fn headers_come_before_the_hello() {
    let host = host().start().await;
    // Returns when the headers are there; nothing was said.
    host.dial("night").await.connect().await.expect("a stream");
}

#[tokio::test]
async fn a_call_without_a_good_credential_is_refused_before_anything_else() {
    let host = host().start().await;
    let nobody = EngineClient::without_credential(host.engine_addr()).await;
    for client in [
        nobody.clone(),
        nobody.clone().with_authorization("Bearer test-1.0000"),
        nobody.clone().with_authorization("Bearer"),
        nobody.clone().with_authorization("Basic dGVzdDp0ZXN0"),
    ] {
        let status = client.connect().await.expect_err("refused");
        assert_status(&status, Code::Unauthenticated, "UNAUTHENTICATED");
        let status = client.submit("", notify("k")).await.expect_err("refused");
        assert_status(&status, Code::Unauthenticated, "UNAUTHENTICATED");
        let read = client.request(pb::GetSelfRequest {});
        let status = client.stub().get_self(read).await.expect_err("refused");
        assert_status(&status, Code::Unauthenticated, "UNAUTHENTICATED");
    }
}

#[tokio::test]
async fn a_credential_of_somebody_else_opens_no_session() {
    let host = host().start().await;
    let operator = EngineClient::dial(host.engine_addr(), &host.viewer_key().await).await;
    let status = operator.connect().await.expect_err("refused");
    assert_status(&status, Code::PermissionDenied, "PERMISSION_DENIED");

    let day = host.dial("day").await;
    let status = day.begin(hello("night")).await.expect_err("refused");
    assert_status(&status, Code::PermissionDenied, "PERMISSION_DENIED");
    // It was no failure: the right hello is taken at once.
    day.begin(hello("day")).await.expect("a session");
}

#[tokio::test]
async fn reads_that_are_not_built_say_so() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let status = client
        .stub()
        .get_self(client.request(pb::GetSelfRequest {}))
        .await;
    assert_status(
        &status.expect_err("not built"),
        Code::Unimplemented,
        "UNIMPLEMENTED",
    );
    let status = client
        .stub()
        .get_snapshot(client.request(pb::GetSnapshotRequest {}))
        .await;
    assert_status(
        &status.expect_err("not built"),
        Code::Unimplemented,
        "UNIMPLEMENTED",
    );
}

#[tokio::test]
async fn a_hello_that_is_wrong_is_refused_by_name() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let cases = [
        (
            pb::Hello {
                contract_version: 2,
                ..hello("night")
            },
            Code::FailedPrecondition,
            "VERSION_NOT_SERVED",
            "",
        ),
        (
            pb::Hello {
                contract_version: 0,
                ..hello("night")
            },
            Code::FailedPrecondition,
            "VERSION_NOT_SERVED",
            "",
        ),
        (
            pb::Hello {
                event_kinds: vec!["NODES".into()],
                ..hello("night")
            },
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
            "hello.event_kinds[0]",
        ),
        (
            pb::Hello {
                tick_period_ms: 20,
                ..hello("night")
            },
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
            "hello.tick_period_ms",
        ),
        (
            pb::Hello {
                resume: Some(pb::hello::Resume::Snapshot(false)),
                ..hello("night")
            },
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
            "hello.snapshot",
        ),
    ];
    for (hello, code, reason, field) in cases {
        let status = client.begin(hello).await.expect_err("refused");
        assert_status(&status, code, reason);
        let bad = status.get_details_bad_request();
        let named = bad.and_then(|b| Some(b.field_violations.into_iter().next()?.field));
        let named = named.unwrap_or_default();
        assert_eq!(named, field);
        // Each was a failure: the host waits a little before it listens again.
        host.advance(60_000).await;
    }
}

#[tokio::test]
async fn the_first_message_is_a_hello_and_no_other_is() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let firsts = [
        Body::Directive(notify("k")),
        Body::Ack(pb::Ack::default()),
        Body::Fault(pb::Fault::default()),
        Body::Alive(pb::Alive {}),
    ];
    for first in firsts {
        let mut wire = client.connect().await.expect("a stream");
        wire.send(first).await;
        assert_status(
            &wire.next().await.expect_err("refused"),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        );
        host.advance(60_000).await;
    }
    let mut wire = client.connect().await.expect("a stream");
    wire.send_unknown_body().await;
    assert_status(
        &wire.next().await.expect_err("refused"),
        Code::InvalidArgument,
        "INVALID_ARGUMENT",
    );
    host.advance(60_000).await;

    let mut engine = client.begin(hello("night")).await.expect("a session");
    engine.wire().send(Body::Hello(hello("night"))).await;
    assert_status(
        &failed(&mut engine).await,
        Code::InvalidArgument,
        "INVALID_ARGUMENT",
    );
}

#[tokio::test]
async fn an_unknown_body_ends_the_session() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    engine.wire().send_unknown_body().await;
    assert_status(
        &failed(&mut engine).await,
        Code::InvalidArgument,
        "INVALID_ARGUMENT",
    );
}

#[tokio::test]
async fn a_hello_that_does_not_come_in_time_ends_the_stream() {
    let host = hasty().start().await;
    let mut wire = host.dial("night").await.connect().await.expect("a stream");
    assert_status(
        &wire.next().await.expect_err("too late"),
        Code::DeadlineExceeded,
        "DEADLINE_EXCEEDED",
    );
}

#[tokio::test]
async fn a_session_begins_with_its_reason_and_a_snapshot_of_what_is_owned() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let begun = engine.started().clone();
    assert_eq!(
        (begun.started.reason.as_str(), begun.id.as_str()),
        ("first", begun.started.session.as_str())
    );
    assert!(begun.executions.is_empty() && begun.chunks == 1);
    assert!(
        begun
            .started
            .event_kinds
            .contains(&"NODE_STATUS".to_owned())
    );

    let start = engine
        .command("k-1", "run.start", "workflow:w")
        .cause(&format!("event:{}", begun.id))
        .await;
    let run = start.targets[0].execution.clone();
    engine.until_node(&run, "a", "RUNNING").await;
    let pause = engine
        .command("k-2", "run.pause", &format!("execution:{run}"))
        .cause("initiative")
        .reason("look")
        .await;
    assert_eq!(pause.targets[0].outcome, "APPLIED");

    let again = host.engine("night").await;
    let begun = again.started();
    assert_eq!(begun.started.reason, "resubscribe");
    let execution = begun.execution(&run);
    assert_eq!(
        (execution.status.as_str(), execution.workflow.as_str()),
        ("PAUSING", "w")
    );
    let nodes: Vec<_> = execution
        .nodes
        .iter()
        .map(|n| (n.id.as_str(), n.status.as_str(), n.attempt))
        .collect();
    assert_eq!(nodes, [("a", "RUNNING", 1), ("b", "PENDING", 0)]);
    let holds: Vec<_> = begun
        .holds
        .iter()
        .map(|h| (h.execution.as_str(), h.holder.as_str(), h.reason.as_str()))
        .collect();
    assert_eq!(holds, [(run.as_str(), "supervisor:night", "look")]);

    // What is not owned is not in a snapshot.
    let day = host.engine("day").await;
    assert!(day.started().executions.is_empty());
}

#[tokio::test]
async fn a_snapshot_of_much_comes_in_small_parts_that_fit_together() {
    let host = Host::builder()
        .workflow(json!({"id": "w", "nodes": (0..200).map(|n| (format!("node-{n:03}"), json!({"run": ["x"]}))).collect::<serde_json::Map<_, _>>()}))
        .supervisor(supervisor("night", &["workflow:w"]))
        .start()
        .await;
    let mut engine = host.engine("night").await;
    let cause = format!("event:{}", engine.started().id);
    for n in 0..100 {
        engine
            .command(&format!("k-{n}"), "run.start", "workflow:w")
            .cause(&cause)
            .await;
    }
    let again = host.engine("night").await;
    let begun = again.started();
    assert_eq!(begun.executions.len(), 100);
    assert!(begun.executions.iter().all(|e| e.nodes.len() == 200));
    assert!(begun.chunks > 3, "{} chunks", begun.chunks);
}

#[tokio::test]
async fn an_open_review_comes_again_with_the_time_left() {
    let host = host().start().await;
    let mut engine = host.engine("night").await;
    let cause = format!("event:{}", engine.started().id);
    let start = engine
        .command("k-1", "run.start", "workflow:w")
        .cause(&cause)
        .await;
    let target = start.targets[0].target.clone();
    let operator = host.command("run.pause", &target).send();
    let first = engine.next_review().await;
    assert_eq!(first.timeout_ms, 5_000);
    host.advance(2_000).await;

    let mut again = host.engine("night").await;
    assert_eq!(again.started().requests[0].id, first.id);
    let second = again.next_review().await;
    assert_eq!(
        (second.id.as_str(), second.timeout_ms),
        (first.id.as_str(), 3_000)
    );
    assert_eq!(again.verdict(&second.id, "allow").await.status, "DONE");
    let answer = patience("the operator's answer", operator)
        .await
        .expect("no panic")
        .expect("an answer");
    assert!(answer.code.is_none(), "{answer:?}");
}

#[tokio::test]
async fn an_engine_that_takes_no_reviews_is_not_waited_for() {
    let host = host().start().await;
    let client = host.dial("night").await;
    let narrow = pb::Hello {
        signals: vec!["Event".into()],
        ..hello("night")
    };
    let mut engine = client.begin(narrow).await.expect("a session");
    let cause = format!("event:{}", engine.started().id);
    let start = engine
        .command("k-1", "run.start", "workflow:w")
        .cause(&cause)
        .await;
    let answer = host.command("run.pause", &start.targets[0].target).await;
    assert_eq!(
        answer.code.map(|c| c.as_str()),
        Some("CONTROL_REJECTED"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn an_unknown_field_of_a_directive_is_refused_by_its_number() {
    use bytes::{Buf as _, BufMut as _};
    use prost::Message as _;
    use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

    /// Sends bytes as they are.
    struct Raw;
    impl Encoder for Raw {
        type Item = Vec<u8>;
        type Error = Status;
        fn encode(&mut self, bytes: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
            out.put_slice(&bytes);
            Ok(())
        }
    }
    impl Decoder for Raw {
        type Item = pb::SubmitDirectiveResponse;
        type Error = Status;
        fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
            let bytes = bytes.copy_to_bytes(bytes.remaining());
            Ok(Some(
                pb::SubmitDirectiveResponse::decode(bytes).expect("a response"),
            ))
        }
    }
    impl Codec for Raw {
        type Encode = Vec<u8>;
        type Decode = pb::SubmitDirectiveResponse;
        type Encoder = Self;
        type Decoder = Self;
        fn encoder(&mut self) -> Self {
            Self
        }
        fn decoder(&mut self) -> Self {
            Self
        }
    }

    let host = host().start().await;
    let mut directive = command_directive("k-1", "run.stop", "workflow:w").encode_to_vec();
    // Field 100, a varint: a guard of a later version, perhaps.
    directive.extend([0xa0, 0x06, 1]);
    let mut call = vec![0x12, u8::try_from(directive.len()).expect("short")];
    call.extend(directive);

    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", host.engine_addr()))
            .expect("an address");
    let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.expect("a connection"));
    grpc.ready().await.expect("ready");
    let token = host.credential("night").await;
    let mut request = tonic::Request::new(call);
    request.metadata_mut().insert(
        "authorization",
        format!("Bearer {token}").parse().expect("a header"),
    );
    let path = "/signalbox.engine.v1.EngineService/SubmitDirective"
        .parse()
        .expect("a path");
    let answer = grpc
        .unary(request, path, Raw)
        .await
        .expect("an answer")
        .into_inner();
    let result = answer.result.expect("a result");
    assert_eq!(
        (result.status.as_str(), result.code.as_str()),
        ("REFUSED", "INVALID_ARGUMENT")
    );
    assert!(
        result.message.contains("directive.100"),
        "{}",
        result.message
    );
}
