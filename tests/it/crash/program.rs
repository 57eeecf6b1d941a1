//! The real program as a child process, and a client of its operators' surface.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long anything may take before a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// How soon it is looked again where no event says that something changed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Returns the next number of a fixed sequence.
pub fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A running `signalbox serve`.
pub struct Program {
    child: std::sync::Mutex<Child>,
    url: String,
    key: String,
    client: reqwest::Client,
}

impl Program {
    /// Starts it on a data directory and waits until it is ready.
    pub async fn start(dir: &Path) -> Self {
        let started = Self::try_start(dir, "").await;
        started.unwrap_or_else(|| {
            let log = std::fs::read_to_string(dir.join("host.err")).unwrap_or_default();
            panic!("the host is not ready: {log}")
        })
    }

    /// Starts it with fail points; none where it ended before it was ready.
    pub async fn try_start(dir: &Path, fail_points: &str) -> Option<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command
            .args([
                "serve",
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(dir)
            // Not the developer's own host, and not their configuration.
            .env("XDG_RUNTIME_DIR", dir)
            .env_remove("SIGNALBOX_CONFIG")
            .env("FAILPOINTS", fail_points)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(
                std::fs::File::options()
                    .create(true)
                    .append(true)
                    .open(dir.join("host.err"))
                    .unwrap(),
            ));
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (send, ready) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            use std::io::BufRead as _;
            let (mut send, mut url) = (Some(send), String::new());
            for line in std::io::BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
            {
                if let Some(at) = line.strip_prefix("operators ") {
                    at.trim().clone_into(&mut url);
                }
                if let Some(send) = send.take_if(|_| line == "ready") {
                    let _ = send.send(url.clone());
                }
            }
        });
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        let Ok(url) = ready.expect("the host is ready, or ends, in time") else {
            child.wait().unwrap();
            return None;
        };
        let key = std::fs::read_to_string(dir.join("admin.key"))
            .unwrap()
            .trim()
            .to_owned();
        Some(Self {
            child: std::sync::Mutex::new(child),
            url,
            key,
            client: reqwest::Client::new(),
        })
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client
            .get(format!("{}{path}", self.url))
            .bearer_auth(&self.key)
            .timeout(PATIENCE)
    }

    /// Saves the workflow `ledger`; returns the status.
    pub async fn save_workflow(&self, yaml: &str) -> u16 {
        let request = self
            .client
            .put(format!("{}/api/workflows/ledger", self.url))
            .bearer_auth(&self.key);
        let request = request
            .header("content-type", "application/yaml")
            .body(yaml.to_owned());
        request.send().await.unwrap().status().as_u16()
    }

    /// Saves the workflow `ledger`, which must be right.
    pub async fn apply_workflow(&self, yaml: &str) {
        assert_eq!(self.save_workflow(yaml).await, 200);
    }

    /// Sends a command; none when no answer came.
    pub async fn command(&self, body: &Value, key: &str) -> Option<(u16, Value)> {
        let request = self
            .client
            .post(format!("{}/api/commands", self.url))
            .bearer_auth(&self.key);
        let response = request
            .header("idempotency-key", key)
            .json(body)
            .timeout(PATIENCE)
            .send()
            .await
            .ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.ok()?))
    }

    /// Reads one execution.
    pub async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/api/executions/{id}"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    /// Reads all executions, page by page.
    pub async fn executions(&self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let path = format!("/api/executions?page_size=100&page_token={token}");
            let path = if token.is_empty() {
                "/api/executions?page_size=100".to_owned()
            } else {
                path
            };
            let page: Value = self.get(&path).send().await.unwrap().json().await.unwrap();
            all.extend(page["executions"].as_array().cloned().unwrap_or_default());
            match page["nextPageToken"].as_str().filter(|t| !t.is_empty()) {
                Some(next) => token = next.to_owned(),
                None => return all,
            }
        }
    }

    /// Reads one supervisor.
    async fn supervisor(&self, id: &str) -> Value {
        self.get(&format!("/api/supervisors/{id}"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    /// Returns the live session of a supervisor's engine.
    pub async fn session_of(&self, id: &str) -> Option<String> {
        let engine = &self.supervisor(id).await["engine"];
        engine["session"]
            .as_str()
            .filter(|_| engine["connected"] == true)
            .map(str::to_owned)
    }

    /// Waits until a supervisor's engine has a session, another one than this.
    pub async fn until_connected(&self, id: &str, other_than: Option<&str>) {
        self.until_true(&format!("the engine of {id} is connected"), async || {
            self.session_of(id)
                .await
                .is_some_and(|session| other_than != Some(session.as_str()))
        })
        .await;
    }

    /// Reads the whole audit.
    pub async fn audit(&self) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().and_then(|row| row["no"].as_u64()).unwrap_or(0);
            let path = format!("/api/audit?after={after}&limit=500");
            let page: Value = self.get(&path).send().await.unwrap().json().await.unwrap();
            let rows = page["rows"].as_array().cloned().unwrap_or_default();
            if rows.is_empty() {
                return all;
            }
            all.extend(rows);
        }
    }

    /// Waits until the audit has such a row.
    pub async fn until_audit(&self, wanted: impl Fn(&Value) -> bool) {
        self.until_true("the audit row", async || {
            self.audit().await.iter().any(&wanted)
        })
        .await;
    }

    /// Waits until an execution is so.
    pub async fn until(&self, id: &str, wanted: impl Fn(&Value) -> bool) {
        self.until_true(&format!("{id} is so"), async || {
            wanted(&self.execution(id).await)
        })
        .await;
    }

    /// Waits until something is true: looks again at each event, and soon without one.
    async fn until_true(&self, what: &str, look: impl AsyncFn() -> bool) {
        let wait = async {
            let request = self
                .client
                .get(format!("{}/api/events", self.url))
                .bearer_auth(&self.key);
            let mut events = request.send().await.unwrap();
            while !look().await {
                // Sessions and audit rows are no events: without one it looks again soon.
                if let Ok(chunk) = tokio::time::timeout(LOOK_AGAIN, events.chunk()).await {
                    assert!(chunk.unwrap().is_some(), "the event stream goes on");
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| panic!("{what} in time"));
    }

    /// Waits until an execution has ended: looks again at each event.
    pub async fn until_ended(&self, id: &str) -> Value {
        let wait = async {
            let mut events = self
                .client
                .get(format!("{}/api/events", self.url))
                .bearer_auth(&self.key)
                .send()
                .await
                .unwrap();
            loop {
                let execution = self.execution(id).await;
                if matches!(
                    execution["status"].as_str(),
                    Some("SUCCEEDED" | "FAILED" | "STOPPED")
                ) {
                    return execution;
                }
                if events.chunk().await.unwrap().is_none() {
                    panic!("the event stream ended before {id} did");
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or_else(|_| panic!("{id} ends in time"))
    }

    /// Kills it as the kernel would.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Ends it cleanly.
    pub async fn stop(self) {
        let child = self.child.into_inner().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut child = child;
        let ended = tokio::task::spawn_blocking(move || child.wait());
        let status = tokio::time::timeout(PATIENCE, ended)
            .await
            .expect("the host ends in time")
            .unwrap()
            .unwrap();
        assert!(status.success(), "a clean stop is exit 0: {status}");
    }
}
