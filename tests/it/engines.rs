//! Engines of two makes govern the same workflow, over real gRPC and with real processes: a node that fails twice is
//! retried and succeeds; one that always fails is retried twice, and then its run is paused with a reason.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use signalbox::host::runtime::Runtime;
use signalbox::runtime::local::{LocalConfig, LocalRuntime};
use signalbox::testkit::{Host, command_directive};
use signalbox_engine_rules::ConnectEnv;

/// The interpreter and the stubs of the Python engine; `cargo xtask test` makes both and sets these.
const PYTHON: [&str; 2] = ["SIGNALBOX_TEST_PYTHON", "SIGNALBOX_TEST_PYTHONPATH"];

const RULES: &str = r#"
rules:
  - name: retry
    on: Event
    kinds: [NODE_STATUS]
    when: event.status == "FAILED" && event.attempt <= 2
    reason: "attempt ${event.attempt} failed, so it gets another one"
    do:
      - command:
          op: node.retry
          target: "node:${event.execution}/${event.node}"
          ifStatus: FAILED
  - name: pause
    on: Event
    kinds: [NODE_STATUS]
    when: event.status == "FAILED" && event.attempt > 2
    reason: "${event.node} failed ${event.attempt} times"
    do:
      - command:
          op: run.pause
          target: "execution:${event.execution}"
"#;

/// A node that fails twice, one after it that always fails, and one that keeps the run alive until a file is there,
/// or until the directory is gone with a test that failed.
fn workflow(dir: &Path) -> Value {
    let shell = |script: &str| json!({"run": ["sh", "-c", script], "cwd": dir});
    let wait = format!(
        "while [ -d '{0}' ] && [ ! -e '{0}/done' ]; do sleep 0.05; done",
        dir.display()
    );
    json!({"id": "w", "nodes": {
        "flaky": shell("echo >> tries; test $(wc -l < tries) -ge 3"),
        "hopeless": {"run": ["false"], "needs": ["flaky"]},
        "steady": shell(&wait),
    }})
}

fn supervisor() -> Value {
    json!({
        "id": "night", "owns": ["workflow:w"], "engine": {"transport": "attached"},
        "allowedCommands": ["run.start", "run.pause", "node.retry"], "initiative": ["run.start"],
    })
}

/// A host on this machine's clock whose nodes are processes.
async fn host(dir: &Path) -> Host {
    let data = dir.join("data");
    let program = env!("CARGO_BIN_EXE_signalbox");
    Host::builder()
        .data_dir(&data)
        .real_clock()
        .runtime_from(move |sink| {
            let config = LocalConfig::new(program.into(), data.clone());
            let runtime = LocalRuntime::new(config, sink).map_err(|error| error.to_string())?;
            Ok(Arc::new(runtime) as Arc<dyn Runtime>)
        })
        .workflow(workflow(dir))
        .supervisor(supervisor())
        .start()
        .await
}

/// Starts a run when the engine is there, and sees that it is governed to its end.
async fn is_governed(host: &Host, dir: &Path) {
    let night = "night".parse().expect("an id");
    let view = host
        .until(|view| {
            view.supervisor(&night)
                .is_some_and(|s| s.newest_session.is_some())
        })
        .await;
    let session = view.supervisor(&night).and_then(|s| s.newest_session);
    let (session, _) = session.expect("the engine's session was there");
    let mut start = command_directive("start", "run.start", "workflow:w");
    start.reason = "the test begins".to_owned();
    let client = host.dial("night").await;
    let result = client.submit(&session.to_string(), start).await;
    let result = result.expect("the start is answered");
    assert_eq!(result.status, "DONE", "{result:?}");

    host.until_node("x1", "flaky", "SUCCEEDED").await;
    assert_eq!(host.node("x1", "flaky").await.attempt, 3);

    host.until_run("x1", "PAUSING").await;
    assert_eq!(host.node_status("x1", "hopeless").await.as_str(), "FAILED");
    assert_eq!(host.node("x1", "hopeless").await.attempt, 3);
    let holds = &host.run("x1").await.holds;
    let [hold] = holds.as_slice() else {
        panic!("the engine holds the run, and nobody else does: {holds:?}");
    };
    assert_eq!(hold.holder.to_string(), "supervisor:night");
    assert_eq!(hold.reason.as_deref(), Some("hopeless failed 3 times"));

    std::fs::write(dir.join("done"), "").expect("a file can be written");
    host.until_run("x1", "FAILED").await;
    assert_eq!(host.node_status("x1", "steady").await.as_str(), "SUCCEEDED");
    let retries = host.audit();
    let retries = retries
        .iter()
        .filter(|row| row.op.as_deref() == Some("node.retry") && row.kind == "command");
    assert_eq!(retries.count(), 4, "two for each node, each from an event");
}

#[tokio::test]
async fn the_rules_engine_governs_a_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let rules = dir.path().join("rules.yaml");
    std::fs::write(&rules, RULES).expect("a file can be written");
    let host = host(dir.path()).await;
    let token = host.credential("night").await;
    let addr = host.engine_addr().to_string();
    let env = ConnectEnv::read(|name| match name {
        "SIGNALBOX_ENGINE_ADDR" => Some(addr.clone()),
        "SIGNALBOX_ENGINE_TOKEN" => Some(token.clone()),
        "SIGNALBOX_SUPERVISOR" => Some("night".to_owned()),
        _ => None,
    });
    let env = env.expect("the three values are what an engine needs");
    tokio::select! {
        ended = signalbox_engine_rules::run(&rules, env) => panic!("the engine ended: {ended:?}"),
        () = is_governed(&host, dir.path()) => {}
    }
}

#[tokio::test]
async fn the_python_engine_governs_a_run() {
    let [python, stubs] = PYTHON.map(std::env::var_os);
    let (Some(python), Some(stubs)) = (python, stubs) else {
        let why = format!(
            "{} and {} are not set: `cargo xtask test` makes the interpreter's environment and the stubs and sets them",
            PYTHON[0], PYTHON[1]
        );
        assert!(std::env::var_os("CI").is_none(), "not run in CI: {why}");
        eprintln!("skipped: {why}");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let host = host(dir.path()).await;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/python/engine.py");
    let mut engine = tokio::process::Command::new(python)
        .arg(program)
        .env("PYTHONPATH", stubs)
        .env("SIGNALBOX_ENGINE_ADDR", host.engine_addr().to_string())
        .env("SIGNALBOX_ENGINE_TOKEN", host.credential("night").await)
        .env("SIGNALBOX_SUPERVISOR", "night")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the interpreter starts");
    tokio::select! {
        ended = engine.wait() => panic!("the engine ended: {ended:?}"),
        () = is_governed(&host, dir.path()) => {}
    }
}
