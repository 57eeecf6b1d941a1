//! The reference's own transcription of operations.md: which operations are served, their arguments and
//! targets, and what makes a command malformed.

use std::collections::BTreeMap;

use serde_json::Value;
use signalbox::contract::code::Code;
use signalbox::contract::directive::{Args, Command};
use signalbox::contract::id::{NodeId, WorkflowId};
use signalbox::contract::operation::Op;
use signalbox::contract::status::{NodeStatus, RunStatus};

/// The longest grace or limit: seven days, in milliseconds.
const LONGEST_MS: i64 = 604_800_000;

/// What a well-formed command wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// `run.start`
    Start {
        /// Parameters given.
        params: BTreeMap<String, String>,
        /// Priority, −100 to 100.
        priority: i32,
    },
    /// `run.pause`
    Pause,
    /// `run.resume`
    Resume,
    /// `run.resumeHeld`
    ResumeHeld,
    /// `run.stop`
    Stop {
        /// `mode: immediate`
        immediate: bool,
        /// `graceMs`
        grace_ms: u64,
        /// `drainTimeoutMs`
        drain_ms: Option<u64>,
    },
    /// `node.retry`
    Retry,
    /// `node.skip`
    Skip,
}

impl Deed {
    /// Gives the operation.
    #[must_use]
    pub fn op(&self) -> Op {
        match self {
            Self::Start { .. } => Op::RunStart,
            Self::Pause => Op::RunPause,
            Self::Resume => Op::RunResume,
            Self::ResumeHeld => Op::RunResumeHeld,
            Self::Stop { .. } => Op::RunStop,
            Self::Retry => Op::NodeRetry,
            Self::Skip => Op::NodeSkip,
        }
    }
}

/// What a command acts on, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// One run.
    Run(u64),
    /// A workflow, or its live runs.
    Workflow(WorkflowId),
    /// Nodes of runs.
    Nodes(Vec<(u64, NodeId)>),
    /// All live runs that the sender owns.
    OwnedRunning,
    /// Those of them that it holds.
    OwnedHeld,
}

/// Reads a command; a wrong one gives the code of its refusal. Every refusal here is the check `shape`.
pub fn read(command: &Command, by_engine: bool) -> Result<(Deed, Aim), Code> {
    let deed = read_deed(&command.op, &command.args)?;
    let aim = read_aim(&command.target)?;
    let fits = match (&deed, &aim) {
        (Deed::Start { .. }, Aim::Workflow(_)) | (Deed::Retry | Deed::Skip, Aim::Nodes(_)) => true,
        (Deed::Start { .. } | Deed::Retry | Deed::Skip, _) | (_, Aim::Nodes(_)) => false,
        (_, Aim::Run(_) | Aim::Workflow(_)) => true,
        (_, Aim::OwnedRunning | Aim::OwnedHeld) => by_engine,
    };
    let guard_fits = command.if_status.as_deref().is_none_or(|guard| match deed {
        Deed::Start { .. } => false,
        Deed::Retry | Deed::Skip => NodeStatus::ALL.iter().any(|s| s.as_str() == guard),
        _ => RunStatus::ALL.iter().any(|s| s.as_str() == guard),
    });
    if fits && guard_fits {
        Ok((deed, aim))
    } else {
        Err(Code::InvalidArgument)
    }
}

fn read_deed(op: &str, args: &Args) -> Result<Deed, Code> {
    let (names, served): (&[&str], bool) = match op {
        "run.start" => (&["params", "priority"], true),
        "run.pause" => (&["suspend"], true),
        "run.resume" | "run.resumeHeld" | "node.retry" | "node.skip" => (&[], true),
        "run.stop" => (&["mode", "graceMs", "drainTimeoutMs"], true),
        // A message is a directive of its own, never a command.
        "notify" => return Err(Code::InvalidArgument),
        _ => (&[], false),
    };
    if !served {
        return Err(Code::UnknownOperation);
    }
    if args.keys().any(|name| !names.contains(&name.as_str())) {
        return Err(Code::InvalidArgument);
    }
    let whole = |name: &str, least: i64, most: i64| match args.get(name) {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ => Err(Code::InvalidArgument),
        },
    };
    Ok(match op {
        "run.start" => {
            let mut params = BTreeMap::new();
            match args.get("params") {
                None => {}
                Some(Value::Object(map)) => {
                    for (name, value) in map {
                        let text = value.as_str().ok_or(Code::InvalidArgument)?;
                        params.insert(name.clone(), text.to_owned());
                    }
                }
                Some(_) => return Err(Code::InvalidArgument),
            }
            let priority = i32::try_from(whole("priority", -100, 100)?.unwrap_or(0)).unwrap_or(0);
            Deed::Start { params, priority }
        }
        "run.pause" => match args.get("suspend") {
            None | Some(Value::Bool(false)) => Deed::Pause,
            Some(_) => return Err(Code::InvalidArgument),
        },
        "run.resume" => Deed::Resume,
        "run.resumeHeld" => Deed::ResumeHeld,
        "run.stop" => {
            let immediate = match args.get("mode").map(Value::as_str) {
                None | Some(Some("drain")) => false,
                Some(Some("immediate")) => true,
                Some(_) => return Err(Code::InvalidArgument),
            };
            let grace = whole("graceMs", 0, LONGEST_MS)?.unwrap_or(10_000);
            let drain = whole("drainTimeoutMs", 0, LONGEST_MS)?;
            Deed::Stop {
                immediate,
                grace_ms: grace.unsigned_abs(),
                drain_ms: drain.map(i64::unsigned_abs),
            }
        }
        "node.retry" => Deed::Retry,
        _ => Deed::Skip,
    })
}

fn read_aim(target: &str) -> Result<Aim, Code> {
    match target {
        "owned.running" => return Ok(Aim::OwnedRunning),
        "owned.held" => return Ok(Aim::OwnedHeld),
        _ => {}
    }
    let (kind, rest) = target.split_once(':').ok_or(Code::InvalidArgument)?;
    match kind {
        "execution" => run_number(rest).map(Aim::Run),
        "workflow" => rest
            .parse()
            .map(Aim::Workflow)
            .map_err(|_| Code::InvalidArgument),
        "node" => read_nodes(rest).map(Aim::Nodes),
        // Well-formed inputs and the server fit no operation that is served.
        _ => Err(Code::InvalidArgument),
    }
}

fn read_nodes(list: &str) -> Result<Vec<(u64, NodeId)>, Code> {
    let mut out: Vec<(u64, NodeId)> = Vec::new();
    let mut run = None;
    for part in list.split(',') {
        let node = match part.split_once('/') {
            Some((x, node)) => {
                run = Some(run_number(x)?);
                node
            }
            None => part,
        };
        let pair = (
            run.ok_or(Code::InvalidArgument)?,
            node.parse().map_err(|_| Code::InvalidArgument)?,
        );
        if !out.contains(&pair) {
            out.push(pair);
        }
    }
    if list.split(',').count() > 200 {
        Err(Code::InvalidArgument)
    } else {
        Ok(out)
    }
}

fn run_number(text: &str) -> Result<u64, Code> {
    let digits = text.strip_prefix('x').ok_or(Code::InvalidArgument)?;
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Code::InvalidArgument);
    }
    digits.parse().map_err(|_| Code::InvalidArgument)
}
