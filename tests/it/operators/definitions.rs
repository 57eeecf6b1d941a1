//! Saving definitions over the surface.

use reqwest::StatusCode;
use serde_json::{Value, json};
use signalbox::contract::directive::Actor;
use signalbox::core::record::Source;
use signalbox::definitions::{Format, read_workflow};

use super::{BUILD, Desk, code};

const YAML: &str = "application/yaml";

#[tokio::test]
async fn a_workflow_is_the_same_in_yaml_and_in_json() {
    let desk = Desk::open().await;
    let odd = "id: odd\nparams: {P: {default: 0123}}\nnodes:\n  on: {run: [echo, 1.10, no]}\n  0123: {run: [echo, 2026-01-01], needs: [on]}\n";
    let (status, saved) = desk.put("/api/workflows/odd", YAML, odd).await;
    assert_eq!(status, StatusCode::OK, "{saved}");
    assert_eq!(
        (&saved["changed"], &saved["revision"], &saved["id"]),
        (&json!(true), &json!(1), &json!("odd"))
    );
    let shown = desk.read("/api/workflows/odd").await;
    assert_eq!(
        shown["definition"]["nodes"]["on"]["run"],
        json!(["echo", "1.10", "no"])
    );
    assert_eq!(shown["definition"]["params"]["P"]["default"], "0123");

    // What is shown can be saved again, and changes nothing.
    let json = shown["definition"].to_string();
    let (status, again) = desk
        .put(
            "/api/workflows/odd",
            "application/json; charset=utf-8",
            &json,
        )
        .await;
    assert_eq!(
        (status, &again["changed"], &again["revision"]),
        (StatusCode::OK, &json!(false), &json!(1)),
        "{again}"
    );
    let list = desk.read("/api/workflows").await;
    assert_eq!(
        list["workflows"],
        json!([{"id": "odd", "revision": 1, "source": "api", "nodes": 2}])
    );
}

#[tokio::test]
async fn every_mistake_is_answered_with_its_line_and_nothing_is_saved() {
    let desk = Desk::open().await;
    let text = "id: build\nnodes:\n  a: {run: [x], neds: [b]}\n  a: {run: [y]}\n  c: {run: x}\n";
    let (status, body) = desk.put("/api/workflows/build", YAML, text).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
    );
    let places: Vec<(&Value, &Value)> = body["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| (&e["line"], &e["path"]))
        .collect();
    assert_eq!(
        places,
        [
            (&json!(3), &json!("nodes.a.neds")),
            (&json!(4), &json!("nodes.a")),
            (&json!(5), &json!("nodes.c.run"))
        ]
    );
    let (status, body) = desk.put("/api/workflows/other", YAML, BUILD).await;
    assert_eq!(
        (status, &body["errors"][0]["line"]),
        (StatusCode::BAD_REQUEST, &json!(1)),
        "{body}"
    );
    assert_eq!(desk.read("/api/workflows").await["workflows"], json!([]));
}

#[tokio::test]
async fn a_unit_has_one_owner_and_the_refusal_names_the_line() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    desk.supervisor("id: one\nowns: [\"workflow:build\"]\nengine: {transport: attached}\n")
        .await;
    let text =
        "id: two\nowns:\n  - workflow:other\n  - workflow:build\nengine: {transport: attached}\n";
    let (status, body) = desk.put("/api/supervisors/two", YAML, text).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::CONFLICT, "OWNERSHIP_CONFLICT")
    );
    assert_eq!(
        (&body["errors"][0]["path"], &body["errors"][0]["line"]),
        (&json!("owns[1]"), &json!(4))
    );
    assert!(
        body["detail"].as_str().expect("detail").contains("`one`"),
        "{body}"
    );
    assert_eq!(desk.read("/api/workflows/build").await["owner"], "one");
    assert_eq!(
        desk.read("/api/supervisors").await["supervisors"]
            .as_array()
            .expect("list")
            .len(),
        1
    );
}

#[tokio::test]
async fn a_supervisor_says_how_its_engine_is_connected_and_never_shows_its_environment() {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    let text = "id: connected\nowns: [\"workflow:build\"]\nengine: {transport: attached}\nallowedCommands: [run.pause]\n";
    let (status, saved) = desk.put("/api/supervisors/connected", YAML, text).await;
    assert_eq!(status, StatusCode::OK, "{saved}");
    assert_eq!(saved["warnings"][0]["path"], "operatorAccess", "{saved}");
    desk.supervisor("id: gone\nengine: {transport: attached}\n")
        .await;
    desk.supervisor("id: gateway\nengine: {transport: builtin, name: operator-gateway}\n")
        .await;
    let engines = desk.read("/api/engines").await;
    let connected: Vec<(&Value, &Value)> = engines["engines"]
        .as_array()
        .expect("list")
        .iter()
        .map(|e| (&e["supervisor"], &e["connected"]))
        .collect();
    let expected = [("connected", true), ("gateway", true), ("gone", false)]
        .map(|(s, c)| (json!(s), json!(c)));
    assert_eq!(
        connected,
        expected.iter().map(|(s, c)| (s, c)).collect::<Vec<_>>()
    );
    let shown = desk.read("/api/supervisors/connected").await;
    assert_eq!(shown["engine"]["connected"], true);
    assert_eq!(shown["definition"]["allowedCommands"], json!(["run.pause"]));

    let managed = "id: m\nengine: {transport: managed, command: [run-me], env: {SECRET: hush}}\n";
    let (status, body) = desk.put("/api/supervisors/m", YAML, managed).await;
    assert_eq!(
        (status, &body["errors"][0]["path"]),
        (StatusCode::BAD_REQUEST, &json!("engine.transport")),
        "{body}"
    );
    assert!(!body.to_string().contains("hush"));
}

#[tokio::test]
async fn what_a_file_defines_is_read_only_here() {
    let desk = Desk::open().await;
    let def = read_workflow(BUILD, Format::Yaml).expect("reads").def;
    let by = Actor {
        kind: "SYSTEM".into(),
        id: "files".into(),
    };
    desk.host
        .handle()
        .save_workflow(def, Source::File, by)
        .await
        .expect("saved");
    assert_eq!(desk.read("/api/workflows/build").await["source"], "file");
    let changed = BUILD.replace("[make]", "[other]");
    let (status, body) = desk.put("/api/workflows/build", YAML, &changed).await;
    assert_eq!(
        (status, code(&body)),
        (StatusCode::CONFLICT, "DEFINED_IN_FILE"),
        "{body}"
    );
}
