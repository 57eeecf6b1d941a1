//! Commands over the surface: what each answer looks like there.

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use signalbox::testkit::Host;

use super::{BUILD, Desk, answer, code};

async fn keyed(desk: &Desk, key: &str, body: &Value) -> (StatusCode, Value) {
    answer(
        desk.request(Method::POST, "/api/commands")
            .header("Idempotency-Key", key)
            .json(body),
    )
    .await
}

#[tokio::test]
async fn a_start_answers_with_its_execution_and_once_for_a_key() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let start = json!({"op": "run.start", "target": "workflow:build", "args": {"params": {"MODE": "0123"}, "priority": 5}, "reason": "a test"});
    let (status, first) = keyed(&desk, "k-1", &start).await;
    assert_eq!(status, StatusCode::OK, "{first}");
    assert_eq!(
        (&first["executionId"], &first["status"], &first["replayed"]),
        (&json!("x1"), &json!("DONE"), &json!(false))
    );
    let (status, again) = keyed(&desk, "k-1", &start).await;
    assert_eq!(
        (status, &again["executionId"], &again["replayed"]),
        (StatusCode::OK, &json!("x1"), &json!(true))
    );
    let shown = desk.read("/api/executions/x1").await;
    assert_eq!(
        (&shown["params"]["MODE"], &shown["priority"]),
        (&json!("0123"), &json!(5))
    );
    assert_eq!(desk.host.view().await.runs.len(), 1);

    let other = json!({"op": "run.start", "target": "workflow:build"});
    let (status, body) = keyed(&desk, "k-1", &other).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::CONFLICT, "KEY_CONFLICT")
    );
    let (status, body) = keyed(&desk, "ké", &other).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
    );
}

#[tokio::test]
async fn a_single_target_that_does_not_fit_is_an_error_and_several_have_a_result_each() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let id = desk.start("build").await;
    let target = format!("execution:{id}");
    let pause =
        json!({"op": "run.pause", "target": target, "reason": "look", "ifStatus": "PAUSED"});
    let (status, body) = desk.command(pause).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::CONFLICT, "PRECONDITION_FAILED")
    );
    assert_eq!(body["targets"][0]["detail"], "ifStatus RUNNING", "{body}");

    let (status, body) = desk
        .command(json!({"op": "run.pause", "target": target, "reason": "look"}))
        .await;
    assert_eq!(
        (
            status,
            &body["targets"][0]["outcome"],
            &body["targets"][0]["order"]
        ),
        (StatusCode::OK, &json!("APPLIED"), &json!(2)),
        "{body}"
    );
    let shown = desk.read(&format!("/api/executions/{id}")).await;
    assert_eq!(shown["status"], "PAUSING");
    assert_eq!(
        (&shown["holds"][0]["holder"], &shown["holds"][0]["reason"]),
        (&json!("person:KEY:test-1"), &json!("look")),
        "{shown}"
    );
    let (status, body) = desk
        .command(json!({"op": "run.pause", "target": target}))
        .await;
    assert_eq!(
        (status, &body["targets"][0]["outcome"]),
        (StatusCode::OK, &json!("ALREADY_IN_STATE"))
    );

    let (status, body) = desk
        .command(json!({"op": "node.skip", "target": format!("node:{id}/make,none,fetch")}))
        .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let outcomes: Vec<&Value> = body["targets"]
        .as_array()
        .expect("targets")
        .iter()
        .map(|t| &t["outcome"])
        .collect();
    assert_eq!(
        outcomes,
        [
            &json!("APPLIED"),
            &json!("NOT_FOUND"),
            &json!("PRECONDITION_FAILED")
        ]
    );

    for (body, status, expected) in [
        (
            json!({"op": "run.stop", "target": "execution:x99"}),
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
        ),
        (
            json!({"op": "run.start", "target": "workflow:none"}),
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
        ),
        (
            json!({"op": "run.halt", "target": target}),
            StatusCode::BAD_REQUEST,
            "UNKNOWN_OPERATION",
        ),
        (
            json!({"op": "run.stop", "target": "x1"}),
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
        ),
        (
            json!({"op": "run.stop", "target": target, "args": {"mod": "drain"}}),
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
        ),
        (
            json!({"op": "run.start", "target": "workflow:build", "args": {"params": {"X": "1"}}}),
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
        ),
    ] {
        let (found, answer) = desk.command(body.clone()).await;
        assert_eq!(
            (found, code(&answer)),
            (status, expected),
            "{body} {answer}"
        );
    }
}

#[tokio::test]
async fn the_owner_decides_and_a_refusal_says_so() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    desk.supervisor("id: pipeline\nowns: [\"workflow:build\"]\nengine: {transport: attached}\noperatorAccess: [run.start, run.pause, run.stop]\nreviewTimeout: 5s\n").await;
    let (status, body) = desk
        .command(json!({"op": "run.resume", "target": "workflow:build"}))
        .await;
    assert_eq!(status, StatusCode::OK, "no run, nothing to refuse: {body}");

    // Nobody answers: a start waits for its time and is refused.
    let start = desk.command(json!({"op": "run.start", "target": "workflow:build"}));
    let time_passes = async {
        desk.host
            .until(|view| view.reviews.values().any(|r| r.end.is_none()))
            .await;
        desk.host.advance(5_000).await;
    };
    let ((status, body), ()) = tokio::join!(start, time_passes);
    assert_eq!(
        (status, code(&body), &body["check"]),
        (StatusCode::FORBIDDEN, "CONTROL_REJECTED", &json!("review"))
    );
    assert!(
        body["detail"]
            .as_str()
            .expect("detail")
            .starts_with("timeout"),
        "{body}"
    );
}

#[tokio::test]
async fn what_the_owner_keeps_from_operators_is_a_conflict() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let id = desk.start("build").await;
    desk.supervisor("id: pipeline\nowns: [\"workflow:build\"]\nengine: {transport: attached}\n")
        .await;
    let (status, body) = desk
        .command(json!({"op": "run.stop", "target": format!("execution:{id}")}))
        .await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::CONFLICT, "CONTROLLED_BY_SUPERVISOR")
    );
    assert!(
        body["detail"]
            .as_str()
            .expect("detail")
            .contains("pipeline"),
        "{body}"
    );
}

#[tokio::test]
async fn who_is_too_fast_is_told_when_to_come_back() {
    let desk = Desk::with(Host::builder().settings(|s| s.operator_rate = 1)).await;
    desk.workflow(BUILD).await;
    desk.start("build").await;
    let request = desk
        .request(Method::POST, "/api/commands")
        .json(&json!({"op": "run.start", "target": "workflow:build"}));
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
}
