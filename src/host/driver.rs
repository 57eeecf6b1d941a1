//! The loop: take, decide, commit, deliver.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::monotonic_ms;
use crate::contract::code::Code;
use crate::contract::id::{ExecutionId, SessionId};
use crate::contract::outcome::Answer;
use crate::core::effect::{Decision, Effect, Output, Refusal, Reply, SessionMessage, StartEffect};
use crate::core::input::{Input, Stamp, Token};
use crate::core::record::Record;
use crate::core::state::State;
use crate::journal::{self, AuditItem, Batch, Item, Journal, SnapshotRef};

use super::credentials::Credentials;
use super::handle::{Message, Started, View, Waiter};
use super::mailbox::{Mailbox, Tick};
use super::open::Error;
use super::runtime::{AttemptId, Runtime, StartAttempt, StopSignal};
use super::time::HostClock;

/// How many inputs one commit takes at most.
const BATCH: usize = 256;
/// How often a view is made at most, in milliseconds; a view costs later changes a copy of what they touch.
const VIEW_MS: u64 = 10;

/// How the loop ended.
#[derive(Debug)]
pub enum Stopped {
    /// It was told to stop; everything is on the disk.
    Clean,
    /// The journal failed. Nothing that was not durable was told to anybody; open the host again.
    Journal(journal::Error),
}

/// Everything that the loop owns.
pub(super) struct Driver {
    pub state: State,
    pub journal: Box<dyn Journal>,
    // The lanes end before the runtime: its thread may be waiting for a place in one of them.
    pub inbox: mpsc::Receiver<Message>,
    pub urgent: mpsc::Receiver<Message>,
    pub runtime: Arc<dyn Runtime>,
    pub clock: Arc<HostClock>,
    pub credentials: watch::Sender<Arc<Credentials>>,
    pub last_seq: watch::Sender<u64>,
    pub to_self: mpsc::Sender<Message>,
    pub snapshot_every: u64,
    pub snapshot_seq: u64,
}

/// Starts the loop on a thread of its own.
pub(super) fn start(driver: Driver) -> std::io::Result<oneshot::Receiver<Stopped>> {
    let (ended, stopped) = oneshot::channel();
    let timers = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("host".into())
        .spawn(move || {
            let result = timers.block_on(Loop::new(driver).run());
            // Nobody may care how it ended.
            let _ = ended.send(result);
        })?;
    Ok(stopped)
}

/// Makes the journal's batch of what was decided.
pub(super) fn batch(decision: &Decision, audit_len: u64) -> Result<Batch, Error> {
    let mut batch = Batch::default();
    fill(&mut batch, decision, audit_len)?;
    Ok(batch)
}

fn fill(batch: &mut Batch, decision: &Decision, audit_len: u64) -> Result<(), Error> {
    for entry in &decision.entries {
        let mut bytes = Vec::with_capacity(128);
        entry.encode_into(&mut bytes)?;
        batch.items.push(Item {
            seq: entry.seq,
            time: entry.time.0,
            kind: entry.record.kind().map_or(0, |kind| kind as u8 + 1),
            to: entry.to.clone(),
            bytes,
        });
    }
    for row in &decision.audit {
        let no = audit_len + batch.audit.len() as u64 + 1;
        batch.audit.push(AuditItem {
            no,
            bytes: row.to_bytes()?,
        });
    }
    Ok(())
}

/// Says to the runtime what the core says.
pub(super) fn start_attempt(effect: StartEffect) -> StartAttempt {
    let StartEffect {
        run,
        node,
        attempt,
        argv,
        env,
        cwd,
    } = effect;
    StartAttempt {
        id: attempt_id(run, node.as_str(), attempt),
        argv,
        env,
        cwd,
    }
}

fn attempt_id(run: ExecutionId, node: &str, attempt: u32) -> AttemptId {
    AttemptId {
        execution: run.to_string(),
        node: node.to_owned(),
        attempt,
    }
}

/// The mailboxes that a commit put something into: each is woken once.
#[derive(Default)]
struct Woken(Vec<Arc<Mailbox>>);

impl Woken {
    fn add(&mut self, mailbox: &Arc<Mailbox>) {
        if !self.0.last().is_some_and(|last| Arc::ptr_eq(last, mailbox)) {
            self.0.push(Arc::clone(mailbox));
        }
    }

    fn notify(mut self) {
        self.0.sort_by_key(Arc::as_ptr);
        self.0.dedup_by(|a, b| Arc::ptr_eq(a, b));
        self.0.iter().for_each(|mailbox| mailbox.notify());
    }
}

/// The loop's own state, gone with it.
struct Loop {
    driver: Driver,
    waiters: BTreeMap<Token, Waiter>,
    next_token: Token,
    /// Mailboxes of live sessions, and of those being replaced until they are told.
    mailboxes: BTreeMap<SessionId, Arc<Mailbox>>,
    /// The live session of each supervisor, by number.
    sessions: BTreeMap<u32, SessionId>,
    views: Vec<oneshot::Sender<View>>,
    view: Option<(u64, u64, View)>,
    timers: Vec<oneshot::Sender<()>>,
    stops: Vec<oneshot::Sender<()>>,
    snapshot: Option<SnapshotRef>,
    snapshotting: bool,
}

impl Loop {
    fn new(driver: Driver) -> Self {
        Self {
            driver,
            waiters: BTreeMap::new(),
            next_token: 0,
            mailboxes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            views: Vec::new(),
            view: None,
            timers: Vec::new(),
            stops: Vec::new(),
            snapshot: None,
            snapshotting: false,
        }
    }

    async fn run(mut self) -> Stopped {
        loop {
            let first = self.wait().await;
            let mut decisions = Decision::default();
            let mut batch = Batch::default();
            let audit_len = self.driver.journal.reader().audit_len();
            let mut next = first;
            for taken in 1..=BATCH {
                let input = match next.take() {
                    Some(message) => self.take(message),
                    None => Some(Input::Time),
                };
                if let Some(input) = input {
                    let stamp = Stamp {
                        now: self.driver.clock.now(),
                        wall: self.driver.clock.wall_ms(),
                    };
                    let mut decision = self.driver.state.decide(input, stamp);
                    if let Err(error) = fill(&mut batch, &decision, audit_len) {
                        tracing::error!(%error, "record cannot be stored");
                        return Stopped::Journal(journal::Error::ReadOnly {
                            reason: error.to_string(),
                        });
                    }
                    decisions.entries.append(&mut decision.entries);
                    decisions.outputs.append(&mut decision.outputs);
                }
                if taken < BATCH {
                    next = self
                        .driver
                        .urgent
                        .try_recv()
                        .or_else(|_| self.driver.inbox.try_recv())
                        .ok();
                }
                if next.is_none() {
                    break;
                }
            }
            fail::fail_point!("host::after_decide", |_| std::process::abort());
            batch.snapshot = self.snapshot.take();
            if !batch.is_empty()
                && let Err(error) = self.driver.journal.append(batch)
            {
                tracing::error!(%error, "journal cannot be written; the host stops");
                return Stopped::Journal(error);
            }
            fail::fail_point!("host::after_commit", |_| std::process::abort());
            self.deliver(decisions);
            self.give_views();
            self.write_snapshot();
            for done in self.timers.drain(..) {
                // Whoever waited may have gone.
                let _ = done.send(());
            }
            if !self.stops.is_empty() {
                return self.stop();
            }
        }
    }

    /// Waits for a message, or for what is due; none means that time has passed.
    async fn wait(&mut self) -> Option<Message> {
        let due = self
            .driver
            .state
            .next_due()
            .and_then(|due| self.driver.clock.until(due));
        let view = self
            .views
            .first()
            .map(|_| std::time::Duration::from_millis(VIEW_MS));
        let timeout = match (due, view) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let message = async {
            tokio::select! {
                biased;
                Some(message) = self.driver.urgent.recv() => Some(message),
                Some(message) = self.driver.inbox.recv() => Some(message),
                else => None,
            }
        };
        match timeout {
            Some(timeout) => tokio::time::timeout(timeout, message)
                .await
                .unwrap_or_default(),
            None => message.await,
        }
    }

    /// Takes a message apart; what is an input comes back.
    fn take(&mut self, message: Message) -> Option<Input> {
        match message {
            Message::Input(input, None) => Some(*input),
            Message::Input(input, Some(waiter)) => {
                self.next_token += 1;
                self.waiters.insert(self.next_token, waiter);
                Some(input.answering(self.next_token))
            }
            Message::View(reply) => {
                self.views.push(reply);
                None
            }
            Message::Time(done) => {
                self.timers.push(done);
                Some(Input::Time)
            }
            Message::Snapshot(Ok(snapshot)) => {
                self.snapshotting = false;
                self.driver.snapshot_seq = snapshot.seq;
                self.snapshot = Some(snapshot);
                None
            }
            Message::Snapshot(Err(error)) => {
                self.snapshotting = false;
                tracing::warn!(%error, "state snapshot not written; the journal still holds everything");
                None
            }
            Message::Stop(done) => {
                self.stops.push(done);
                None
            }
        }
    }

    /// Lets go what waited for the records to be durable.
    fn deliver(&mut self, decision: Decision) {
        let mut woken = Woken::default();
        let Decision {
            entries, outputs, ..
        } = decision;
        if entries
            .iter()
            .any(|e| matches!(e.record, Record::CredentialIssued(_)))
        {
            self.driver
                .credentials
                .send_replace(Arc::new(Credentials::of(self.driver.state.durable())));
        }
        let (effects, rest): (Vec<Output>, Vec<Output>) = outputs
            .into_iter()
            .partition(|o| matches!(o, Output::Effect(_)));
        for output in effects {
            if let Output::Effect(effect) = output {
                self.effect(effect);
            }
        }
        fail::fail_point!("host::after_effects", |_| std::process::abort());
        for output in rest {
            match output {
                Output::Reply { to, reply } => self.reply(to, reply, &mut woken),
                Output::Session { to, message } => self.session(to, message, &mut woken),
                Output::Effect(_) => {}
            }
        }
        for number in entries
            .iter()
            .flat_map(|e| e.to.iter().map(|(number, _)| number))
        {
            if let Some(mailbox) = self
                .sessions
                .get(number)
                .and_then(|s| self.mailboxes.get(s))
            {
                mailbox.put(|mail| mail.events = true);
                woken.add(mailbox);
            }
        }
        woken.notify();
        self.forget_ended();
        if let Some(last) = entries.last() {
            self.driver.last_seq.send_replace(last.seq);
        }
        fail::fail_point!("host::after_reply", |_| std::process::abort());
    }

    fn effect(&self, effect: Effect) {
        match effect {
            Effect::Start(start) => self.driver.runtime.start(start_attempt(*start)),
            Effect::Stop {
                run,
                node,
                attempt,
                kill,
            } => {
                let signal = if kill {
                    StopSignal::Kill
                } else {
                    StopSignal::Terminate
                };
                self.driver
                    .runtime
                    .stop(&attempt_id(run, node.as_str(), attempt), signal);
            }
        }
    }

    fn reply(&mut self, to: Token, reply: Reply, woken: &mut Woken) {
        // Whoever waited may have gone: what was decided stands all the same.
        match (self.waiters.remove(&to), reply) {
            (Some(Waiter::Reply(waiter)), reply) => {
                let _ = waiter.send(reply);
            }
            (Some(Waiter::Mail(mailbox, reference)), reply) => {
                let result: Result<Answer, Refusal> = match reply {
                    Reply::Answer(answer) => Ok(*answer),
                    Reply::Refused(refusal) => Err(*refusal),
                    Reply::Saved(_) | Reply::Started(_) => Err(Refusal::new(
                        Code::Internal,
                        "host",
                        "another kind of reply; please report it",
                    )),
                };
                mailbox.put(|mail| mail.results.push((reference, result)));
                woken.add(&mailbox);
            }
            (Some(Waiter::Started(waiter, mailbox)), Reply::Started(start)) => {
                self.sessions.insert(start.supervisor, start.session);
                self.mailboxes.insert(start.session, Arc::clone(&mailbox));
                woken.add(&mailbox);
                let _ = waiter.send(Ok(Started {
                    view: self.make_view(),
                    start: *start,
                }));
            }
            (Some(Waiter::Started(waiter, _)), Reply::Refused(refusal)) => {
                let _ = waiter.send(Err(*refusal));
            }
            (Some(Waiter::Started(..)) | None, _) => {}
        }
    }

    fn session(&mut self, to: SessionId, message: SessionMessage, woken: &mut Woken) {
        let Some(mailbox) = self.mailboxes.get(&to) else {
            return;
        };
        mailbox.put(|mail| match message {
            SessionMessage::Review(question) => mail.reviews.push(question),
            SessionMessage::Tick {
                scheduled,
                now,
                missed,
            } => {
                // A tick that was not taken is missed, and the newer one says so.
                let lost = mail.tick.map_or(0, |old| old.missed + 1);
                mail.tick = Some(Tick {
                    scheduled,
                    now,
                    missed: missed + lost,
                });
            }
            SessionMessage::Replaced => mail.replaced = true,
        });
        woken.add(mailbox);
    }

    /// Forgets the mailboxes of sessions that are not live any more.
    fn forget_ended(&mut self) {
        if self.mailboxes.len() == self.driver.state.live_sessions().count() {
            return;
        }
        self.sessions = self.driver.state.live_sessions().collect();
        let live: std::collections::BTreeSet<SessionId> = self.sessions.values().copied().collect();
        self.mailboxes.retain(|session, _| live.contains(session));
    }

    fn make_view(&mut self) -> View {
        let durable = self.driver.state.durable();
        match &self.view {
            Some((seq, _, view)) if *seq == durable.seq => Arc::clone(view),
            _ => {
                let view = Arc::new(durable.clone());
                self.view = Some((durable.seq, monotonic_ms(), Arc::clone(&view)));
                view
            }
        }
    }

    fn give_views(&mut self) {
        if self.views.is_empty() {
            return;
        }
        // By the machine's clock: the host's own may stand still, and readers must not.
        let (seq, now) = (self.driver.state.durable().seq, monotonic_ms());
        let fresh = self.view.as_ref().is_some_and(|(s, _, _)| *s == seq);
        let soon = self
            .view
            .as_ref()
            .is_some_and(|(_, at, _)| now.saturating_sub(*at) < VIEW_MS);
        if soon && !fresh {
            // Readers wait a little: the loop comes back to them when the time is up.
            return;
        }
        let view = self.make_view();
        for reader in self.views.drain(..) {
            let _ = reader.send(Arc::clone(&view));
        }
    }

    /// Has a state snapshot written by another thread, every so many records.
    fn write_snapshot(&mut self) {
        let seq = self.driver.state.durable().seq;
        if self.snapshotting || seq < self.driver.snapshot_seq + self.driver.snapshot_every {
            return;
        }
        self.snapshotting = true;
        let (view, writer, done) = (
            self.make_view(),
            self.driver.journal.snapshots(),
            self.driver.to_self.clone(),
        );
        let work = move || {
            let result = match view.to_bytes() {
                Ok(bytes) => writer.write(seq, &bytes),
                Err(error) => Err(journal::Error::ReadOnly {
                    reason: error.to_string(),
                }),
            };
            // A host that has stopped writes its own.
            let _ = done.blocking_send(Message::Snapshot(result));
        };
        if let Err(error) = std::thread::Builder::new()
            .name("snapshot".into())
            .spawn(work)
        {
            self.snapshotting = false;
            tracing::warn!(%error, "snapshot thread not started");
        }
    }

    /// Ends cleanly: a last snapshot, sessions are told, the journal is closed.
    fn stop(mut self) -> Stopped {
        for mailbox in self.mailboxes.values() {
            mailbox.put(|mail| mail.stopping = true);
            mailbox.notify();
        }
        let snapshot = self.last_snapshot();
        let result = self.driver.journal.close().and(snapshot);
        let stopped = match result {
            Ok(()) => Stopped::Clean,
            Err(error) => Stopped::Journal(error),
        };
        for done in self.stops {
            let _ = done.send(());
        }
        stopped
    }

    fn last_snapshot(&mut self) -> Result<(), journal::Error> {
        let seq = self.driver.state.durable().seq;
        if seq == self.driver.snapshot_seq {
            return Ok(());
        }
        match self.driver.state.durable().to_bytes() {
            Ok(bytes) => {
                let snapshot = self.driver.journal.snapshots().write(seq, &bytes)?;
                self.driver.journal.append(Batch {
                    snapshot: Some(snapshot),
                    ..Batch::default()
                })
            }
            Err(error) => {
                tracing::warn!(%error, "state snapshot not written; the journal still holds everything");
                Ok(())
            }
        }
    }
}
