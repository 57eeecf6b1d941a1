//! What the host asks of a runtime, and what a runtime reports back.
//!
//! A runtime starts, signals and watches attempts of nodes. It decides nothing: every start and
//! every signal is an effect of a durable record, and every report goes into the core as an input.
//! Absent on purpose: retries, timeouts and graces, which are the core's.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names one attempt of one node of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The execution's id as printed, for instance `x1`.
    pub execution: String,
    /// The node's id, for instance `build.compile`.
    pub node: String,
    /// The attempt's number, from 1, dense for a node.
    pub attempt: u32,
}

/// Everything a runtime needs to begin an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartAttempt {
    /// The attempt to begin.
    pub id: AttemptId,
    /// The program and its arguments; never a shell line. Never empty.
    pub argv: Vec<String>,
    /// The whole environment that the definition and the parameters declare.
    /// The runtime adds its own few variables; nothing is inherited beyond its allow-list.
    pub env: BTreeMap<String, String>,
    /// The working directory; absent means a directory of the execution's own, shared by its nodes.
    pub cwd: Option<String>,
}

/// How an attempt's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process returned this code, 0 to 255.
    Code(i32),
    /// A signal with this number ended the process.
    Signal(i32),
}

/// What a runtime says about an attempt. Each is said once, except after a restart of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The process runs.
    Started(AttemptId),
    /// The process has ended and all its output is in the log files.
    Exited(AttemptId, Exit),
    /// The process could not be started; the text says why and what to do.
    NotStarted(AttemptId, String),
    /// Nobody can say how the attempt ended: its shim is gone and left no exit.
    Lost(AttemptId, String),
}

/// Takes reports into the host. Blocks while the host's inbox is full.
pub type ReportSink = Arc<dyn Fn(Report) + Send + Sync>;

/// How hard an attempt is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM to the attempt's process group.
    Terminate,
    /// SIGKILL to the attempt's process group.
    Kill,
}

/// Starts and signals attempts. All calls return at once; what comes of them is reported.
pub trait Runtime: Send + Sync {
    /// Begins an attempt. A second call for the same attempt attaches to the first and starts nothing.
    fn start(&self, start: StartAttempt);
    /// Signals an attempt's process group; an attempt that has ended is left alone.
    fn stop(&self, id: &AttemptId, signal: StopSignal);
    /// Takes up the attempts that the journal says are running, before the host accepts anything:
    /// attaches to those that live, reports those that ended or are lost, starts those that never began,
    /// and ends processes that no record knows.
    fn recover(&self, running: Vec<StartAttempt>);
}
