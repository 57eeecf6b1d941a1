//! The client against a small server in this process, over a real socket.

use super::*;

use std::sync::{Arc, Mutex};

use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response};
use tonic_types::ErrorDetails;

use crate::proto::connect_request::Body as FromEngine;
use crate::proto::connect_response::Body as FromHost;
use crate::proto::engine_service_server::{EngineService, EngineServiceServer};
use crate::proto::signal::Kind;

const SOURCE: &str = r#"
rules:
  - name: tell
    on: Event
    when: event.status == "FAILED"
    do:
      - notify: {level: warning, message: "${event.node} failed"}
"#;

/// One session as the server sees it.
struct Session {
    authorization: String,
    frames: Streaming<pb::ConnectRequest>,
    answers: mpsc::Sender<Result<pb::ConnectResponse, Status>>,
}

impl Session {
    async fn next(&mut self) -> FromEngine {
        self.frames.message().await.unwrap().unwrap().body.unwrap()
    }

    async fn say(&self, body: FromHost) {
        self.answers
            .send(Ok(pb::ConnectResponse { body: Some(body) }))
            .await
            .unwrap();
    }

    async fn start(&mut self, n: u32) -> pb::Hello {
        let FromEngine::Hello(hello) = self.next().await else {
            panic!("hello comes first")
        };
        let started = pb::Started {
            reason: "first".to_owned(),
            session: format!("session-{n}"),
            ..Default::default()
        };
        self.say(FromHost::Signal(pb::Signal {
            id: format!("s-{n}"),
            time_ms: 1,
            kind: Some(Kind::Started(started)),
        }))
        .await;
        self.say(FromHost::SnapshotChunk(pb::SnapshotChunk {
            seq: 0,
            last: true,
            ..Default::default()
        }))
        .await;
        hello
    }

    /// Returns the next frame that is a directive.
    async fn directive(&mut self) -> pb::Directive {
        loop {
            if let FromEngine::Directive(directive) = self.next().await {
                return directive;
            }
        }
    }

    /// Waits until the engine acknowledges a cursor.
    async fn acked(&mut self, cursor: &str) {
        loop {
            match self.next().await {
                FromEngine::Ack(ack) if ack.cursor == cursor => return,
                _ => {}
            }
        }
    }
}

/// Hands each session to the test, or refuses it with what the test prepared.
struct Server {
    sessions: mpsc::Sender<Session>,
    refusals: Arc<Mutex<Vec<Status>>>,
}

#[tonic::async_trait]
impl EngineService for Server {
    async fn connect(
        &self,
        request: Request<Streaming<pb::ConnectRequest>>,
    ) -> Result<Response<BoxStream<pb::ConnectResponse>>, Status> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        let authorization = request
            .metadata()
            .get("authorization")
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let (answers, stream) = mpsc::channel(16);
        let session = Session {
            authorization,
            frames: request.into_inner(),
            answers,
        };
        self.sessions
            .send(session)
            .await
            .map_err(|_| Status::cancelled("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

struct Host {
    env: ConnectEnv,
    sessions: mpsc::Receiver<Session>,
    refusals: Arc<Mutex<Vec<Status>>>,
}

async fn host(managed: bool) -> Host {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (sender, sessions) = mpsc::channel(4);
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let server = Server {
        sessions: sender,
        refusals: Arc::clone(&refusals),
    };
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(EngineServiceServer::new(server))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let env = ConnectEnv::read(|name| match name {
        "SIGNALBOX_ENGINE_ADDR" => Some(addr.clone()),
        "SIGNALBOX_ENGINE_TOKEN" => Some("t0ken".to_owned()),
        "SIGNALBOX_SUPERVISOR" => Some("night".to_owned()),
        "SIGNALBOX_MANAGED" => Some(u8::from(managed).to_string()),
        _ => None,
    })
    .unwrap();
    Host {
        env,
        sessions,
        refusals,
    }
}

impl Host {
    /// Starts an engine, which runs until its host refuses it.
    fn engine(&self) -> tokio::task::JoinHandle<Result<(), Error>> {
        let rules = crate::load::parse(Path::new("rules.yaml"), SOURCE).unwrap();
        tokio::spawn(follow(rules, self.env.clone(), std::future::pending()))
    }

    async fn session(&mut self) -> Session {
        self.sessions.recv().await.unwrap()
    }
}

fn failed(n: u32) -> FromHost {
    FromHost::Signal(pb::Signal {
        id: format!("e-{n}"),
        time_ms: 1,
        kind: Some(Kind::Event(Box::new(pb::Event {
            kind: "NODE_STATUS".to_owned(),
            cursor: format!("c-{n}"),
            node: "build".to_owned(),
            status: "FAILED".to_owned(),
            ..Default::default()
        }))),
    })
}

fn done(directive: &pb::Directive) -> FromHost {
    FromHost::Result(pb::DirectiveResult {
        r#ref: directive.r#ref,
        key: directive.key.clone(),
        status: "DONE".to_owned(),
        ..Default::default()
    })
}

#[tokio::test]
async fn an_engine_says_hello_directs_and_acknowledges_after_the_result() {
    let mut host = host(false).await;
    let engine = host.engine();
    let mut session = host.session().await;
    assert_eq!(session.authorization, "Bearer t0ken");
    let hello = session.start(1).await;
    assert_eq!(
        (
            hello.supervisor.as_str(),
            hello.contract_version,
            hello.heartbeat
        ),
        ("night", 1, true)
    );
    assert_eq!(hello.resume, None, "it goes on where the host stored it");
    session.say(failed(1)).await;
    let FromEngine::Directive(directive) = session.next().await else {
        panic!("an acknowledgement came before the result")
    };
    assert_eq!(directive.key, "rules/tell/e-1/0");
    session.say(done(&directive)).await;
    session.acked("c-1").await;
    engine.abort();
}

#[tokio::test]
async fn an_attached_engine_comes_back_and_sends_what_is_open_under_the_same_key() {
    let mut host = host(false).await;
    let engine = host.engine();
    let mut first = host.session().await;
    first.start(1).await;
    first.say(failed(1)).await;
    let before = first.directive().await;
    drop(first);
    let mut second = host.session().await;
    second.start(2).await;
    let after = second.directive().await;
    assert_eq!((after.key, after.body), (before.key, before.body));
    engine.abort();
}

#[tokio::test]
async fn an_engine_that_is_not_let_in_ends_with_advice() {
    for (refusal, part) in [
        (
            Status::unauthenticated("no such token"),
            "issue a new credential",
        ),
        (
            Status::permission_denied("supervisor day"),
            "another supervisor's",
        ),
        (
            Status::failed_precondition("version 2 only"),
            "same contract version",
        ),
    ] {
        let message = refusal.message().to_owned();
        let host = host(false).await;
        host.refusals.lock().unwrap().push(refusal);
        let error = host.engine().await.unwrap().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(&message), "{error}");
    }
}

#[tokio::test]
async fn an_engine_that_was_replaced_ends() {
    let mut host = host(false).await;
    let engine = host.engine();
    let mut session = host.session().await;
    session.start(1).await;
    session
        .say(FromHost::Goaway(pb::Goaway {
            reason: "REPLACED".to_owned(),
            ..Default::default()
        }))
        .await;
    assert!(matches!(engine.await.unwrap(), Err(Error::Replaced { .. })));
}

#[tokio::test]
async fn a_managed_engine_ends_with_its_session_and_an_attached_one_comes_back() {
    let goaway = || {
        FromHost::Goaway(pb::Goaway {
            reason: "SHUTTING_DOWN".to_owned(),
            ..Default::default()
        })
    };

    let mut managed = host(true).await;
    let engine = managed.engine();
    let mut session = managed.session().await;
    session.start(1).await;
    session.say(goaway()).await;
    assert!(engine.await.unwrap().is_ok());

    let engine = managed.engine();
    let mut session = managed.session().await;
    session.start(2).await;
    session
        .answers
        .send(Err(Status::internal("broken")))
        .await
        .unwrap();
    assert!(
        matches!(engine.await.unwrap(), Err(Error::SessionEnded { message }) if message.contains("broken"))
    );

    let mut attached = host(false).await;
    let engine = attached.engine();
    let mut session = attached.session().await;
    session.start(1).await;
    session.say(goaway()).await;
    attached.session().await;
    engine.abort();
}

#[tokio::test]
async fn an_engine_ends_when_its_host_is_gone() {
    let mut host = host(true).await;
    let rules = crate::load::parse(Path::new("rules.yaml"), SOURCE).unwrap();
    let (die, gone) = oneshot::channel::<()>();
    let engine = tokio::spawn(follow(
        rules,
        host.env.clone(),
        Box::pin(async move { drop(gone.await) }),
    ));
    let mut session = host.session().await;
    session.start(1).await;
    drop(die);
    assert!(engine.await.unwrap().is_ok());
}

#[tokio::test]
async fn an_engine_that_is_told_when_to_come_back_does_not_come_sooner() {
    let host = host(false).await;
    let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(25)));
    let status = Status::with_error_details(Code::Unavailable, "too early", details);
    let next = verdict(&host.env, Ended::Failed(status)).unwrap();
    assert!(matches!(next, Next::Again { asked: Some(asked) } if asked == Duration::from_secs(25)));
}

#[tokio::test]
async fn a_silent_session_hears_the_heartbeat_within_ten_seconds() {
    let mut host = host(false).await;
    let engine = host.engine();
    let mut session = host.session().await;
    session.start(1).await;
    let beat = tokio::time::timeout(HEARTBEAT + Duration::from_secs(2), async {
        while !matches!(session.next().await, FromEngine::Alive(_)) {}
    });
    assert!(beat.await.is_ok());
    engine.abort();
}
