//! The bare tonic stream of the baselines: the same messages and settings as the host's, and nothing behind them.

use super::Outcome;
use signalbox::wire::proto::v1::connect_response::Body as Say;
use signalbox::wire::proto::v1::{self as pb, signal::Kind};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// How many messages wait in front of the transport at most, as with the host.
const WAITING: usize = 64;

/// The stream to a client.
pub type Out = mpsc::Sender<Result<pb::ConnectResponse, Status>>;

/// What a baseline does with a new stream; it returns at once.
pub type Begin = Arc<dyn Fn(Streaming<pb::ConnectRequest>, Out) + Send + Sync>;

/// Answers `Connect` and nothing else.
#[derive(Clone)]
struct Bare(Begin);

impl tonic::server::NamedService for Bare {
    const NAME: &'static str = "signalbox.engine.v1.EngineService";
}

impl Service<http::Request<tonic::body::Body>> for Bare {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let connect = Connect(Arc::clone(&self.0));
        Box::pin(async move {
            let codec: tonic_prost::ProstCodec<pb::ConnectResponse, pb::ConnectRequest> =
                tonic_prost::ProstCodec::default();
            let mut grpc = tonic::server::Grpc::new(codec);
            Ok(grpc.streaming(connect, request).await)
        })
    }
}

struct Connect(Begin);

impl tonic::server::StreamingService<pb::ConnectRequest> for Connect {
    type Response = pb::ConnectResponse;
    type ResponseStream = ReceiverStream<Result<pb::ConnectResponse, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<pb::ConnectRequest>>) -> Self::Future {
        let (out, outgoing) = mpsc::channel(WAITING);
        (self.0)(request.into_inner(), out);
        Box::pin(async move { Ok(Response::new(ReceiverStream::new(outgoing))) })
    }
}

/// Serves on a free port; returns it.
pub async fn listen(begin: Begin) -> Outcome<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder().add_service(Bare(begin));
    tokio::spawn(async move {
        if let Err(error) = server.serve_with_incoming(incoming).await {
            eprintln!("bench: the bare server failed: {error}");
        }
    });
    Ok(addr)
}

/// Makes the first message of a session.
pub fn started() -> pb::ConnectResponse {
    let started = pb::Started {
        session: "s-1".into(),
        ..Default::default()
    };
    signal("s-1".into(), Kind::Started(started))
}

/// Makes the event that a run has a new status, as long as ours is.
pub fn event(
    number: u64,
    run: &str,
    previous: &str,
    status: &str,
    cause: &str,
) -> pb::ConnectResponse {
    let event = pb::Event {
        kind: "WORKFLOW_STATUS".into(),
        cursor: format!("c1-{number}"),
        execution: run.into(),
        workflow: "bench".into(),
        previous: previous.into(),
        status: status.into(),
        channel: "ENGINE".into(),
        actor: "supervisor:bench".into(),
        cause: cause.into(),
        ..Default::default()
    };
    signal(format!("e-{number}"), Kind::Event(Box::new(event)))
}

fn signal(id: String, kind: Kind) -> pb::ConnectResponse {
    let signal = pb::Signal {
        id,
        time_ms: 1_700_000_000_000,
        kind: Some(kind),
    };
    pb::ConnectResponse {
        body: Some(Say::Signal(signal)),
    }
}

/// Makes the event that a node has a new status, as long as ours is.
pub fn node_event(number: u64) -> pb::ConnectResponse {
    let event = pb::Event {
        kind: "NODE_STATUS".into(),
        cursor: format!("c1-{number}"),
        execution: format!("x{}", number / 60),
        workflow: "flow".into(),
        node: format!("part-{}", number % 20),
        previous: "RUNNING".into(),
        status: "SUCCEEDED".into(),
        attempt: 1,
        ..Default::default()
    };
    signal(format!("e-{number}"), Kind::Event(Box::new(event)))
}
