//! The event stream.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Method, header};
use serde_json::Value;
use signalbox::testkit::{FakeRuntime, Host, patience};

use super::{BUILD, Desk};

/// A reader of the stream.
struct Stream {
    bytes:
        std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    buffer: String,
}

impl Stream {
    async fn open(desk: &Desk, query: &str, last: Option<u64>) -> Self {
        let mut request = desk.request(Method::GET, &format!("/api/events{query}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = patience("the stream to open", request.send())
            .await
            .expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        assert_eq!(
            response.headers()[header::CACHE_CONTROL],
            "no-store, no-transform"
        );
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self {
            bytes: Box::pin(response.bytes_stream()),
            buffer: String::new(),
        }
    }

    /// Returns the next block: its id and its data, empty for a sign of life. None at the end.
    async fn block(&mut self) -> Option<(u64, Option<Value>)> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|l| l.strip_prefix(name))
                        .map(str::trim)
                };
                let id = field("id:")
                    .expect("every block has an id")
                    .parse()
                    .expect("a number");
                let data = field("data:").map(|d| serde_json::from_str(d).expect("JSON"));
                self.buffer = rest.to_owned();
                return Some((id, data));
            }
            let bytes = patience("the stream to go on", self.bytes.next())
                .await?
                .ok()?;
            self.buffer
                .push_str(std::str::from_utf8(&bytes).expect("text"));
        }
    }

    /// Returns the next event.
    async fn event(&mut self) -> Value {
        loop {
            let (id, data) = self.block().await.expect("the stream goes on");
            if let Some(data) = data {
                assert_eq!(data["seq"], id);
                return data;
            }
        }
    }

    /// Reads until a run has ended, and returns the events.
    async fn until_ended(&mut self, execution: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let event = self.event().await;
            let end = event["kind"] == "WORKFLOW_STATUS"
                && event["execution"] == execution
                && event["status"] == "SUCCEEDED";
            all.push(event);
            if end {
                return all;
            }
        }
    }
}

#[tokio::test]
async fn what_happens_comes_in_order_and_a_reader_that_comes_back_misses_nothing() {
    let desk = Desk::with(Host::builder().runtime(FakeRuntime::finishing())).await;
    let mut live = Stream::open(&desk, "", None).await;
    desk.workflow(BUILD).await;
    let id = desk.start("build").await;
    let all = live.until_ended(&id).await;
    let kinds: Vec<&str> = all
        .iter()
        .map(|e| e["kind"].as_str().expect("kind"))
        .collect();
    assert_eq!(
        (kinds[0], &all[0]["target"]),
        ("SAVED", &Value::from("workflow:build"))
    );
    assert!(
        kinds.contains(&"NODE_STATUS") && kinds.contains(&"CONTROL_OUTCOME"),
        "{kinds:?}"
    );
    let seqs: Vec<u64> = all
        .iter()
        .map(|e| e["seq"].as_u64().expect("seq"))
        .collect();
    assert!(seqs.windows(2).all(|w| w[0] < w[1]), "{seqs:?}");

    // From any place on, exactly the rest comes; the header wins over the query.
    for (n, seq) in seqs.iter().enumerate() {
        let mut again = Stream::open(&desk, "?after=1", Some(*seq)).await;
        if n + 1 < all.len() {
            assert_eq!(again.until_ended(&id).await, all[n + 1..]);
        }
    }
    let mut from_query = Stream::open(&desk, &format!("?after={}", seqs[0]), None).await;
    assert_eq!(from_query.until_ended(&id).await, all[1..]);
}

#[tokio::test]
async fn a_reader_of_one_execution_sees_only_that_and_learns_how_far_it_is() {
    let desk = Desk::with(Host::builder().runtime(FakeRuntime::finishing())).await;
    desk.workflow(BUILD).await;
    let (one, two) = (desk.start("build").await, desk.start("build").await);
    desk.host.until_run(&two, "SUCCEEDED").await;
    let end = *desk.host.handle().last_seq().borrow();
    let mut stream = Stream::open(&desk, &format!("?execution={one}&after=0"), None).await;
    let mut events = 0;
    loop {
        let (place, data) = stream.block().await.expect("goes on");
        match data {
            Some(event) => {
                assert_eq!(event["execution"], one);
                events += 1;
            }
            // Everything was read, although the last records are about the other one.
            None if place == end => break,
            None => assert_eq!(place, 0),
        }
    }
    assert!(events >= 6, "{events}");
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_nobody_up_and_gets_everything_later() {
    let desk = Desk::with(Host::builder().runtime(FakeRuntime::finishing())).await;
    desk.workflow(BUILD).await;
    let mut slow = Stream::open(&desk, "", None).await;
    let mut last = String::new();
    for _ in 0..150 {
        last = patience(
            "a start beside a reader that does not read",
            desk.start("build"),
        )
        .await;
    }
    desk.host.until_run(&last, "SUCCEEDED").await;
    let all = slow.until_ended(&last).await;
    let ended = all
        .iter()
        .filter(|e| e["kind"] == "WORKFLOW_STATUS" && e["status"] == "SUCCEEDED")
        .count();
    assert_eq!(ended, 150);
}

#[tokio::test]
async fn a_review_is_seen_when_it_opens_and_when_it_ends() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    desk.supervisor("id: pipeline\nowns: [\"workflow:build\"]\nengine: {transport: attached}\noperatorAccess: [run.start]\n").await;
    let mut stream = Stream::open(&desk, "", None).await;
    let start = desk.command(serde_json::json!({"op": "run.start", "target": "workflow:build"}));
    let watch = async {
        let opened = stream.event().await;
        assert_eq!(
            (&opened["kind"], &opened["supervisor"], &opened["op"]),
            (
                &"REVIEW_OPENED".into(),
                &"pipeline".into(),
                &"run.start".into()
            )
        );
        desk.host.advance(5_000).await;
        let closed = stream.event().await;
        assert_eq!(
            (&closed["kind"], &closed["end"]),
            (&"REVIEW_CLOSED".into(), &"timeout".into())
        );
    };
    tokio::join!(start, watch);
}

#[tokio::test]
async fn the_stream_ends_when_the_host_is_told_to_stop() {
    let mut desk = Desk::open().await;
    let mut stream = Stream::open(&desk, "", None).await;
    assert!(stream.block().await.is_some());
    tokio::time::timeout(Duration::from_secs(20), desk.cut())
        .await
        .expect("nobody holds the stop up");
    loop {
        if stream.block().await.is_none() {
            break;
        }
    }
}
