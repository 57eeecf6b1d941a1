//! The way into the host for everything around it: engines, operators, the runtime.
//!
//! A call puts an input into the host's inbox and is answered after the input's records are durable.
//! The inbox is bounded: when it is full, callers are told so instead of waiting for ever. Stops and the
//! host's own reports have a lane of their own that is served first (C27).

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::contract::code::Code;
use crate::contract::definition::{SupervisorDef, WorkflowDef};
use crate::contract::directive::{Actor, Command, Directive};
use crate::contract::id::{SessionId, SupervisorId};
use crate::contract::operation::Op;
use crate::contract::outcome::Answer;
use crate::contract::time::HostTime;
use crate::core::effect::{Refusal, Reply, Saved, SessionStart};
use crate::core::input::Input;
use crate::core::record::{AttemptEnd, Credential, Source};
use crate::core::state::Durable;
use crate::journal::JournalReader;

use super::credentials::Credentials;
use super::mailbox::Mailbox;
use super::runtime::{Exit, Report};
use super::time::HostClock;

/// A consistent view of the durable state. Cheap to keep; serialising from it costs the reader, never the core.
pub type View = Arc<Durable>;

/// What a session needs to begin.
#[derive(Debug)]
pub struct Started {
    /// How it begins.
    pub start: SessionStart,
    /// The state that its snapshot shows; its supervisor's `last_cursor` there is the snapshot's `as_of`.
    pub view: View,
}

/// Who waits for a reply, and how it reaches them.
pub(super) enum Waiter {
    Reply(oneshot::Sender<Reply>),
    Started(oneshot::Sender<Result<Started, Refusal>>, Arc<Mailbox>),
    Mail(Arc<Mailbox>, u64),
}

/// What goes into the host's inbox.
pub(super) enum Message {
    /// An input; its reply token is set by the loop.
    Input(Box<Input>, Option<Waiter>),
    /// Somebody wants to read.
    View(oneshot::Sender<View>),
    /// A state snapshot's file is written.
    Snapshot(Result<crate::journal::SnapshotRef, crate::journal::Error>),
    /// Time has passed, by a clock that does not run by itself.
    Time(oneshot::Sender<()>),
    /// The host stops.
    Stop(oneshot::Sender<()>),
}

/// The way into the host. Clones share it.
#[derive(Clone)]
pub struct HostHandle {
    pub(super) inbox: mpsc::Sender<Message>,
    pub(super) urgent: mpsc::Sender<Message>,
    pub(super) credentials: watch::Receiver<Arc<Credentials>>,
    pub(super) last_seq: watch::Receiver<u64>,
    pub(super) journal: Arc<dyn JournalReader>,
    pub(super) clock: Arc<HostClock>,
}

fn stopped() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "host",
        "the host is stopping; try again when it is back",
    )
}

fn busy() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "inbox",
        "the host has too much to do; try again in a second",
    )
}

impl HostHandle {
    async fn ask(&self, lane: &mpsc::Sender<Message>, input: Input) -> Result<Reply, Refusal> {
        let (reply, answer) = oneshot::channel();
        lane.try_send(Message::Input(Box::new(input), Some(Waiter::Reply(reply))))
            .map_err(refused)?;
        answer.await.map_err(|_| stopped())
    }

    /// Commands as an operator; waits for a review where one is needed.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host is full or stops. Refusals of the command itself are answers.
    pub async fn command(
        &self,
        actor: Actor,
        command: Command,
        reason: Option<String>,
        key: Option<String>,
    ) -> Result<Answer, Refusal> {
        let lane = if command.op == Op::RunStop.as_str() {
            &self.urgent
        } else {
            &self.inbox
        };
        let input = Input::Command {
            reply: 0,
            actor,
            command: Box::new(command),
            reason,
            key,
        };
        answer(self.ask(lane, input).await?)
    }

    /// Saves a supervisor.
    ///
    /// # Errors
    /// The refusal of the save, with every bad field.
    pub async fn save_supervisor(
        &self,
        def: SupervisorDef,
        source: Source,
        actor: Actor,
    ) -> Result<Saved, Refusal> {
        saved(
            self.ask(
                &self.inbox,
                Input::SaveSupervisor {
                    reply: 0,
                    def: Box::new(def),
                    source,
                    actor,
                },
            )
            .await?,
        )
    }

    /// Saves a workflow.
    ///
    /// # Errors
    /// The refusal of the save, with every bad field.
    pub async fn save_workflow(
        &self,
        def: WorkflowDef,
        source: Source,
        actor: Actor,
    ) -> Result<Saved, Refusal> {
        saved(
            self.ask(
                &self.inbox,
                Input::SaveWorkflow {
                    reply: 0,
                    def: Box::new(def),
                    source,
                    actor,
                },
            )
            .await?,
        )
    }

    /// Keeps a credential that was made with [`super::credentials::issue`]; good from the return on.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the id is taken, `NOT_FOUND` when its supervisor does not exist.
    pub async fn keep_credential(
        &self,
        credential: Credential,
        actor: Actor,
    ) -> Result<Saved, Refusal> {
        self.issue(credential, false, actor).await
    }

    /// Keeps a credential in the place of the one with the same id, if there is one; that one's token ends here.
    ///
    /// # Errors
    /// `NOT_FOUND` when its supervisor does not exist.
    pub async fn replace_credential(
        &self,
        credential: Credential,
        actor: Actor,
    ) -> Result<Saved, Refusal> {
        self.issue(credential, true, actor).await
    }

    async fn issue(
        &self,
        credential: Credential,
        replace: bool,
        actor: Actor,
    ) -> Result<Saved, Refusal> {
        let credential = Box::new(credential);
        saved(
            self.ask(
                &self.inbox,
                Input::IssueCredential {
                    reply: 0,
                    credential,
                    replace,
                    actor,
                },
            )
            .await?,
        )
    }

    /// Finds the credential that a token is for; none for an unknown one.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<Arc<Credential>> {
        let credentials = Arc::clone(&self.credentials.borrow());
        credentials.check(token)
    }

    /// Begins a session of an authenticated engine. From now on what comes for it is in the mailbox.
    ///
    /// # Errors
    /// `NOT_FOUND` without such a supervisor, `PERMISSION_DENIED` for a built-in one, `UNAVAILABLE`.
    pub async fn hello(
        &self,
        supervisor: SupervisorId,
        tick_period: Option<u64>,
        reviews: bool,
        mailbox: Arc<Mailbox>,
    ) -> Result<Started, Refusal> {
        let (reply, answer) = oneshot::channel();
        let input = Input::Hello {
            reply: 0,
            supervisor,
            tick_period,
            reviews,
        };
        let message = Message::Input(Box::new(input), Some(Waiter::Started(reply, mailbox)));
        self.inbox.try_send(message).map_err(refused)?;
        answer.await.map_err(|_| stopped())?
    }

    /// Says that a session's stream has ended. Never lost: waits for its place.
    pub async fn disconnected(&self, supervisor: SupervisorId, session: SessionId) {
        // A host that has stopped knows no sessions any more.
        let _ = self
            .urgent
            .send(Message::Input(
                Box::new(Input::Disconnected {
                    supervisor,
                    session,
                }),
                None,
            ))
            .await;
    }

    /// Passes a session's directive on; its result comes by the mailbox under `reference`. Waits for its place,
    /// so a fast engine is slowed down by its own stream.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host stops.
    pub async fn direct(
        &self,
        supervisor: SupervisorId,
        session: SessionId,
        directive: Directive,
        delivered: Option<HostTime>,
        mailbox: &Arc<Mailbox>,
        reference: u64,
    ) -> Result<(), Refusal> {
        mailbox.expect_result();
        let input = Input::Directive {
            reply: 0,
            supervisor,
            session: Some(session),
            directive: Box::new(directive),
            delivered,
        };
        let waiter = Some(Waiter::Mail(Arc::clone(mailbox), reference));
        self.inbox
            .send(Message::Input(Box::new(input), waiter))
            .await
            .map_err(|_| stopped())
    }

    /// Passes a directive of a unary call on and waits for its result.
    ///
    /// # Errors
    /// `UNAVAILABLE`. Refusals of the directive itself are answers.
    pub async fn submit(
        &self,
        supervisor: SupervisorId,
        session: Option<SessionId>,
        directive: Directive,
    ) -> Result<Answer, Refusal> {
        let input = Input::Directive {
            reply: 0,
            supervisor,
            session,
            directive: Box::new(directive),
            delivered: None,
        };
        answer(self.ask(&self.inbox, input).await?)
    }

    /// Moves a supervisor's stored position.
    pub async fn acknowledge(&self, supervisor: SupervisorId, cursor: u64) {
        // Acknowledgements are never needed (C43); a host that has stopped takes none.
        let _ = self
            .inbox
            .send(Message::Input(
                Box::new(Input::Acknowledge { supervisor, cursor }),
                None,
            ))
            .await;
    }

    /// Takes an engine's word that it cannot handle a signal.
    pub async fn fault(&self, supervisor: SupervisorId, signal: String) {
        // What was open ends by its deadline if the host has stopped.
        let _ = self
            .inbox
            .send(Message::Input(
                Box::new(Input::Fault { supervisor, signal }),
                None,
            ))
            .await;
    }

    /// Takes a runtime's report. Blocks while the lane is full; must not be called on an async worker thread.
    pub fn report(&self, report: Report) {
        let Some(input) = ended(report) else { return };
        // A host that has stopped finds the exit again when it opens.
        let _ = self
            .urgent
            .blocking_send(Message::Input(Box::new(input), None));
    }

    /// Returns a consistent view of the state that is not older than this call.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host is full or stops.
    pub async fn view(&self) -> Result<View, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Message::View(reply))
            .await
            .map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }

    /// Returns the reading side of the journal.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn JournalReader> {
        &self.journal
    }

    /// Returns the number of the last durable record, to be watched for changes.
    #[must_use]
    pub fn last_seq(&self) -> watch::Receiver<u64> {
        self.last_seq.clone()
    }

    /// Waits until the host takes nothing any more: it has stopped, or its journal failed.
    pub async fn gone(&self) {
        self.urgent.closed().await;
    }

    /// Returns the host's clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<HostClock> {
        &self.clock
    }

    /// Lets the host look at a clock that does not run by itself; returns when what is due is decided and durable.
    pub async fn time_passed(&self) {
        let (done, wait) = oneshot::channel();
        if self.urgent.send(Message::Time(done)).await.is_ok() {
            // A dropped sender means that the host has stopped: nothing is due any more.
            let _ = wait.await;
        }
    }

    /// Stops the host: what was received is finished and answered, the journal is closed cleanly.
    pub async fn stop(&self) {
        let (done, wait) = oneshot::channel();
        if self.inbox.send(Message::Stop(done)).await.is_ok() {
            // A dropped sender means the same: it has stopped.
            let _ = wait.await;
        }
    }
}

fn refused<T>(error: mpsc::error::TrySendError<T>) -> Refusal {
    match error {
        mpsc::error::TrySendError::Full(_) => busy(),
        mpsc::error::TrySendError::Closed(_) => stopped(),
    }
}

fn unexpected() -> Refusal {
    Refusal::new(
        Code::Internal,
        "host",
        "the host gave another kind of reply; please report it",
    )
}

fn answer(reply: Reply) -> Result<Answer, Refusal> {
    match reply {
        Reply::Answer(answer) => Ok(*answer),
        Reply::Refused(refusal) => Err(*refusal),
        Reply::Saved(_) | Reply::Started(_) => Err(unexpected()),
    }
}

fn saved(reply: Reply) -> Result<Saved, Refusal> {
    match reply {
        Reply::Saved(saved) => Ok(saved),
        Reply::Refused(refusal) => Err(*refusal),
        Reply::Answer(_) | Reply::Started(_) => Err(unexpected()),
    }
}

fn ended(report: Report) -> Option<Input> {
    let (id, end) = match report {
        // The record of the start is the intent; that the process runs changes nothing.
        Report::Started(_) => return None,
        Report::Exited(id, Exit::Code(code)) => (id, AttemptEnd::Code(code)),
        Report::Exited(id, Exit::Signal(signal)) => (id, AttemptEnd::Signal(signal)),
        Report::NotStarted(id, why) => {
            tracing::warn!(execution = %id.execution, node = %id.node, attempt = id.attempt, %why, "attempt not started");
            (id, AttemptEnd::NotStarted)
        }
        Report::Lost(id, why) => {
            tracing::warn!(execution = %id.execution, node = %id.node, attempt = id.attempt, %why, "attempt lost");
            (id, AttemptEnd::Lost)
        }
    };
    let (run, node) = (id.execution.parse().ok()?, id.node.parse().ok()?);
    Some(Input::Ended {
        run,
        node,
        attempt: id.attempt,
        end,
    })
}
