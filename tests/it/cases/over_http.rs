//! A24, A48, A62 and A63 as a caller of the operators' surface sees them, each request on a connection of its own.

use serde_json::{Value, json};
use signalbox::testkit::{FakeEngine, Host, patience};
use tokio::task::JoinHandle;

use super::{chain, free, owned, start_by};

/// A caller of the operators' surface.
struct Caller {
    url: String,
    key: String,
}

impl Caller {
    async fn new(host: &Host) -> Self {
        Self {
            url: format!("http://{}/api/commands", host.http_addr()),
            key: host.admin_key().await,
        }
    }

    /// Sends a command on a new connection; what comes is the status and the body.
    fn send(&self, op: &str, target: &str, key: &str) -> JoinHandle<(u16, Value)> {
        let request = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client")
            .post(&self.url)
            .bearer_auth(&self.key)
            .header("Idempotency-Key", key)
            .json(&json!({"op": op, "target": target}));
        tokio::spawn(async move {
            let response = patience("an answer over HTTP", request.send()).await;
            let response = response.expect("the host answers");
            let status = response.status().as_u16();
            (status, response.json().await.expect("the answer is JSON"))
        })
    }
}

async fn answer(waiting: JoinHandle<(u16, Value)>) -> (u16, Value) {
    waiting.await.expect("the caller's task goes on")
}

async fn bed() -> (Host, FakeEngine, String, Caller) {
    let host = owned(chain()).operators().start().await;
    let mut engine = host.engine("night").await;
    let run = start_by(&mut engine, "start").await;
    let caller = Caller::new(&host).await;
    (host, engine, format!("execution:{run}"), caller)
}

#[tokio::test]
async fn a24_a_caller_sees_the_stop_applied_and_the_pause_refused_with_403_after_five_seconds() {
    let (host, mut engine, target, caller) = bed().await;
    let pause = caller.send("run.pause", &target, "k-1");
    engine.next_review().await;
    let stop = caller.send("run.stop", &target, "k-2");
    engine.next_review().await;
    host.advance(4_999).await;
    assert!(!pause.is_finished() && !stop.is_finished());
    host.advance(1).await;
    let (status, body) = answer(pause).await;
    assert_eq!((status, &body["code"]), (403, &json!("CONTROL_REJECTED")));
    let (status, body) = answer(stop).await;
    assert_eq!(
        (status, &body["targets"][0]["outcome"]),
        (200, &json!("APPLIED")),
        "{body}"
    );
}

#[tokio::test]
async fn a48_two_connections_with_one_key_get_one_answer() {
    let (host, mut engine, target, caller) = bed().await;
    let first = caller.send("run.pause", &target, "k-1");
    let review = engine.next_review().await;
    let second = caller.send("run.pause", &target, "k-1");
    host.advance(3_000).await;
    engine.verdict(&review.id, "allow").await;
    let (first, second) = (answer(first).await, answer(second).await);
    assert_eq!((first.0, second.0), (200, 200));
    assert_eq!(first.1["targets"], second.1["targets"]);
    let rows = host.audit();
    let rows = rows
        .iter()
        .filter(|r| r.kind == "command" && r.op.as_deref() == Some("run.pause"));
    assert_eq!(rows.count(), 1);
    assert_eq!(host.view().await.last_review, 1);
}

#[tokio::test]
async fn a62_a_key_that_paused_a_run_stops_nothing_on_another_connection() {
    let host = free(chain()).operators().start().await;
    let run = host.start_run("w").await;
    let target = format!("execution:{run}");
    let caller = Caller::new(&host).await;
    let (status, body) = answer(caller.send("run.pause", &target, "k-1")).await;
    assert_eq!(status, 200, "{body}");
    let (status, body) = answer(caller.send("run.stop", &target, "k-1")).await;
    assert_eq!((status, &body["code"]), (409, &json!("KEY_CONFLICT")));
    assert_eq!(host.run_status(&run).await.as_str(), "PAUSING");
}

#[tokio::test]
async fn a63_sixty_four_starts_with_one_key_on_as_many_connections_are_one_run() {
    let host = free(chain()).operators().start().await;
    let caller = Caller::new(&host).await;
    let calls: Vec<_> = (0..64)
        .map(|_| caller.send("run.start", "workflow:w", "k-1"))
        .collect();
    let mut first = 0;
    for call in calls {
        let (status, body) = answer(call).await;
        assert_eq!(
            (status, &body["targets"][0]["target"]),
            (200, &json!("execution:x1")),
            "{body}"
        );
        first += usize::from(body["replayed"] == json!(false));
    }
    assert_eq!(first, 1);
    assert_eq!(host.view().await.runs.len(), 1);
}
