//! The demo's host is killed in the middle of the run, and another one goes on where it ended.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use signalbox::demo::data;

use super::program::Program;

/// Starts the demo and kills it when it prints a line with this text.
fn kill_at(dir: &Path, text: &str) {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["demo", "--data-dir"])
        .arg(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(demo.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut printed = Vec::new();
    let found = lines.into_iter().any(|line| {
        let found = line.contains(text);
        printed.push(line);
        found
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
    assert!(found, "the demo never printed `{text}`: {printed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_demo_ends_with_the_right_report_under_another_host() {
    let dir = tempfile::tempdir().unwrap();
    kill_at(dir.path(), "report   RUNNING");
    let program = Program::start(dir.path()).await;
    let ended = program.until_ended("x1").await;
    assert_eq!(ended["status"], "SUCCEEDED", "{ended}");
    let report = std::fs::read(dir.path().join(data::REPORT_PATH)).unwrap();
    let sum: String = Sha256::digest(&report)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(sum, data::REPORT_SHA256);

    // Each attempt left one line: nothing ran twice, and the report went on while no host was there.
    let ledger = std::fs::read_to_string(dir.path().join("work/x1/ledger")).unwrap();
    let lines: Vec<&str> = ledger.lines().collect();
    let unique: BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!(lines.len(), unique.len(), "{ledger}");
    assert!(
        unique.contains("report 1") && !unique.contains("report 2"),
        "{ledger}"
    );

    // The engine that came back was told so: a rule of its answers `Started{resubscribe}`.
    let audit = program.audit().await;
    let resumed = audit.iter().any(|row| {
        let cause = row["cause"].as_str().unwrap_or_default();
        row["op"] == "run.resumeHeld" && cause.starts_with("event:s-")
    });
    assert!(resumed, "{audit:#?}");
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_beside_another_host_says_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::start(dir.path()).await;
    let output = tokio::task::spawn_blocking({
        let dir = dir.path().to_owned();
        move || {
            Command::new(env!("CARGO_BIN_EXE_signalbox"))
                .args(["demo", "--data-dir"])
                .arg(dir)
                .output()
                .unwrap()
        }
    });
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("another host holds"), "{said}");
    program.stop().await;
}
