//! Opening: the state is read back, time goes on, what came due while the host was down is decided,
//! and running attempts are taken up again, all before anybody can connect.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::contract::status::NodeStatus;
use crate::core::effect::Decision;
use crate::core::input::{Input, Stamp};
use crate::core::record::{Entry, Settings};
use crate::core::state::{Durable, ImageError, State};
use crate::journal::{self, Journal};

use super::credentials::Credentials;
use super::driver::{Driver, Stopped};
use super::handle::HostHandle;
use super::runtime::{AttemptId, ReportSink, Runtime, StartAttempt, StopSignal};
use super::time::{Clock, HostClock, LeftOff};

/// How many inputs wait in each lane at most.
const INBOX: usize = 4_096;
/// How many records are read at once while opening.
const READ: usize = 4_096;

/// What a host is made of.
pub struct Options<J> {
    /// The journal, just opened.
    pub journal: journal::Opened<J>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The settings that decisions depend on.
    pub settings: Settings,
    /// How many records there are between two state snapshots.
    pub snapshot_every: u64,
}

/// Why a host did not open.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime could not be made.
    #[error("the runtime cannot be set up: {0}; correct that and start the host again")]
    Runtime(String),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A record in it is not one.
    #[error(transparent)]
    Record(#[from] crate::core::record::Error),
    /// The state snapshot is not one.
    #[error(transparent)]
    State(#[from] ImageError),
    /// The thread could not be started.
    #[error("the host's thread cannot be started: {0}; look at the limits of the process")]
    Thread(#[from] std::io::Error),
}

/// Opens a host and starts its loop. `runtime` is given the sink for its reports and makes the runtime.
/// The receiver tells, once, how the loop ended.
///
/// # Errors
/// Fails when the store cannot be read, or not be written; nothing is changed then.
pub fn open<J: Journal + 'static>(
    options: Options<J>,
    runtime: impl FnOnce(ReportSink) -> Result<Arc<dyn Runtime>, String>,
) -> Result<(HostHandle, tokio::sync::oneshot::Receiver<Stopped>), Error> {
    let Options {
        journal,
        clock,
        settings,
        snapshot_every,
    } = options;
    let journal::Opened {
        mut journal,
        snapshot,
        ..
    } = journal;
    let reader = journal.reader();
    let (state, snapshot_seq) = read_back(snapshot, &*reader)?;
    let durable = state.durable();
    let left_off = LeftOff {
        opened: durable.opened.clone(),
        now: durable.now,
        wall: durable.wall,
    };
    let clock = Arc::new(HostClock::resume(clock, &left_off));

    let mut state = state;
    let (boot, monotonic) = clock.anchor();
    let stamp = Stamp {
        now: clock.now(),
        wall: clock.wall_ms(),
    };
    let decision = state.decide(
        Input::Opened {
            boot,
            monotonic,
            settings,
        },
        stamp,
    );
    let batch = super::driver::batch(&decision, reader.audit_len())?;
    journal.append(batch)?;

    let (inbox_sender, inbox) = mpsc::channel(INBOX);
    let (urgent_sender, urgent) = mpsc::channel(INBOX);
    let (credentials_sender, credentials) =
        watch::channel(Arc::new(Credentials::of(state.durable())));
    let (seq_sender, last_seq) = watch::channel(state.durable().seq);
    let handle = HostHandle {
        inbox: inbox_sender,
        urgent: urgent_sender,
        credentials,
        last_seq,
        journal: reader,
        clock: Arc::clone(&clock),
    };
    let reports = handle.clone();
    let runtime =
        runtime(Arc::new(move |report| reports.report(report))).map_err(Error::Runtime)?;
    let (running, stops) = running(state.durable(), &decision);
    runtime.recover(running);
    for (id, signal) in stops {
        runtime.stop(&id, signal);
    }
    let driver = Driver {
        state,
        journal: Box::new(journal),
        runtime,
        clock,
        inbox,
        urgent,
        credentials: credentials_sender,
        last_seq: seq_sender,
        to_self: handle.urgent.clone(),
        snapshot_every,
        snapshot_seq,
    };
    let stopped = super::driver::start(driver)?;
    Ok((handle, stopped))
}

/// Reads the state back: the newest snapshot, then every record after it.
fn read_back(
    snapshot: Option<(u64, Vec<u8>)>,
    reader: &dyn journal::JournalReader,
) -> Result<(State, u64), Error> {
    let (mut state, from) = match snapshot {
        Some((seq, bytes)) => (State::from_durable(Durable::from_bytes(&bytes)?), seq),
        None => (State::default(), 0),
    };
    let mut next = from + 1;
    loop {
        let items = reader.records(next, READ)?;
        let Some(last) = items.last().map(|i| i.seq) else {
            return Ok((state, from));
        };
        for item in items {
            state.apply(&Entry::decode(&item.bytes)?);
        }
        next = last + 1;
    }
}

/// Lists the attempts that run by the journal, and the signals that may not have reached them.
fn running(
    durable: &Durable,
    decision: &Decision,
) -> (Vec<StartAttempt>, Vec<(AttemptId, StopSignal)>) {
    let mut running = Vec::new();
    let mut stops = Vec::new();
    for run in durable.runs.values() {
        for (index, node) in run
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, n)| n.status == NodeStatus::Running)
        {
            let Some(effect) = crate::core::start_effect(run, index) else {
                continue;
            };
            let start = super::driver::start_attempt(effect);
            if node.ending.is_some() {
                stops.push((start.id.clone(), StopSignal::Terminate));
                if node.kill_at.is_none() {
                    stops.push((start.id.clone(), StopSignal::Kill));
                }
            }
            running.push(start);
        }
    }
    // What the open itself decided is in the state already: its effects are among these.
    tracing::info!(
        running = running.len(),
        decided = decision.entries.len(),
        "state read back"
    );
    (running, stops)
}
