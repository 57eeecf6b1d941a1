//! What operators are promised: the REST surface, the event stream and the command line, over real sockets and with
//! the real program, on a host in this process.

mod access;
mod cli;
mod commands;
mod definitions;
mod events;
mod reads;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reqwest::{Method, StatusCode, header};
use serde_json::Value;
use signalbox::contract::id::SupervisorId;
use signalbox::operators::rest::{self, Hosts};
use signalbox::operators::view::EngineStatus;
use signalbox::operators::{
    EngineStatuses, LogError, LogName, LogPart, LogSource, OperatorService, Parts,
};
use signalbox::testkit::{Builder, Host, patience};
use tokio_util::sync::CancellationToken;

/// Two nodes in a row.
const BUILD: &str = "id: build\nparams:\n  MODE: {default: fast}\nnodes:\n  fetch: {run: [fetch]}\n  make: {run: [make], needs: [fetch]}\n";

/// A host with its operators' surface on a socket.
struct Desk {
    host: Host,
    logs: Arc<FakeLogs>,
    admin: String,
    viewer: String,
    http: reqwest::Client,
    address: SocketAddr,
    served: Option<Served>,
}

/// The surface, until it is cut.
struct Served {
    stopping: CancellationToken,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// Logs that a test makes up.
#[derive(Default)]
struct FakeLogs(Mutex<Vec<(String, LogPart)>>);

impl FakeLogs {
    fn put(&self, name: &str, part: LogPart) {
        let mut logs = self.0.lock().expect("logs");
        logs.retain(|(n, _)| n != name);
        logs.push((name.to_owned(), part));
    }

    fn text(&self, name: &str, text: &str) {
        let bytes = text.as_bytes().to_vec();
        self.put(
            name,
            LogPart {
                total: bytes.len() as u64,
                bytes,
                ..LogPart::default()
            },
        );
    }
}

impl LogSource for FakeLogs {
    fn tail(&self, log: &LogName, _: u64) -> Result<LogPart, LogError> {
        let LogName {
            execution,
            node,
            attempt,
            stream,
        } = log;
        let name = format!("{execution}/{node}/{attempt}/{stream:?}");
        let logs = self.0.lock().expect("logs");
        let found = logs.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, part)| part.clone())
            .ok_or_else(|| LogError::NotThere(format!("{name} has no log")))
    }
}

/// Engines of which one is connected.
struct FakeEngines;

impl EngineStatuses for FakeEngines {
    fn engine(&self, supervisor: &SupervisorId) -> EngineStatus {
        EngineStatus {
            connected: supervisor.as_str() == "connected",
            ..EngineStatus::default()
        }
    }
}

impl Desk {
    async fn open() -> Self {
        Self::with(Host::builder()).await
    }

    async fn with(builder: Builder) -> Self {
        let host = builder.start().await;
        let (admin, viewer) = (host.admin_key().await, host.viewer_key().await);
        let mut desk = Self {
            host,
            logs: Arc::default(),
            admin,
            viewer,
            http: reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("a client"),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            served: None,
        };
        desk.serve().await;
        desk
    }

    /// Serves, at the address of the last time if there was one.
    async fn serve(&mut self) {
        let listener = tokio::net::TcpListener::bind(self.address)
            .await
            .expect("binds");
        self.address = listener.local_addr().expect("an address");
        let stopping = CancellationToken::new();
        let service = OperatorService::new(Parts {
            host: self.host.handle().clone(),
            engines: Arc::new(FakeEngines),
            logs: Arc::clone(&self.logs) as Arc<dyn LogSource>,
            stopping: stopping.clone(),
        });
        let hosts = Hosts::new(&["desk.example".to_owned()]);
        let task = tokio::spawn(rest::serve(listener, service, hosts));
        self.served = Some(Served { stopping, task });
    }

    /// Cuts every connection.
    async fn cut(&mut self) {
        let Some(Served { stopping, task }) = self.served.take() else {
            return;
        };
        stopping.cancel();
        patience("the surface to end", task)
            .await
            .expect("no panic")
            .expect("no error");
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, self.url(path))
            .bearer_auth(&self.admin)
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    /// Reads something that must be there.
    async fn read(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert!(body["asOf"].is_u64(), "{path} says no asOf: {body}");
        body
    }

    async fn put(&self, path: &str, media_type: &str, text: &str) -> (StatusCode, Value) {
        let request = self
            .request(Method::PUT, path)
            .header(header::CONTENT_TYPE, media_type);
        answer(request.body(text.to_owned())).await
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    async fn command(&self, body: Value) -> (StatusCode, Value) {
        self.post("/api/commands", &body).await
    }

    /// Saves a workflow that is right.
    async fn workflow(&self, yaml: &str) {
        let id = yaml
            .lines()
            .find_map(|l| l.strip_prefix("id: "))
            .expect("an id");
        let (status, body) = self
            .put(&format!("/api/workflows/{id}"), "application/yaml", yaml)
            .await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    /// Saves a supervisor that is right.
    async fn supervisor(&self, yaml: &str) {
        let id = yaml
            .lines()
            .find_map(|l| l.strip_prefix("id: "))
            .expect("an id");
        let (status, body) = self
            .put(&format!("/api/supervisors/{id}"), "application/yaml", yaml)
            .await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    async fn start(&self, workflow: &str) -> String {
        let (status, body) = self
            .command(
                serde_json::json!({"op": "run.start", "target": format!("workflow:{workflow}")}),
            )
            .await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["executionId"]
            .as_str()
            .expect("an execution")
            .to_owned()
    }
}

/// Sends a request and returns its status and its JSON body.
async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = patience("an answer", request.send())
        .await
        .expect("an answer");
    let status = response.status();
    let media_type = response.headers().get(header::CONTENT_TYPE).cloned();
    let text = patience("a body", response.text()).await.expect("a body");
    if !status.is_success() {
        assert_eq!(
            media_type.expect("a media type"),
            rest::PROBLEM_JSON,
            "{status} {text}"
        );
        let body: Value = serde_json::from_str(&text).expect("a problem body");
        assert_eq!(body["status"], status.as_u16(), "{body}");
        for field in ["type", "title", "detail", "instance", "code"] {
            assert!(
                body[field].as_str().is_some_and(|t| !t.is_empty()),
                "{field} in {body}"
            );
        }
        return (status, body);
    }
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap_or_default()
}
