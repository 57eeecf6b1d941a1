//! An engine on bare stubs: the same for our host and for the baselines.

use super::Outcome;
use super::process::Server;
use signalbox::wire::proto::v1::connect_request::Body as Say;
use signalbox::wire::proto::v1::connect_response::Body as Hear;
use signalbox::wire::proto::v1::engine_service_client::EngineServiceClient;
use signalbox::wire::proto::v1::{self as pb, hello::Resume, signal::Kind};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// How many messages wait in front of the transport at most.
const WAITING: usize = 256;

/// A session.
pub struct Engine {
    client: EngineServiceClient<Channel>,
    out: mpsc::Sender<pb::ConnectRequest>,
    incoming: Streaming<pb::ConnectResponse>,
    /// The id of its `Started`.
    pub started: String,
}

impl Engine {
    /// Connects and waits for `Started`.
    pub async fn connect(server: &Server, supervisor: &str, resume: Resume) -> Outcome<Self> {
        let channel = Channel::from_shared(server.url.clone())?.connect().await?;
        let mut client = EngineServiceClient::new(channel);
        let (out, outgoing) = mpsc::channel(WAITING);
        let hello = pb::Hello {
            supervisor: supervisor.into(),
            engine: Some(pb::EngineInfo {
                name: "bench".into(),
                ..Default::default()
            }),
            contract_version: 1,
            resume: Some(resume),
            ..Default::default()
        };
        out.send(Self::request(Say::Hello(hello))).await?;
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        let bearer = format!("Bearer {}", server.token).parse()?;
        request.metadata_mut().insert("authorization", bearer);
        let incoming = client.connect(request).await?.into_inner();
        let mut engine = Self {
            client,
            out,
            incoming,
            started: String::new(),
        };
        loop {
            if let Hear::Signal(pb::Signal {
                id,
                kind: Some(Kind::Started(_)),
                ..
            }) = engine.hear().await?
            {
                engine.started = id;
                return Ok(engine);
            }
        }
    }

    /// Gives the stream up, and waits until the server must have heard of it: an end without a word is a failure,
    /// and who has failed has to wait before the next session.
    pub async fn close(self) {
        let Self {
            mut client,
            out,
            incoming,
            ..
        } = self;
        drop((out, incoming));
        // What it says is of no interest, only that it comes after the end of the stream.
        let _ = client.get_self(pb::GetSelfRequest {}).await;
    }

    fn request(body: Say) -> pb::ConnectRequest {
        pb::ConnectRequest { body: Some(body) }
    }

    /// Waits for the next message.
    pub async fn hear(&mut self) -> Outcome<Hear> {
        let message = self.incoming.message().await?.ok_or("the stream ended")?;
        message.body.ok_or_else(|| "a message is empty".into())
    }

    /// Sends a command that cites a signal.
    pub async fn command(
        &self,
        reference: u64,
        key: String,
        signal: &str,
        op: &str,
        target: String,
    ) -> Outcome<()> {
        let command = pb::Command {
            op: op.into(),
            target,
            ..Default::default()
        };
        let directive = pb::Directive {
            r#ref: reference,
            key,
            cause: format!("event:{signal}"),
            body: Some(pb::directive::Body::Command(command)),
            ..Default::default()
        };
        self.out
            .send(Self::request(Say::Directive(directive)))
            .await?;
        Ok(())
    }
}
