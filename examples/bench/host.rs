//! Our host as a server of a round: a journal on disk that waits for the disk before anything leaves, the real
//! listener, and a runtime whose attempts are not processes, since those are another goal's.

use super::Outcome;
use super::process;
use signalbox::clock::SystemClock;
use signalbox::contract::definition::{SupervisorDef, WorkflowDef};
use signalbox::contract::directive::{Actor, Command};
use signalbox::contract::outcome::ResultStatus;
use signalbox::core::effect::Refusal;
use signalbox::core::record::{Access, Settings, Source};
use signalbox::engine::{self, Registry};
use signalbox::host::runtime::{
    AttemptId, Exit, Report, ReportSink, Runtime, StartAttempt, StopSignal,
};
use signalbox::host::{self, HostHandle, credentials};
use signalbox::journal::{self, SledJournal};
use std::path::Path;
use std::sync::{Arc, mpsc};

/// How many nodes the workflow has whose runs end at once.
const NODES: u64 = 20;
/// How many signals one of its runs sends: a node is READY, RUNNING and SUCCEEDED.
const EACH: u64 = 3 * NODES;
/// How many of its runs are started at once.
const AHEAD: u64 = 32;

/// Serves until there are no more orders. The order `load <n>` makes at least n signals for `watch`, and is answered
/// with their number.
pub async fn serve(dir: &Path, supervisor: &str) -> Outcome<()> {
    let options = host::Options {
        journal: SledJournal::open(&dir.join("journal"), journal::Options::default())?,
        clock: Arc::new(SystemClock::new()?),
        settings: Settings {
            max_running_runs: 1_000,
            max_running_nodes: 20_000,
            operator_rate: 100_000,
            ..Settings::default()
        },
        // As `serve` has it.
        snapshot_every: 50_000,
    };
    let (host, _stopped) = host::open(options, |sink| Ok(Arc::new(Instead::new(sink))))?;
    define(&host).await.map_err(told)?;
    let listener = engine::bind("127.0.0.1:0".parse()?).await?;
    let addr = listener.addr();
    let server = engine::Server::new(
        host.clone(),
        Registry::default(),
        engine::Options::default(),
    );
    tokio::spawn(server.serve(listener, std::future::pending()));
    let access = Access::Engine(supervisor.parse()?);
    let (token, credential) = credentials::issue("bench", access, host.clock().wall_ms());
    host.keep_credential(credential, operator())
        .await
        .map_err(told)?;
    process::serve(addr, token.reveal(), async |order| {
        let wanted = order
            .strip_prefix("load ")
            .ok_or("an order that nobody knows")?;
        Ok(load(&host, wanted.parse()?).await?.to_string())
    })
    .await
}

fn told(refusal: Refusal) -> String {
    format!("{} {:?}", refusal.message, refusal.problems)
}

fn operator() -> Actor {
    Actor {
        kind: "KEY".into(),
        id: "bench".into(),
    }
}

/// Saves a workflow whose one attempt never ends and the supervisor that owns it, and one whose attempts end at once
/// and a supervisor that owns its nodes, not its runs: those anybody may start.
async fn define(host: &HostHandle) -> Result<(), Refusal> {
    let node = |argv: &str| serde_json::json!({"run": [argv]});
    let parts = |name: &dyn Fn(u64) -> String| (0..NODES).map(name).collect::<Vec<_>>();
    let nodes: serde_json::Map<String, serde_json::Value> = parts(&|n| format!("part-{n}"))
        .into_iter()
        .map(|id| (id, node("end")))
        .collect();
    let workflows = [
        serde_json::json!({"id": "bench", "nodes": {"work": node("stay")}}),
        serde_json::json!({"id": "flow", "nodes": nodes}),
    ];
    let supervisors = [
        serde_json::json!({
            "id": "bench", "owns": ["workflow:bench"], "engine": {"transport": "attached"},
            "events": ["WORKFLOW_STATUS"], "allowedCommands": ["run.*"], "maxDirectivesPerSecond": 100_000,
        }),
        serde_json::json!({
            "id": "watch", "owns": parts(&|n| format!("node:flow/part-{n}")), "engine": {"transport": "attached"},
            "events": ["NODE_STATUS"],
        }),
    ];
    let bad = |error: serde_json::Error| {
        Refusal::new(
            signalbox::contract::code::Code::InvalidArgument,
            "bench",
            error.to_string(),
        )
    };
    for def in workflows {
        let def: WorkflowDef = serde_json::from_value(def).map_err(bad)?;
        host.save_workflow(def, Source::File, operator()).await?;
    }
    for def in supervisors {
        let def: SupervisorDef = serde_json::from_value(def).map_err(bad)?;
        host.save_supervisor(def, Source::File, operator()).await?;
    }
    Ok(())
}

/// Has runs end until `wanted` signals are made and on the disk; returns how many there are.
async fn load(host: &HostHandle, wanted: u64) -> Outcome<u64> {
    let runs = wanted.div_ceil(EACH);
    let mut seq = host.last_seq();
    let until = made(host).await? + runs * EACH;
    let mut started = tokio::task::JoinSet::new();
    for run in 0..runs {
        if run >= AHEAD
            && let Some(done) = started.join_next().await
        {
            done??;
        }
        let host = host.clone();
        started.spawn(async move { start(&host).await });
    }
    while let Some(done) = started.join_next().await {
        done??;
    }
    while made(host).await? < until {
        seq.changed().await?;
    }
    Ok(runs * EACH)
}

/// Returns how many signals there are for `watch`.
async fn made(host: &HostHandle) -> Outcome<u64> {
    let view = host.view().await.map_err(told)?;
    let watch = view.supervisor(&"watch".parse()?);
    Ok(watch.map_or(0, |s| s.last_cursor))
}

async fn start(host: &HostHandle) -> Outcome<()> {
    let command = Command {
        op: "run.start".into(),
        target: "workflow:flow".into(),
        args: Default::default(),
        if_status: None,
    };
    let answer = host
        .command(operator(), command, None, None)
        .await
        .map_err(told)?;
    if answer.status != ResultStatus::Done {
        return Err(format!("a run was not started: {answer:?}").into());
    }
    Ok(())
}

/// In the place of processes: what is told to end ends at once, anything else never does.
struct Instead(mpsc::Sender<AttemptId>);

impl Instead {
    /// Reports from a thread of its own, as the real one does.
    fn new(sink: ReportSink) -> Self {
        let (ends, ended) = mpsc::channel();
        std::thread::spawn(move || {
            for id in ended {
                sink(Report::Exited(id, Exit::Code(0)));
            }
        });
        Self(ends)
    }
}

impl Runtime for Instead {
    fn start(&self, start: StartAttempt) {
        if start.argv.first().is_some_and(|word| word == "end") {
            // The thread ends with the host only.
            let _ = self.0.send(start.id);
        }
    }

    fn stop(&self, _: &AttemptId, _: StopSignal) {}

    fn recover(&self, _: Vec<StartAttempt>) {}
}
