//! The host's side of the shims: one thread that starts, attaches to, signals and buries them.
//!
//! States of an attempt in this thread's memory
//! ```text
//!            start                hello                shim's end
//! (unknown) ───────▶ launched ───────────▶ running ───────────────▶ settled: reported and forgotten
//!     │  directory there                     ▲
//!     └──────────────────────────────────────┘ attached (the shim lives)   or settled at once
//! ```
//! Settling looks at the files only: `exit` there → its content; directory without `exit` → lost; no
//! directory → the shim came to nothing before its claim, and the start is tried again a few times.
//!
//! The queue of commands is bounded by its writer: the host has at most one start and two signals for each
//! attempt that its own limits let run.

mod attempt;
mod launch;
mod settle;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use super::layout::{self, Layout};
use super::{LocalConfig, files};
use crate::host::runtime::{AttemptId, Report, ReportSink, StartAttempt, StopSignal};
use attempt::Attempt;

/// How soon an attached shim that has not started its program yet is looked at again.
/// Such a shim was caught within the few milliseconds between its claim and its start.
const ATTACH_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// How soon an attempt that could not be looked at is tried again.
const TAKE_UP_AGAIN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What the host asks for.
pub(super) enum Command {
    Start(StartAttempt),
    Stop(AttemptId, StopSignal),
    Recover(Vec<StartAttempt>),
    /// The lock of this attempt, whose shim cannot be seen from here, was released.
    Released(AttemptId),
}

struct Shared {
    queue: Mutex<Queue>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Queue {
    commands: VecDeque<Command>,
    closed: bool,
}

/// The way into the thread.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Shared>);

impl Inbox {
    /// Hands a command over and returns at once.
    pub(super) fn push(&self, command: Command) {
        self.queue().commands.push_back(command);
        self.wake();
    }

    /// Ends the thread after the command that it is at.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.wake();
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        // The queue is whole after every step, so a panic elsewhere leaves nothing half done in it.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // The only error is a full counter, and then the thread has not slept since.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }
}

/// What an event of the poll is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Wake,
    Ended(AttemptId),
    Hello(AttemptId),
}

/// An attempt with a directory that could not be read, or whose shim could not be watched.
struct Later {
    start: StartAttempt,
    listed: bool,
    pending: Option<StopSignal>,
}

/// The thread's state.
pub(super) struct Watcher {
    config: LocalConfig,
    layout: Layout,
    base_env: BTreeMap<String, String>,
    sink: ReportSink,
    inbox: Inbox,
    epoll: OwnedFd,
    attempts: BTreeMap<AttemptId, Attempt>,
    /// Attempts that could not be looked at yet.
    later: BTreeMap<AttemptId, Later>,
    /// Meaning of the numbers that the poll hands back; a number is used once.
    sources: BTreeMap<u64, Source>,
    next_source: u64,
}

impl Watcher {
    /// Prepares the thread's descriptors, and proves that processes can be watched here.
    pub(super) fn new(
        config: LocalConfig,
        layout: Layout,
        base_env: BTreeMap<String, String>,
        sink: ReportSink,
    ) -> io::Result<(Inbox, Self)> {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let mark = super::process::stat(me)?.mark;
        super::process::open(mark)?;
        let inbox = Inbox(Arc::new(Shared {
            queue: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        }));
        let mut watcher = Self {
            config,
            layout,
            base_env,
            sink,
            inbox: inbox.clone(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            attempts: BTreeMap::new(),
            later: BTreeMap::new(),
            sources: BTreeMap::new(),
            next_source: 0,
        };
        let token = watcher.token(Source::Wake);
        epoll::add(
            &watcher.epoll,
            &inbox.0.wake,
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN,
        )?;
        if !watcher.layout.boot().exists() {
            layout::replace(&watcher.layout.boot(), &crate::clock::boot_id()?)?;
        }
        Ok((inbox, watcher))
    }

    /// Serves until the inbox is closed.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let unsure = self.attempts.values().any(Attempt::start_is_unknown);
            let wait = match (unsure, self.later.is_empty()) {
                (true, _) => Some(ATTACH_AGAIN),
                (false, false) => Some(TAKE_UP_AGAIN),
                (false, true) => None,
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    tracing::error!(%errno, "attempts cannot be watched any more; restart the host");
                    return;
                }
            }
            // Copied out of the packed events of the kernel.
            let ready: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
            for token in ready {
                // Settling an attempt forgets its numbers, also those later in this list.
                match self.sources.get(&token).cloned() {
                    Some(Source::Wake) => {
                        let _ = rustix::io::read(&self.inbox.0.wake, &mut [0; 8]);
                    }
                    Some(Source::Hello(id)) => self.on_hello(&id),
                    Some(Source::Ended(id)) => self.on_ended(&id),
                    None => {}
                }
            }
            if unsure {
                self.look_for_starts();
            }
            for (_, later) in std::mem::take(&mut self.later) {
                self.take_up(later.start, later.listed, later.pending);
            }
            loop {
                let command = {
                    let mut queue = self.inbox.queue();
                    if queue.closed {
                        return;
                    }
                    queue.commands.pop_front()
                };
                match command {
                    Some(command) => self.on_command(command),
                    None => break,
                }
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Start(start) => self.begin(start),
            Command::Stop(id, signal) => self.stop(&id, signal),
            Command::Recover(running) => self.recover(running),
            Command::Released(id) => self.on_ended(&id),
        }
    }

    /// Starts an attempt, or takes up what is there of it already.
    fn begin(&mut self, start: StartAttempt) {
        if let Err(reason) = layout::check_id(&start.id) {
            self.report(Report::NotStarted(start.id, reason));
        } else if let Some(known) = self.attempts.get_mut(&start.id) {
            known.listed = true;
        } else if let Some(later) = self.later.get_mut(&start.id) {
            later.listed = true;
        } else if self.layout.attempt(&start.id).exists() {
            self.take_up(start, true, None);
        } else {
            self.launch(start, 1, None);
        }
    }

    /// Takes up everything of a former host: see [`crate::host::runtime::Runtime::recover`].
    fn recover(&mut self, running: Vec<StartAttempt>) {
        tracing::info!(attempts = running.len(), "taking up attempts");
        let rebooted = self.rebooted();
        for start in running {
            if rebooted
                && layout::check_id(&start.id).is_ok()
                && !self.layout.attempt(&start.id).exists()
            {
                self.lost_with_the_machine(start);
            } else {
                self.begin(start);
            }
        }
        self.end_what_no_record_knows();
        if rebooted {
            self.note_boot();
        }
    }

    fn end_what_no_record_knows(&mut self) {
        let listed = match std::fs::read_dir(self.layout.live_dir()) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(%error, "attempts that no record knows cannot be looked for; check the data directory");
                return;
            }
        };
        for entry in listed.flatten() {
            let name = entry.file_name();
            match name.to_str().and_then(layout::parse_live) {
                Some(id) if self.attempts.contains_key(&id) || self.later.contains_key(&id) => {}
                Some(id) => self.end_unlisted(id),
                None => tracing::warn!(?name, "unknown file among the live attempts is left alone"),
            }
        }
    }

    /// Whether the machine has gone down since the last recovery. A data directory without the note is new.
    fn rebooted(&self) -> bool {
        let noted = std::fs::read_to_string(self.layout.boot());
        match (noted, crate::clock::boot_id()) {
            (Ok(noted), Ok(now)) => noted != now,
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => false,
            (noted, now) => {
                tracing::error!(
                    ?noted,
                    ?now,
                    "boot of the machine is unknown; taken for another one"
                );
                true
            }
        }
    }

    /// Notes in which boot of the machine this is.
    fn note_boot(&self) {
        let noted =
            crate::clock::boot_id().and_then(|boot| layout::replace(&self.layout.boot(), &boot));
        if let Err(error) = noted {
            tracing::error!(%error, "boot of the machine cannot be noted; after the next restart attempts may count as lost");
        }
    }

    /// A machine that goes down may take back the newest directories, so a missing one proves nothing then:
    /// the program may have run, and must not run twice.
    fn lost_with_the_machine(&mut self, start: StartAttempt) {
        self.forget_live(&start.id);
        let reason = "host_lost: the machine went down when the attempt had just been started, and kept no trace of it: look for its effects, then retry the node";
        self.report(Report::Lost(start.id, reason.to_owned()));
    }

    /// Ends what no record knows.
    fn end_unlisted(&mut self, id: AttemptId) {
        tracing::warn!(?id, "an attempt that no record knows is ended");
        let nothing = StartAttempt {
            id,
            argv: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        };
        if self.layout.attempt(&nothing.id).exists() {
            self.take_up(nothing, false, Some(StopSignal::Kill));
        } else {
            self.forget_live(&nothing.id);
        }
    }

    /// Asks a shim for a signal.
    fn stop(&mut self, id: &AttemptId, signal: StopSignal) {
        let dir = self.layout.attempt(id);
        if let Some(attempt) = self.attempts.get_mut(id) {
            attempt.stop(&dir, signal);
        } else if let Some(later) = self.later.get_mut(id) {
            later.pending = stronger(later.pending, signal);
        } else {
            tracing::debug!(?id, ?signal, "an attempt that has ended is not signalled");
        }
    }

    /// Hears what has become of a start.
    fn on_hello(&mut self, id: &AttemptId) {
        let dir = self.layout.attempt(id);
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        attempt.hear();
        if attempt.hello.is_none() {
            // Spoken or closed: nothing more comes.
            self.sources.remove(&attempt.hello_token);
        }
        attempt.stop_if_pending(&dir);
        self.say_started(id);
    }

    /// Reports a start that has become known.
    fn say_started(&mut self, id: &AttemptId) {
        if let Some(attempt) = self.attempts.get_mut(id)
            && attempt.started
            && !attempt.said_started
        {
            attempt.said_started = true;
            if attempt.listed {
                self.report(Report::Started(id.clone()));
            }
        }
    }

    /// Looks again at attached shims that had not started their program.
    fn look_for_starts(&mut self) {
        let unsure: Vec<AttemptId> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.start_is_unknown())
            .map(|(id, _)| id.clone())
            .collect();
        for id in unsure {
            let started = self.has_pid(&id);
            if let Some(attempt) = self.attempts.get_mut(&id) {
                attempt.started = started;
            }
            self.say_started(&id);
        }
    }

    /// Whether the shim has recorded the start.
    fn has_pid(&self, id: &AttemptId) -> bool {
        let path = self.layout.attempt(id).join(layout::PID);
        matches!(files::read::<files::PidFile>(&path), Ok(Some(_)))
    }

    /// Watches a descriptor.
    fn watch(&mut self, fd: impl AsFd, source: Source) -> io::Result<u64> {
        let token = self.token(source);
        let added = epoll::add(
            &self.epoll,
            fd,
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN,
        );
        if let Err(errno) = added {
            self.sources.remove(&token);
            return Err(errno.into());
        }
        Ok(token)
    }

    fn token(&mut self, source: Source) -> u64 {
        let token = self.next_source;
        self.next_source += 1;
        self.sources.insert(token, source);
        token
    }

    fn forget_live(&self, id: &AttemptId) {
        if let Err(error) = layout::remove_if_there(&self.layout.live(id)) {
            tracing::warn!(?id, %error, "live entry cannot be removed; check the data directory");
        }
    }

    /// Hands a report to the host; waits while the host is full.
    fn report(&self, report: Report) {
        (self.sink)(report);
    }
}

/// Of two signals that wait for delivery the harder one is enough.
fn stronger(pending: Option<StopSignal>, signal: StopSignal) -> Option<StopSignal> {
    match pending {
        Some(StopSignal::Kill) => pending,
        Some(StopSignal::Terminate) | None => Some(signal),
    }
}
