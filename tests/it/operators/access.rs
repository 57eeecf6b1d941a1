//! Keys, roles, and requests that are refused before they are looked at.

use std::os::unix::fs::PermissionsExt as _;

use reqwest::{Method, StatusCode, header};
use serde_json::json;
use signalbox::operators::auth::ensure_admin_key;
use signalbox::testkit::Host;

use super::{BUILD, Desk, answer, code};

/// Every address, and whether it only reads.
const ADDRESSES: &[(&str, &str, bool)] = &[
    ("GET", "/api/supervisor-contract", true),
    ("GET", "/api/workflows", true),
    ("GET", "/api/workflows/build", true),
    ("PUT", "/api/workflows/build", false),
    ("GET", "/api/supervisors", true),
    ("GET", "/api/supervisors/pipeline", true),
    ("PUT", "/api/supervisors/pipeline", false),
    ("POST", "/api/supervisors/pipeline/credentials", false),
    ("POST", "/api/credentials", false),
    ("POST", "/api/commands", false),
    ("GET", "/api/executions", true),
    ("GET", "/api/executions/x1", true),
    ("GET", "/api/executions/x1/logs?node=fetch", true),
    ("GET", "/api/engines", true),
    ("GET", "/api/audit", true),
];

async fn desk() -> Desk {
    let desk = Desk::open().await;
    desk.workflow(BUILD).await;
    desk.supervisor("id: pipeline\nengine: {transport: attached}\n")
        .await;
    desk.start("build").await;
    desk.logs.text("x1/fetch/1/Stdout", "hello\n");
    desk
}

#[tokio::test]
async fn nothing_is_answered_without_a_key_that_is_known() {
    let desk = desk().await;
    let engine = desk.host.credential("pipeline").await;
    for (method, path, _) in ADDRESSES.iter().chain(&[("GET", "/api/events", true)]) {
        let method: Method = method.parse().expect("method");
        for key in [
            None,
            Some(""),
            Some("nonsense"),
            Some("test-1.0000"),
            Some(&*format!("{}x", desk.admin)),
        ] {
            let request = desk.http.request(method.clone(), desk.url(path));
            let request = match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            };
            let response = request
                .try_clone()
                .expect("no body")
                .send()
                .await
                .expect("an answer");
            assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
            let (status, body) = answer(request).await;
            assert_eq!(
                (status, code(&body)),
                (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
                "{path} {key:?}"
            );
        }
        // An engine is no operator.
        let (status, body) = answer(
            desk.http
                .request(method, desk.url(path))
                .bearer_auth(&engine),
        )
        .await;
        assert_eq!(
            (status, code(&body)),
            (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_viewer_reads_everything_and_changes_nothing() {
    let desk = desk().await;
    for (method, path, reads) in ADDRESSES {
        let method: Method = method.parse().expect("method");
        let (status, body) = answer(
            desk.http
                .request(method, desk.url(path))
                .bearer_auth(&desk.viewer),
        )
        .await;
        if *reads {
            assert_eq!(status, StatusCode::OK, "{path} {body}");
            assert!(body["asOf"].is_u64(), "{path} {body}");
        } else {
            // The role comes first: the missing body is not even looked at.
            assert_eq!(
                (status, code(&body)),
                (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
                "{path}"
            );
        }
    }
    assert_eq!(desk.host.view().await.credentials.len(), 2);
}

#[tokio::test]
async fn health_needs_no_key() {
    let desk = Desk::open().await;
    for path in ["/livez", "/readyz"] {
        let (status, body) = answer(desk.http.get(desk.url(path))).await;
        assert_eq!((status, body), (StatusCode::OK, json!("ok\n")), "{path}");
    }
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_reach_the_host_by_a_name_of_its_own() {
    let desk = Desk::open().await;
    let with_host = |host: &str| {
        desk.request(Method::GET, "/api/workflows")
            .header(header::HOST, host)
    };
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.example:80",
    ] {
        let (status, body) = answer(with_host(host)).await;
        assert_eq!(
            (status, code(&body)),
            (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            "{host}"
        );
    }
    for host in [
        "localhost",
        "localhost:1",
        "[::1]:1",
        "desk.example",
        "DESK.example:7421",
    ] {
        assert_eq!(answer(with_host(host)).await.0, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_by_name() {
    let desk = desk().await;
    let start =
        |more: &str| format!("{{\"op\": \"run.start\", \"target\": \"workflow:build\"{more}}}");
    for (body, part) in [
        (
            start(", \"ifstatus\": \"RUNNING\""),
            "unknown field `ifstatus`",
        ),
        (start(", \"op\": \"run.stop\""), "duplicate field `op`"),
        (start(", \"reason\": 3"), "expected a string"),
        (
            "{\"op\": \"run.start\"}".to_owned(),
            "missing field `target`",
        ),
        (start(" x"), "line 1"),
        (String::new(), "EOF"),
    ] {
        let request = desk
            .request(Method::POST, "/api/commands")
            .header(header::CONTENT_TYPE, "application/json");
        let (status, answer) = answer(request.body(body)).await;
        assert_eq!(
            (status, code(&answer)),
            (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
        );
        assert!(
            answer["detail"].as_str().expect("detail").contains(part),
            "{part}: {answer}"
        );
    }
    for (path, part) in [
        (
            "/api/executions?statuses=RUNNING",
            "unknown field `statuses`",
        ),
        ("/api/executions?status=RUNING", "`RUNING` is not a status"),
        ("/api/executions?page_size=0", "page_size"),
        ("/api/executions?page_size=x", "page_size"),
        ("/api/executions?workflow=a%20b", "workflow"),
        ("/api/executions/x1/logs?stream=both", "both"),
        ("/api/executions/x1/logs?node=fetch&tail=0", "tail"),
        ("/api/audit?limit=1001", "limit"),
        ("/api/audit?execution=1", "execution"),
        ("/api/events?since=4", "unknown field `since`"),
        ("/api/events?after=99999", "Last-Event-ID"),
    ] {
        let (status, answer) = desk.get(path).await;
        assert_eq!(
            (status, code(&answer)),
            (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            "{path}"
        );
        assert!(
            answer["detail"].as_str().expect("detail").contains(part),
            "{part}: {answer}"
        );
        assert_eq!(answer["instance"], path.split('?').next().expect("path"));
    }
    for (method, path, expected) in [
        (Method::GET, "/api/nothing", StatusCode::NOT_FOUND),
        (Method::GET, "/", StatusCode::NOT_FOUND),
        (Method::GET, "/api/executions/x99", StatusCode::NOT_FOUND),
        (
            Method::GET,
            "/api/executions/../x1%2F..",
            StatusCode::NOT_FOUND,
        ),
        (Method::GET, "/api/workflows/none", StatusCode::NOT_FOUND),
        (Method::GET, "/api/supervisors/none", StatusCode::NOT_FOUND),
        (
            Method::GET,
            "/api/executions/x1/logs?node=none",
            StatusCode::NOT_FOUND,
        ),
        (
            Method::GET,
            "/api/executions/x1/logs?node=make",
            StatusCode::NOT_FOUND,
        ),
        (
            Method::DELETE,
            "/api/workflows/build",
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (
            Method::POST,
            "/api/commands",
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (
            Method::PUT,
            "/api/workflows/build",
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
    ] {
        let (status, body) = answer(desk.request(method.clone(), path)).await;
        assert_eq!(status, expected, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_host_goes_on() {
    let desk = Desk::open().await;
    let text = format!("id: build # {}", "x".repeat(1024 * 1024));
    let (status, body) = desk
        .put("/api/workflows/build", "application/yaml", &text)
        .await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{body}");
    desk.workflow(BUILD).await;
}

#[tokio::test]
async fn the_admin_key_is_made_once_and_is_its_owners_alone() {
    let host = Host::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = ensure_admin_key(host.handle(), dir.path())
        .await
        .expect("made")
        .expect("a file");
    let key = std::fs::read_to_string(&path).expect("reads");
    assert_eq!(
        std::fs::metadata(&path)
            .expect("is there")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert!(host.handle().authenticate(key.trim()).is_some());
    // A second start leaves it, and one without the file makes no other key behind its owner's back.
    assert_eq!(
        ensure_admin_key(host.handle(), dir.path())
            .await
            .expect("is there"),
        Some(path.clone())
    );
    assert_eq!(std::fs::read_to_string(&path).expect("reads"), key);
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(
        ensure_admin_key(host.handle(), dir.path())
            .await
            .expect("is there"),
        None
    );
}

#[tokio::test]
async fn a_credential_is_shown_once_and_opens_what_it_was_issued_for() {
    let desk = desk().await;
    let (status, made) =
        answer(desk.request(Method::POST, "/api/supervisors/pipeline/credentials")).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let (_, second) =
        answer(desk.request(Method::POST, "/api/supervisors/pipeline/credentials")).await;
    assert_ne!(made["id"], second["id"]);
    for made in [&made, &second] {
        let found = desk
            .host
            .handle()
            .authenticate(made["token"].as_str().expect("token"))
            .expect("is known");
        assert_eq!(json!(found.id), made["id"]);
    }
    let (status, _) = answer(desk.request(Method::POST, "/api/supervisors/none/credentials")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let (status, key) = desk
        .post(
            "/api/credentials",
            &json!({"name": "ada", "role": "viewer"}),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    let token = key["token"].as_str().expect("token");
    assert_eq!(
        answer(desk.http.get(desk.url("/api/workflows")).bearer_auth(token))
            .await
            .0,
        StatusCode::OK
    );
    for (body, part) in [
        (json!({"name": "ada", "role": "admin"}), "ada"),
        (json!({"name": "a b", "role": "admin"}), "name"),
        (json!({"name": "bob", "role": "owner"}), "owner"),
        (json!({"name": "bob"}), "role"),
    ] {
        let (status, answer) = desk.post("/api/credentials", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(
            answer["detail"].as_str().expect("detail").contains(part),
            "{answer}"
        );
    }
    // Nothing that is read ever shows a token again.
    let secret = token.rsplit('.').next().expect("secret");
    for path in ["/api/audit", "/api/supervisors/pipeline", "/api/engines"] {
        assert!(
            !desk.read(path).await.to_string().contains(secret),
            "{path}"
        );
    }
}
