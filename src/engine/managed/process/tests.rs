//! Real processes, watched over pipes.

use std::path::Path;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;

use super::*;
use crate::core::record::Access;
use crate::host::credentials;

const PATIENCE: Duration = Duration::from_secs(30);

fn id() -> SupervisorId {
    "pipeline".parse().expect("id")
}

fn def(command: &[&str]) -> SupervisorDef {
    let engine = json!({"transport": "managed", "command": command, "env": {"COLOUR": "blue", "HOME": "/nowhere"}});
    serde_json::from_value(json!({"id": "pipeline", "engine": engine})).expect("a definition")
}

fn start(dir: &Path, script: &str) -> Process {
    let recipe = Recipe::new(
        &def(&["sh", "-c", script]),
        "http://127.0.0.1:1",
        dir,
        Path::new("/own"),
    );
    let (token, _) = credentials::issue("t", Access::Engine(id()), 0);
    Process::start(&id(), &recipe, &token).expect("it starts")
}

/// A named pipe from which the test reads what the process writes.
fn pipe(dir: &Path) -> BufReader<pipe::Receiver> {
    let path = dir.join("said");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &path,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .expect("a pipe");
    // Open for writing as well, so that it does not end between two writers.
    let receiver = pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(&path);
    BufReader::new(receiver.expect("the pipe opens"))
}

async fn line(from: &mut BufReader<pipe::Receiver>) -> String {
    let mut line = String::new();
    tokio::time::timeout(PATIENCE, from.read_line(&mut line))
        .await
        .expect("it writes in time")
        .expect("readable");
    line.trim_end().to_owned()
}

#[tokio::test]
async fn a_process_gets_its_own_small_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut said = pipe(dir.path());
    let mut process = start(
        dir.path(),
        "printf '%s\\n' \"$SIGNALBOX_ENGINE_ADDR $SIGNALBOX_SUPERVISOR $SIGNALBOX_MANAGED $COLOUR $HOME ${CARGO_PKG_NAME-unset} ${SIGNALBOX_ENGINE_TOKEN%.*} $(pwd -P)\" > said",
    );
    let directory = dir.path().canonicalize().expect("a path");
    let expected = format!(
        "http://127.0.0.1:1 pipeline 1 blue /nowhere unset t {}",
        directory.display()
    );
    assert_eq!(line(&mut said).await, expected);
    assert_eq!(process.ended().await, "its process ended with exit code 0");
}

#[tokio::test]
async fn the_end_of_a_process_is_told_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(
        start(dir.path(), "exit 3").ended().await,
        "its process ended with exit code 3"
    );
    assert_eq!(
        start(dir.path(), "kill -9 $$").ended().await,
        "its process was ended by signal 9"
    );
}

#[tokio::test]
async fn a_stop_ends_the_input_and_asks_before_it_kills() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut said = pipe(dir.path());
    let process = start(
        dir.path(),
        "trap 'echo asked > said; exit 0' TERM; echo ready > said; cat > /dev/null; echo input ended > said; while :; do sleep 0.1; done",
    );
    assert_eq!(line(&mut said).await, "ready");
    process.stop(PATIENCE).await;
    let mut heard = vec![line(&mut said).await];
    if heard[0] != "asked" {
        heard.push(line(&mut said).await);
    }
    assert_eq!(heard.last().map(String::as_str), Some("asked"));
}

#[tokio::test]
async fn a_process_that_does_not_end_is_killed_with_its_children() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut said = pipe(dir.path());
    let process = start(
        dir.path(),
        "trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') > said; while :; do sleep 1; done) & while :; do sleep 1; done",
    );
    let child: i32 = line(&mut said).await.parse().expect("a process id");
    process.stop(Duration::from_millis(50)).await;
    assert!(gone(child).await, "process {child} still runs");
}

#[tokio::test]
async fn a_process_that_is_dropped_is_killed_with_its_children() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut said = pipe(dir.path());
    let process = start(
        dir.path(),
        "(echo $(exec sh -c 'echo $PPID') > said; while :; do sleep 1; done) & wait",
    );
    let child: i32 = line(&mut said).await.parse().expect("a process id");
    drop(process);
    assert!(gone(child).await, "process {child} still runs");
}

/// Says whether a process that was sent SIGKILL has gone: its directory vanishes, or it is a zombie.
async fn gone(pid: i32) -> bool {
    let state = move || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit(") ").next()?.chars().next())
    };
    for _ in 0..1_000_000 {
        if matches!(state(), None | Some('Z' | 'X')) {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[test]
fn the_command_word_of_the_host_is_its_own_program() {
    let dir = Path::new("/data");
    let program = |word: &str| {
        Recipe::new(
            &def(&[word, "engine", "rules"]),
            "",
            dir,
            Path::new("/opt/own"),
        )
        .program
    };
    assert_eq!(program("signalbox"), Path::new("/opt/own"));
    assert_eq!(program("python3"), Path::new("python3"));
    assert_eq!(program("bin/engine"), Path::new("/data/bin/engine"));
    assert_eq!(program("/usr/bin/env"), Path::new("/usr/bin/env"));
}
