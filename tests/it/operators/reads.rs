//! Reads over the surface.

use reqwest::StatusCode;
use serde_json::{Value, json};
use signalbox::operators::LogPart;
use signalbox::testkit::{FakeRuntime, Host};

use super::{BUILD, Desk, code};

fn ids(page: &Value) -> Vec<&str> {
    page["executions"]
        .as_array()
        .expect("list")
        .iter()
        .map(|e| e["id"].as_str().expect("id"))
        .collect()
}

#[tokio::test]
async fn the_contract_lists_every_operation_and_whether_it_is_served() {
    let desk = Desk::open().await;
    let contract = desk.read("/api/supervisor-contract").await;
    assert_eq!(contract["version"], 1);
    let operations = contract["operations"].as_array().expect("list");
    assert_eq!(operations.len(), 21);
    let stop = operations
        .iter()
        .find(|o| o["name"] == "run.stop")
        .expect("run.stop");
    assert_eq!(
        (&stop["served"], &stop["level"], &stop["args"][0]["name"]),
        (&json!(true), &json!("run"), &json!("mode"))
    );
}

#[tokio::test]
async fn executions_come_the_newest_first_and_pages_stay_true_while_more_are_started() {
    let desk = Desk::with(Host::builder().runtime(FakeRuntime::finishing())).await;
    desk.workflow(BUILD).await;
    desk.workflow("id: other\nnodes: {a: {run: [x]}}\n").await;
    for _ in 0..3 {
        desk.start("build").await;
        desk.start("other").await;
    }
    desk.host.until_run("x5", "SUCCEEDED").await;
    let first = desk
        .read("/api/executions?page_size=2&workflow=build")
        .await;
    assert_eq!(ids(&first), ["x5", "x3"]);
    desk.start("build").await;
    let token = first["nextPageToken"].as_str().expect("more");
    let second = desk
        .read(&format!(
            "/api/executions?page_size=2&workflow=build&page_token={token}"
        ))
        .await;
    assert_eq!(
        (ids(&second), &second["nextPageToken"]),
        (vec!["x1"], &Value::Null)
    );

    for path in [
        format!("/api/executions?page_size=2&workflow=other&page_token={token}"),
        format!("/api/executions?page_size=2&page_token={token}"),
        "/api/executions?page_token=p1-1-0".to_owned(),
    ] {
        let (status, body) = desk.get(&path).await;
        assert_eq!(
            (status, code(&body)),
            (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            "{path}"
        );
    }
    desk.host.until_run("x7", "SUCCEEDED").await;
    assert_eq!(
        ids(&desk.read("/api/executions?status=failed,STOPPED").await),
        Vec::<&str>::new()
    );
    assert_eq!(
        ids(&desk
            .read("/api/executions?status=SUCCEEDED&page_size=500")
            .await)
        .len(),
        7
    );
}

#[tokio::test]
async fn an_execution_is_shown_with_its_nodes_and_how_they_ended() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    desk.supervisor("id: pipeline\nowns: [\"node:build/make\"]\nengine: {transport: attached}\n")
        .await;
    let id = desk.start("build").await;
    desk.host.exit(&id, "fetch", 3).await;
    desk.host.until_run(&id, "FAILED").await;
    let shown = desk.read(&format!("/api/executions/{id}")).await;
    assert_eq!(
        (&shown["id"], &shown["status"], &shown["params"]),
        (&json!(id), &json!("FAILED"), &json!({"MODE": "fast"}))
    );
    let (fetch, make) = (&shown["nodes"][0], &shown["nodes"][1]);
    assert_eq!(
        (
            &fetch["id"],
            &fetch["status"],
            &fetch["why"],
            &fetch["exitCode"],
            &fetch["attempt"]
        ),
        (
            &json!("fetch"),
            &json!("FAILED"),
            &json!("exit"),
            &json!(3),
            &json!(1)
        )
    );
    assert_eq!(
        (
            &make["status"],
            &make["why"],
            &make["needs"],
            &make["owner"]
        ),
        (
            &json!("SKIPPED"),
            &json!("upstream"),
            &json!(["fetch"]),
            &json!("pipeline")
        )
    );
}

#[tokio::test]
async fn a_read_shows_the_state_that_it_names() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let mut last = 0;
    for n in 1..=5 {
        let id = desk.start("build").await;
        let list = desk.read("/api/executions").await;
        let as_of = list["asOf"].as_u64().expect("asOf");
        assert!(as_of > last, "the start is behind the place that is named");
        last = as_of;
        assert_eq!((ids(&list).len(), ids(&list)[0]), (n, id.as_str()));
    }
}

#[tokio::test]
async fn a_log_is_read_from_its_end_and_followed_from_where_it_was() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let id = desk.start("build").await;
    let path = format!("/api/executions/{id}/logs");
    let (status, body) = desk.get(&path).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
    );
    assert!(
        body["detail"]
            .as_str()
            .expect("detail")
            .contains("fetch, make"),
        "{body}"
    );

    desk.logs.text("x1/fetch/1/Stdout", "one\ntwo\n");
    let log = desk.read(&format!("{path}?node=fetch&tail=4")).await;
    assert_eq!(
        (
            &log["text"],
            &log["truncated"],
            &log["next"],
            &log["running"]
        ),
        (&json!("two\n"), &json!(true), &json!(8), &json!(true))
    );
    desk.logs.text("x1/fetch/1/Stdout", "one\ntwo\nthree\n");
    let log = desk.read(&format!("{path}?node=fetch&after=8")).await;
    assert_eq!(
        (&log["text"], &log["truncated"], &log["next"]),
        (&json!("three\n"), &json!(false), &json!(14))
    );

    desk.logs.put(
        "x1/fetch/1/Stderr",
        LogPart {
            bytes: b"begin\xffend".to_vec(),
            total: 100,
            dropped: 91,
            gap_at: Some(6),
        },
    );
    let log = desk
        .read(&format!("{path}?node=fetch&attempt=1&stream=stderr"))
        .await;
    assert_eq!(log["text"], "begin\u{fffd}\n[91 bytes are not kept]\nend");
    let (status, body) = desk.get(&format!("{path}?node=fetch&attempt=2")).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
}

#[tokio::test]
async fn the_audit_is_read_in_order_by_place_and_by_what_it_is_about() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let (one, two) = (desk.start("build").await, desk.start("build").await);
    desk.command(
        json!({"op": "run.pause", "target": format!("execution:{two}"), "reason": "why not"}),
    )
    .await;
    desk.command(json!({"op": "node.skip", "target": format!("node:{two}/make")}))
        .await;
    desk.command(json!({"op": "run.halt", "target": format!("execution:{one}")}))
        .await;
    let all = desk.read("/api/audit").await;
    let numbers: Vec<u64> = all["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| r["no"].as_u64().expect("no"))
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        all["rows"]
            .as_array()
            .and_then(|r| r.last())
            .expect("a row")["hash"],
        all["head"]
    );

    // Paging from the beginning gives the same.
    let (mut after, mut paged) = (0, Vec::new());
    loop {
        let page = desk
            .read(&format!("/api/audit?after={after}&limit=2"))
            .await;
        paged.extend(page["rows"].as_array().expect("rows").clone());
        after = page["next"].as_u64().expect("next");
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(Value::Array(paged), all["rows"]);

    let about = desk
        .read(&format!("/api/audit?execution={two}&kind=command"))
        .await;
    let ops: Vec<&Value> = about["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| &r["op"])
        .collect();
    assert_eq!(
        ops,
        [
            &json!("run.start"),
            &json!("run.pause"),
            &json!("node.skip")
        ]
    );
    assert_eq!(about["rows"][1]["reason"], "why not");
    let newest = desk.read("/api/audit?limit=1&kind=command").await;
    assert_eq!(newest["rows"][0]["op"], "node.skip");
}
