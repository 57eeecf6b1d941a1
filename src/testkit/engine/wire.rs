//! The bare connection of an engine: frames as they are, in any order that a test likes.

use std::net::SocketAddr;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use super::super::{PATIENCE, patience};
use super::FakeEngine;
use crate::wire::proto::v1 as pb;
use pb::connect_request::Body;
use pb::engine_service_client::EngineServiceClient;

/// One connection to a host, with the credential that it shows. Clones share the connection.
#[derive(Debug, Clone)]
pub struct EngineClient {
    channel: Channel,
    authorization: Option<String>,
}

impl EngineClient {
    /// Opens a connection of its own that shows this token.
    ///
    /// # Panics
    /// When nobody listens there.
    pub async fn dial(addr: SocketAddr, token: &str) -> Self {
        let mut client = Self::without_credential(addr).await;
        client.authorization = Some(format!("Bearer {token}"));
        client
    }

    /// Opens a connection of its own that shows nothing.
    ///
    /// # Panics
    /// When nobody listens there.
    pub async fn without_credential(addr: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{addr}"))
            .expect("an address and port make a URI")
            .connect_timeout(PATIENCE);
        match endpoint.connect().await {
            Ok(channel) => Self {
                channel,
                authorization: None,
            },
            Err(error) => panic!("no host listens at {addr}: {error}"),
        }
    }

    /// Shows another value of `authorization`, also a wrong one, on the same connection.
    #[must_use]
    pub fn with_authorization(mut self, value: &str) -> Self {
        self.authorization = Some(value.to_owned());
        self
    }

    /// Returns the generated client, for calls that have no helper here. Requests go through
    /// [`EngineClient::request`] first.
    #[must_use]
    pub fn stub(&self) -> EngineServiceClient<Channel> {
        EngineServiceClient::new(self.channel.clone())
    }

    /// Makes a request that shows the credential.
    ///
    /// # Panics
    /// When the credential has characters that a header cannot have.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(value) = &self.authorization {
            let value = MetadataValue::try_from(value).expect("the credential fits a header");
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// Opens a stream and says nothing on it.
    ///
    /// # Errors
    /// The status with which the host refuses it.
    pub async fn connect(&self) -> Result<Wire, Status> {
        let (sender, frames) = mpsc::channel(1);
        let mut stub = self.stub();
        let request = self.request(ReceiverStream::new(frames));
        let response = patience("the headers of a stream", stub.connect(request)).await?;
        Ok(Wire {
            sender: Some(sender),
            frames: response.into_inner(),
        })
    }

    /// Opens a stream and begins a session on it.
    ///
    /// # Errors
    /// The status with which the host refuses it.
    pub async fn begin(&self, hello: pb::Hello) -> Result<FakeEngine, Status> {
        FakeEngine::begin(self.connect().await?, hello).await
    }

    /// Submits a directive outside any stream, naming a session or, with an empty text, none.
    ///
    /// # Errors
    /// The status with which the host refuses the call. A refusal of the directive is a result.
    ///
    /// # Panics
    /// When the answer has no result.
    pub async fn submit(
        &self,
        session: &str,
        directive: pb::Directive,
    ) -> Result<pb::DirectiveResult, Status> {
        let request = self.request(pb::SubmitDirectiveRequest {
            session: session.to_owned(),
            directive: Some(directive),
        });
        let mut stub = self.stub();
        let answer = patience("the result of a unary call", stub.submit_directive(request)).await?;
        Ok(answer.into_inner().result.expect("an answer has a result"))
    }
}

/// A stream on which nothing was said yet, or on which a test says what no engine may.
#[derive(Debug)]
pub struct Wire {
    sender: Option<mpsc::Sender<pb::ConnectRequest>>,
    frames: Streaming<pb::ConnectResponse>,
}

impl Wire {
    /// Sends a frame. A frame to a stream that the host has ended is lost, as on any network.
    ///
    /// # Panics
    /// When the stream's own half was closed before, or the host takes nothing.
    pub async fn send(&mut self, body: Body) {
        self.send_frame(pb::ConnectRequest { body: Some(body) })
            .await;
    }

    /// Sends a frame with a body that no host of this version knows.
    ///
    /// # Panics
    /// As [`Wire::send`].
    pub async fn send_unknown_body(&mut self) {
        // What a decoder makes of a field that it does not know.
        self.send_frame(pb::ConnectRequest { body: None }).await;
    }

    async fn send_frame(&mut self, frame: pb::ConnectRequest) {
        let sender = self
            .sender
            .as_ref()
            .expect("the engine's half of the stream is open");
        // The next read says how the stream ended.
        let _ = patience("the host to take a frame", sender.send(frame)).await;
    }

    /// Waits for the next frame; none when the host ends the stream cleanly. A body that is not known is passed
    /// over.
    ///
    /// # Errors
    /// The status with which the host ends the stream.
    ///
    /// # Panics
    /// When nothing comes in time.
    pub async fn next(&mut self) -> Result<Option<pb::connect_response::Body>, Status> {
        loop {
            match patience("a frame of the host", self.frames.message()).await? {
                Some(pb::ConnectResponse { body: Some(body) }) => return Ok(Some(body)),
                Some(pb::ConnectResponse { body: None }) => {}
                None => return Ok(None),
            }
        }
    }

    /// Closes the engine's half of the stream.
    pub fn half_close(&mut self) {
        self.sender = None;
    }
}

/// Makes an ordinary hello: version 1, all signals, going on after the last acknowledged cursor.
#[must_use]
pub fn hello(supervisor: &str) -> pb::Hello {
    pb::Hello {
        supervisor: supervisor.to_owned(),
        engine: Some(pb::EngineInfo {
            name: "fake".to_owned(),
            version: String::new(),
            sdk: String::new(),
        }),
        contract_version: 1,
        ..pb::Hello::default()
    }
}
