//! The host is killed and comes back: nothing that was acknowledged is lost or done twice (P1).
//!
//! The real program is killed with SIGKILL at random moments and at every fail point, under load by an
//! operator and an engine. Nodes append a token to a ledger file, which shows how often each attempt really ran.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

mod demo;
mod engines;
mod program;

use program::{Program, random};

const WORKFLOW: &str = r#"
id: ledger
params: {LEDGER: {}}
nodes:
  first:
    run: [sh, -c, 'echo "$SIGNALBOX_EXECUTION $SIGNALBOX_NODE $SIGNALBOX_ATTEMPT" >> "$LEDGER"; sleep 0.05']
  second:
    needs: [first]
    run: [sh, -c, 'echo "$SIGNALBOX_EXECUTION $SIGNALBOX_NODE $SIGNALBOX_ATTEMPT" >> "$LEDGER"']
"#;

fn count(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// What the operator knows: by key the execution that was acknowledged, or nothing yet.
#[derive(Default)]
struct Acks {
    acked: BTreeMap<String, String>,
    unknown: BTreeSet<String>,
}

impl Acks {
    /// Starts a run under a key; says whether any answer came.
    async fn start(&mut self, program: &Program, key: &str, ledger: &Path) -> bool {
        // The call may be cut off at any moment: until it is answered nobody knows.
        if !self.acked.contains_key(key) {
            self.unknown.insert(key.to_owned());
        }
        let body = json!({"op": "run.start", "target": "workflow:ledger", "args": {"params": {"LEDGER": ledger}}});
        let Some((status, answer)) = program.command(&body, key).await else {
            return false;
        };
        match status {
            200 => {
                let target = answer["targets"][0]["target"].as_str().unwrap_or_default();
                let id = target.trim_start_matches("execution:").to_owned();
                assert!(
                    id.starts_with('x'),
                    "a start is answered with its execution: {answer}"
                );
                if let Some(before) = self.acked.insert(key.to_owned(), id.clone()) {
                    assert_eq!(before, id, "one key is one run, also over a kill");
                }
                self.unknown.remove(key);
            }
            // A refusal that may pass later.
            503 | 429 => {}
            _ => panic!("a start is neither done nor refused for now: {status} {answer}"),
        }
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_moments() {
    let kills = count("SIGNALBOX_KILLS", 50);
    let mut seed = count("SIGNALBOX_SEED", 1);
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let mut program = Program::start(dir.path()).await;
    program.apply_workflow(WORKFLOW).await;
    let mut acks = Acks::default();
    let mut keys = 0;
    for _ in 0..kills {
        let wait = Duration::from_millis(5 + random(&mut seed) % 296);
        let work = async {
            loop {
                keys += 1;
                acks.start(&program, &format!("k-{keys}"), &ledger).await;
                // An old key again, as a client does that saw no answer.
                if let Some(again) = acks
                    .unknown
                    .first()
                    .cloned()
                    .or_else(|| acks.acked.keys().next_back().cloned())
                {
                    acks.start(&program, &again, &ledger).await;
                }
            }
        };
        // The load never ends by itself: the time is up.
        let _ = tokio::time::timeout(wait, work).await;
        program.kill();
        program = Program::start(dir.path()).await;
    }
    for key in acks.unknown.clone() {
        acks.start(&program, &key, &ledger).await;
    }
    check(&program, &acks, &ledger).await;
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_every_fail_point() {
    let points = [
        "host::after_decide",
        "store::before_commit",
        "store::after_flush",
        "store::after_fdatasync",
        "store::after_head",
        "host::after_commit",
        "host::after_effects",
        "host::after_reply",
        "proc::before_spawn",
        "proc::after_spawn_before_record",
        "proc::after_exit_before_report",
    ];
    for point in points {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger");
        let program = Program::start(dir.path()).await;
        program.apply_workflow(WORKFLOW).await;
        program.stop().await;
        let mut acks = Acks::default();
        let mut hits = 0;
        for round in 0..4_u64 {
            // A host that meets the point a few steps on ends there, as if it were killed.
            let arm = format!("{point}={}*off->panic", 2 + round * 3);
            let Some(program) = Program::try_start(dir.path(), &arm).await else {
                // It met the point while it opened.
                hits += 1;
                continue;
            };
            let mut died = false;
            for n in 0..12 {
                died |= !acks.start(&program, &format!("{round}-{n}"), &ledger).await;
            }
            hits += u32::from(died);
            program.kill();
        }
        let program = Program::start(dir.path()).await;
        for key in acks.unknown.clone() {
            acks.start(&program, &key, &ledger).await;
        }
        check(&program, &acks, &ledger).await;
        program.stop().await;
        // Points inside a shim end the shim, not the host.
        assert!(
            hits > 0 || point.starts_with("proc::"),
            "{point} was never met"
        );
    }
}

/// Every acknowledged run is there and ends, and every attempt ran exactly once.
async fn check(program: &Program, acks: &Acks, ledger: &Path) {
    let mut runs = BTreeSet::new();
    for (key, id) in &acks.acked {
        assert!(
            runs.insert(id.clone()),
            "{key}: two keys are never one run ({id})"
        );
        let ended = program.until_ended(id).await;
        let status = ended["status"].as_str().unwrap_or_default();
        assert!(
            matches!(status, "SUCCEEDED" | "FAILED"),
            "{id} ends: {ended}"
        );
    }
    let all = program.executions().await;
    let known: BTreeSet<String> = all
        .iter()
        .filter_map(|x| x["id"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(
        known, runs,
        "there is a run for each acknowledged key and no other"
    );
    let lines = std::fs::read_to_string(ledger).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for line in lines.lines() {
        assert!(seen.insert(line), "an attempt ran twice: {line}");
    }
    // What the host says succeeded has really run.
    for id in &runs {
        for node in nodes(&program.execution(id).await) {
            let (name, status, attempt) = node;
            if status == "SUCCEEDED" {
                assert!(
                    seen.contains(format!("{id} {name} {attempt}").as_str()),
                    "{id}/{name} is in the ledger"
                );
            }
        }
    }
}

fn nodes(execution: &Value) -> Vec<(String, String, u64)> {
    let list = execution["nodes"].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|n| {
            (
                text(&n["id"]),
                text(&n["status"]),
                n["attempt"].as_u64().unwrap_or(0),
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_whose_file_is_gone_stays_and_can_be_changed_over_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("workflows/ledger.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, WORKFLOW).unwrap();
    let program = Program::start(dir.path()).await;
    let changed = WORKFLOW.replace("sleep 0.05", "sleep 0.01");
    assert_eq!(
        program.save_workflow(&changed).await,
        409,
        "a file is the only way to change what it defines"
    );
    program.stop().await;
    std::fs::remove_file(&file).unwrap();
    let program = Program::start(dir.path()).await;
    assert_eq!(program.save_workflow(&changed).await, 200);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_moves_from_one_file_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(format!("supervisors/{name}.yaml"));
    let owner =
        |name: &str| format!("id: {name}\nowns: ['workflow:w']\nengine: {{transport: attached}}\n");
    std::fs::create_dir_all(dir.path().join("supervisors")).unwrap();
    std::fs::write(file("b"), owner("b")).unwrap();
    Program::start(dir.path()).await.stop().await;
    // To a file that is saved before the old owner's, then to one whose old owner's file is gone.
    std::fs::write(file("b"), "id: b\nengine: {transport: attached}\n").unwrap();
    std::fs::write(file("a"), owner("a")).unwrap();
    Program::start(dir.path()).await.stop().await;
    std::fs::remove_file(file("a")).unwrap();
    std::fs::write(file("c"), owner("c")).unwrap();
    Program::start(dir.path()).await.stop().await;
}
