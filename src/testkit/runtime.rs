//! A runtime without processes: it writes down what it is told, and attempts end when the test says so.
//!
//! It stands for the machine below the host, so it outlives the host's restarts: what ended while the host was
//! down is reported when the host takes its attempts up again, as the real runtime does.
//!
//! Reports go to the host from a thread of their own, since the way into the host blocks while it is full.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use tokio::sync::{Notify, oneshot};

use super::patience;
use crate::host::runtime::{
    AttemptId, Exit, Report, ReportSink, Runtime, StartAttempt, StopSignal,
};

/// Says how an attempt reacts to something; none: it goes on, and the test ends it.
type Reaction = Arc<dyn Fn(&StartAttempt) -> Option<Exit> + Send + Sync>;

/// A runtime whose attempts a test ends. Clones share it.
#[derive(Clone)]
pub struct FakeRuntime(Arc<Shared>);

struct Shared {
    machine: Mutex<Machine>,
    changed: Notify,
    reporter: mpsc::Sender<ToReport>,
}

/// What the machine below the host knows.
struct Machine {
    sink: Option<ReportSink>,
    attempts: BTreeMap<AttemptId, Attempt>,
    starts: Vec<StartAttempt>,
    stops: Vec<(AttemptId, StopSignal)>,
    /// Attempts that were ended since the host's journal did not know them.
    orphans: Vec<AttemptId>,
    /// How many of the starts and stops were taken by a test.
    taken: (usize, usize),
    on_start: Reaction,
    on_terminate: Reaction,
    on_kill: Reaction,
}

struct Attempt {
    start: StartAttempt,
    end: Option<Report>,
}

/// A report on its way, and who waits until the host has it.
struct ToReport {
    sink: ReportSink,
    report: Report,
    done: Option<oneshot::Sender<()>>,
}

impl Default for FakeRuntime {
    fn default() -> Self {
        let (reporter, reports) = mpsc::channel::<ToReport>();
        std::thread::Builder::new()
            .name("fake-runtime".to_owned())
            .spawn(move || {
                for ToReport { sink, report, done } in reports {
                    sink(report);
                    if let Some(done) = done {
                        // A test that was cancelled waits no more.
                        let _ = done.send(());
                    }
                }
            })
            .expect("a thread for reports can be started");
        Self(Arc::new(Shared {
            machine: Mutex::new(Machine {
                sink: None,
                attempts: BTreeMap::new(),
                starts: Vec::new(),
                stops: Vec::new(),
                orphans: Vec::new(),
                taken: (0, 0),
                on_start: Arc::new(|_| None),
                on_terminate: Arc::new(|_| None),
                on_kill: Arc::new(|_| Some(Exit::Signal(9))),
            }),
            changed: Notify::new(),
            reporter,
        }))
    }
}

impl FakeRuntime {
    /// Makes a runtime whose attempts run until the test ends them. SIGTERM is written down and ignored; SIGKILL
    /// ends an attempt with signal 9.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a runtime that ends every attempt at once with code 0.
    #[must_use]
    pub fn finishing() -> Self {
        let runtime = Self::default();
        runtime.on_start(|_| Some(Exit::Code(0)));
        runtime
    }

    /// Decides from now on how attempts end as soon as they start; none: they run on.
    pub fn on_start(
        &self,
        reaction: impl Fn(&StartAttempt) -> Option<Exit> + Send + Sync + 'static,
    ) {
        self.machine().on_start = Arc::new(reaction);
    }

    /// Decides from now on how attempts end by SIGTERM; none: they ignore it.
    pub fn on_terminate(
        &self,
        reaction: impl Fn(&StartAttempt) -> Option<Exit> + Send + Sync + 'static,
    ) {
        self.machine().on_terminate = Arc::new(reaction);
    }

    /// Decides from now on how attempts end by SIGKILL; none: the test ends them, as if the system were slow.
    pub fn on_kill(
        &self,
        reaction: impl Fn(&StartAttempt) -> Option<Exit> + Send + Sync + 'static,
    ) {
        self.machine().on_kill = Arc::new(reaction);
    }

    /// Returns every attempt that was started, in order. A start of an attempt that was there already is not one.
    #[must_use]
    pub fn starts(&self) -> Vec<StartAttempt> {
        self.machine().starts.clone()
    }

    /// Returns every signal that was sent, in order.
    #[must_use]
    pub fn stops(&self) -> Vec<(AttemptId, StopSignal)> {
        self.machine().stops.clone()
    }

    /// Returns the attempts that run now.
    #[must_use]
    pub fn running(&self) -> Vec<AttemptId> {
        let machine = self.machine();
        let live = machine.attempts.iter().filter(|(_, a)| a.end.is_none());
        live.map(|(id, _)| id.clone()).collect()
    }

    /// Returns the attempts that were ended at an open of the host since its journal did not know them.
    #[must_use]
    pub fn orphans(&self) -> Vec<AttemptId> {
        self.machine().orphans.clone()
    }

    /// Waits for the next start that was not taken by this call yet.
    ///
    /// # Panics
    /// When none comes in time.
    pub async fn next_start(&self) -> StartAttempt {
        self.next("the start of an attempt", |machine| {
            let start = machine.starts.get(machine.taken.0).cloned()?;
            machine.taken.0 += 1;
            Some(start)
        })
        .await
    }

    /// Waits for the next signal that was not taken by this call yet.
    ///
    /// # Panics
    /// When none comes in time.
    pub async fn next_stop(&self) -> (AttemptId, StopSignal) {
        self.next("a signal to an attempt", |machine| {
            let stop = machine.stops.get(machine.taken.1).cloned()?;
            machine.taken.1 += 1;
            Some(stop)
        })
        .await
    }

    async fn next<T>(&self, what: &str, mut take: impl FnMut(&mut Machine) -> Option<T>) -> T {
        patience(what, async {
            loop {
                let changed = self.0.changed.notified();
                if let Some(taken) = take(&mut self.machine()) {
                    return taken;
                }
                changed.await;
            }
        })
        .await
    }

    /// Ends the running attempt of a node with an exit code; returns when the host has the report.
    ///
    /// # Panics
    /// When no attempt of the node runs.
    pub async fn exit(&self, execution: &str, node: &str, code: i32) {
        self.end(execution, node, |id| Report::Exited(id, Exit::Code(code)))
            .await;
    }

    /// Ends the running attempt of a node by a signal; returns when the host has the report.
    ///
    /// # Panics
    /// When no attempt of the node runs.
    pub async fn signal(&self, execution: &str, node: &str, signal: i32) {
        self.end(execution, node, |id| {
            Report::Exited(id, Exit::Signal(signal))
        })
        .await;
    }

    /// Reports that the node's attempt could not be started; returns when the host has the report.
    ///
    /// # Panics
    /// When no attempt of the node runs.
    pub async fn not_started(&self, execution: &str, node: &str) {
        self.end(execution, node, |id| {
            Report::NotStarted(id, "the test says so".to_owned())
        })
        .await;
    }

    /// Reports that the node's attempt is lost; returns when the host has the report.
    ///
    /// # Panics
    /// When no attempt of the node runs.
    pub async fn lost(&self, execution: &str, node: &str) {
        self.end(execution, node, |id| {
            Report::Lost(id, "the test says so".to_owned())
        })
        .await;
    }

    /// Hands any report to the host as it is, also a wrong, late or repeated one; returns when the host has it.
    pub async fn report(&self, report: Report) {
        let sink = self.machine().sink.clone();
        self.hand_over(sink, report).await;
    }

    async fn end(&self, execution: &str, node: &str, end: impl FnOnce(AttemptId) -> Report) {
        let (sink, report) = {
            let mut machine = self.machine();
            let running = machine.attempts.iter_mut().rfind(|(id, attempt)| {
                id.execution == execution && id.node == node && attempt.end.is_none()
            });
            let Some((id, attempt)) = running else {
                let started: Vec<&AttemptId> = machine.attempts.keys().collect();
                panic!("no attempt of {execution}/{node} runs; started so far: {started:?}");
            };
            let report = end(id.clone());
            attempt.end = Some(report.clone());
            (machine.sink.clone(), report)
        };
        self.hand_over(sink, report).await;
    }

    /// Without a host the report waits until one takes its attempts up.
    async fn hand_over(&self, sink: Option<ReportSink>, report: Report) {
        let Some(sink) = sink else { return };
        let (done, wait) = oneshot::channel();
        self.send(ToReport {
            sink,
            report,
            done: Some(done),
        });
        patience("the host to take a report", wait)
            .await
            .expect("the thread for reports lives");
    }

    fn send(&self, report: ToReport) {
        self.0
            .reporter
            .send(report)
            .expect("the thread for reports lives");
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0
            .machine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the way into a host that opens.
    pub(super) fn attach(&self, sink: ReportSink) {
        self.machine().sink = Some(sink);
    }

    /// Forgets the way into a host that is gone.
    pub(super) fn detach(&self) {
        self.machine().sink = None;
    }

    fn begin(&self, machine: &mut Machine, start: StartAttempt) {
        let end = (machine.on_start.clone())(&start).map(|exit| exited(&start.id, exit));
        if let (Some(report), Some(sink)) = (&end, &machine.sink) {
            self.send(ToReport {
                sink: Arc::clone(sink),
                report: report.clone(),
                done: None,
            });
        }
        machine.starts.push(start.clone());
        machine
            .attempts
            .insert(start.id.clone(), Attempt { start, end });
    }
}

fn exited(id: &AttemptId, exit: Exit) -> Report {
    Report::Exited(id.clone(), exit)
}

impl Runtime for FakeRuntime {
    fn start(&self, start: StartAttempt) {
        let mut machine = self.machine();
        if !machine.attempts.contains_key(&start.id) {
            self.begin(&mut machine, start);
        }
        drop(machine);
        self.0.changed.notify_waiters();
    }

    fn stop(&self, id: &AttemptId, signal: StopSignal) {
        let mut machine = self.machine();
        machine.stops.push((id.clone(), signal));
        let reaction = match signal {
            StopSignal::Terminate => machine.on_terminate.clone(),
            StopSignal::Kill => machine.on_kill.clone(),
        };
        let sink = machine.sink.clone();
        if let Some(attempt) = machine.attempts.get_mut(id)
            && attempt.end.is_none()
            && let Some(exit) = reaction(&attempt.start)
        {
            let report = exited(id, exit);
            attempt.end = Some(report.clone());
            if let Some(sink) = sink {
                self.send(ToReport {
                    sink,
                    report,
                    done: None,
                });
            }
        }
        drop(machine);
        self.0.changed.notify_waiters();
    }

    fn recover(&self, running: Vec<StartAttempt>) {
        let mut machine = self.machine();
        let unknown: Vec<AttemptId> = machine
            .attempts
            .iter()
            .filter(|(id, a)| a.end.is_none() && !running.iter().any(|r| r.id == **id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in unknown {
            if let Some(attempt) = machine.attempts.get_mut(&id) {
                attempt.end = Some(exited(&id, Exit::Signal(9)));
            }
            machine.orphans.push(id);
        }
        for start in running {
            let known = machine.attempts.get(&start.id).map(|a| a.end.clone());
            match (known, machine.sink.clone()) {
                (None, _) => self.begin(&mut machine, start),
                (Some(Some(report)), Some(sink)) => self.send(ToReport {
                    sink,
                    report,
                    done: None,
                }),
                // It runs still, or nobody listens.
                (Some(_), _) => {}
            }
        }
        drop(machine);
        self.0.changed.notify_waiters();
    }
}

impl fmt::Debug for FakeRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.machine();
        f.debug_struct("FakeRuntime")
            .field("starts", &machine.starts)
            .field("stops", &machine.stops)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
