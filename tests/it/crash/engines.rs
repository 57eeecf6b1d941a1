//! Managed engines are killed and frozen: runs are untouched, other engines are not delayed, reviews end as C29 says.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::program::Program;

/// A workflow that runs until it is told to stop, and one that the other supervisor owns.
const WORKFLOWS: [(&str, &str); 2] = [
    ("mine", "id: mine\nnodes:\n  wait: {run: [sleep, '600']}\n"),
    ("other", "id: other\nnodes:\n  fail: {run: ['false']}\n"),
];

const SUPERVISORS: [(&str, &str); 2] = [
    (
        "mine",
        r#"
id: mine
owns: ["workflow:mine"]
engine: {transport: managed, command: [signalbox, engine, rules, RULES]}
allowedCommands: ["*"]
operatorAccess: ["run.*"]
reviewTimeout: 1s
"#,
    ),
    (
        "other",
        r#"
id: other
owns: ["workflow:other"]
engine: {transport: managed, command: [signalbox, engine, rules, RULES]}
allowedCommands: ["*"]
operatorAccess: ["run.*"]
"#,
    ),
];

const RULES: &str = r#"
rules:
  - name: allow
    on: Review
    do: [{verdict: allow}]
  - name: notice
    on: Event
    kinds: [NODE_STATUS]
    when: event.status == "FAILED"
    do: [{notify: {level: info, message: "noticed ${event.execution}"}}]
"#;

fn define(dir: &Path) {
    for name in ["workflows", "supervisors"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let rules = dir.join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    for (name, text) in WORKFLOWS {
        std::fs::write(dir.join(format!("workflows/{name}.yaml")), text).unwrap();
    }
    for (name, text) in SUPERVISORS {
        let text = text.replace("RULES", &rules.display().to_string());
        std::fs::write(dir.join(format!("supervisors/{name}.yaml")), text).unwrap();
    }
}

/// Returns the process of a supervisor's engine: its environment says whose it is.
fn engine_of(supervisor: &str) -> Option<Pid> {
    let wanted = format!("SIGNALBOX_SUPERVISOR={supervisor}");
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environ = std::fs::read(entry.path().join("environ")).ok()?;
            let mine = environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes());
            mine.then(|| Pid::from_raw(pid)).flatten()
        })
}

async fn start(program: &Program, workflow: &str) -> String {
    let body = json!({"op": "run.start", "target": format!("workflow:{workflow}")});
    let (status, answer) = program
        .command(&body, &format!("start {workflow}"))
        .await
        .unwrap();
    assert_eq!(status, 200, "{answer}");
    answer["executionId"].as_str().unwrap().to_owned()
}

async fn command(program: &Program, op: &str, run: &str, key: &str) -> (u16, Value) {
    program
        .command(
            &json!({"op": op, "target": format!("execution:{run}")}),
            key,
        )
        .await
        .unwrap()
}

/// Nothing else of the machine is called so: the ids are this test's alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_or_frozen_engine_hurts_nobody() {
    let dir = tempfile::tempdir().unwrap();
    define(dir.path());
    let program = Program::start(dir.path()).await;
    program.until_connected("mine", None).await;
    program.until_connected("other", None).await;
    let run = start(&program, "mine").await;
    program
        .until(&run, |x| x["nodes"][0]["status"] == "RUNNING")
        .await;

    // Frozen: nobody answers, so anything but a stop is refused when the time is up; the run goes on.
    let pid = engine_of("mine").expect("the engine runs");
    kill_process(pid, Signal::STOP).unwrap();
    let asked = signalbox::clock::monotonic_ms();
    let (status, answer) = command(&program, "run.pause", &run, "pause").await;
    assert_eq!(
        (status, &answer["code"]),
        (403, &json!("CONTROL_REJECTED")),
        "{answer}"
    );
    assert!(
        signalbox::clock::monotonic_ms() - asked >= 1_000,
        "the engine had its second"
    );
    assert_eq!(program.execution(&run).await["status"], "RUNNING");

    // The other engine is not delayed: it hears of its failure and says so.
    let other = start(&program, "other").await;
    program.until_ended(&other).await;
    program
        .until_audit(|row| row["kind"] == "notify" && row["actor"] == "supervisor:other")
        .await;

    // Killed: it is started again, with a session of its own, and decides again.
    let before = program.session_of("mine").await;
    kill_process(pid, Signal::KILL).unwrap();
    program.until_connected("mine", before.as_deref()).await;
    assert_ne!(engine_of("mine").expect("the engine runs again"), pid);
    let (status, answer) = command(&program, "run.pause", &run, "pause again").await;
    assert_eq!(status, 200, "{answer}");

    // Frozen again: a stop is allowed when nobody answers.
    kill_process(engine_of("mine").unwrap(), Signal::STOP).unwrap();
    let body = json!({"op": "run.stop", "target": format!("execution:{run}"), "args": {"mode": "immediate"}});
    let (status, answer) = program.command(&body, "stop").await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(program.until_ended(&run).await["status"], "STOPPED");
    kill_process(engine_of("mine").unwrap(), Signal::CONT).unwrap();
    program.stop().await;
    assert_eq!(engine_of("mine"), None, "no engine outlives its host");
}
