//! An engine over real gRPC that does what a test says, good or bad.
//!
//! [`FakeEngine`] has said hello and has its `Started`. [`Wire`] is the bare stream below it, for everything that
//! an engine must not do. Frames are read only when a test asks for one, so an engine whose test asks for nothing
//! is an engine that has stopped reading.

mod directive;
mod wire;

use std::collections::VecDeque;

pub use directive::{EngineDirective, command_directive};
pub use wire::{EngineClient, Wire, hello};

use super::patience;
use crate::wire::proto::v1 as pb;
use pb::connect_request::Body as Request;
use pb::connect_response::Body as Response;
use pb::signal::Kind;

/// How a session began: `Started`, with its whole snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStarted {
    /// The signal's id, a cause for up to 200 commands.
    pub id: String,
    /// What it says.
    pub started: pb::Started,
    /// The executions that the supervisor owns.
    pub executions: Vec<pb::Execution>,
    /// The questions that are open.
    pub requests: Vec<pb::OpenRequest>,
    /// The hold ledger.
    pub holds: Vec<pb::Hold>,
    /// In how many parts the snapshot came.
    pub chunks: u32,
}

impl SessionStarted {
    /// Returns an execution of the snapshot.
    ///
    /// # Panics
    /// When it is not there.
    #[must_use]
    pub fn execution(&self, id: &str) -> &pb::Execution {
        match self.executions.iter().find(|e| e.id == id) {
            Some(execution) => execution,
            None => panic!("the snapshot has no {id}: {:?}", self.executions),
        }
    }
}

/// An engine with a live session.
#[derive(Debug)]
pub struct FakeEngine {
    wire: Wire,
    supervisor: String,
    started: SessionStarted,
    signals: VecDeque<pb::Signal>,
    results: VecDeque<pb::DirectiveResult>,
    goaway: Option<pb::Goaway>,
    last_ref: u64,
}

impl FakeEngine {
    /// Says hello on an open stream and waits for `Started` and its whole snapshot.
    ///
    /// # Errors
    /// The status with which the host ends the stream.
    ///
    /// # Panics
    /// When the first signal is not `Started`, or a chunk is missing.
    pub async fn begin(mut wire: Wire, hello: pb::Hello) -> Result<Self, tonic::Status> {
        let supervisor = hello.supervisor.clone();
        wire.send(Request::Hello(hello)).await;
        let first = wire.next().await?;
        let Some(Response::Signal(pb::Signal {
            id,
            kind: Some(Kind::Started(started)),
            ..
        })) = first
        else {
            panic!("the first signal of a session is Started, and this came: {first:?}");
        };
        let started = SessionStarted {
            id,
            started,
            executions: Vec::new(),
            requests: Vec::new(),
            holds: Vec::new(),
            chunks: 0,
        };
        let mut engine = Self {
            wire,
            supervisor,
            started,
            signals: VecDeque::new(),
            results: VecDeque::new(),
            goaway: None,
            last_ref: 0,
        };
        engine.take_snapshot().await?;
        Ok(engine)
    }

    /// Takes the chunks of the snapshot. Questions may come between them; events wait for the last one.
    async fn take_snapshot(&mut self) -> Result<(), tonic::Status> {
        loop {
            match self.wire.next().await? {
                Some(Response::SnapshotChunk(chunk)) => {
                    let begun = &mut self.started;
                    assert_eq!(chunk.seq, begun.chunks, "no chunk is missing");
                    begun.chunks += 1;
                    begun.executions.extend(chunk.executions);
                    begun.requests.extend(chunk.requests);
                    begun.holds.extend(chunk.holds);
                    if chunk.last {
                        return Ok(());
                    }
                }
                Some(Response::Signal(signal)) => {
                    assert!(
                        !matches!(signal.kind, Some(Kind::Event(_))),
                        "events wait for the last chunk, and this came before: {signal:?}"
                    );
                    self.signals.push_back(signal);
                }
                Some(Response::Progress(_)) => {}
                other => panic!("a session begins with its snapshot, and this came: {other:?}"),
            }
        }
    }

    /// Returns how the session began.
    #[must_use]
    pub fn started(&self) -> &SessionStarted {
        &self.started
    }

    /// Returns the session's id, which unary calls name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.started.started.session
    }

    /// Returns the id of its supervisor.
    #[must_use]
    pub fn supervisor(&self) -> &str {
        &self.supervisor
    }

    /// Returns the bare stream, to do what an engine must not.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Waits for the next signal.
    ///
    /// # Panics
    /// When none comes in time, or the stream ends.
    pub async fn next_signal(&mut self) -> pb::Signal {
        self.next("a signal", |engine| engine.signals.pop_front())
            .await
    }

    /// Waits for the next event, and passes over signals of other kinds.
    ///
    /// # Panics
    /// When none comes in time, or the stream ends.
    pub async fn next_event(&mut self) -> (String, pb::Event) {
        loop {
            if let pb::Signal {
                id,
                kind: Some(Kind::Event(event)),
                ..
            } = self.next_signal().await
            {
                return (id, *event);
            }
        }
    }

    /// Waits for the event that says that a node has a status, passes over everything before it, and returns its
    /// id and the event.
    ///
    /// # Panics
    /// When it does not come in time, or the stream ends.
    pub async fn until_node(
        &mut self,
        execution: &str,
        node: &str,
        status: &str,
    ) -> (String, pb::Event) {
        loop {
            let (id, event) = self.next_event().await;
            if event.kind == "NODE_STATUS"
                && event.execution == execution
                && event.node == node
                && event.status == status
            {
                return (id, event);
            }
        }
    }

    /// Waits for the event that says that a run has a status, passes over everything before it, and returns its id
    /// and the event.
    ///
    /// # Panics
    /// When it does not come in time, or the stream ends.
    pub async fn until_run(&mut self, execution: &str, status: &str) -> (String, pb::Event) {
        loop {
            let (id, event) = self.next_event().await;
            if event.kind == "WORKFLOW_STATUS"
                && event.execution == execution
                && event.status == status
            {
                return (id, event);
            }
        }
    }

    /// Waits for the next review, and passes over signals of other kinds.
    ///
    /// # Panics
    /// When none comes in time, or the stream ends.
    pub async fn next_review(&mut self) -> pb::Review {
        loop {
            if let Some(Kind::Review(review)) = self.next_signal().await.kind {
                return review;
            }
        }
    }

    /// Waits for the next tick, and passes over signals of other kinds.
    ///
    /// # Panics
    /// When none comes in time, or the stream ends.
    pub async fn next_tick(&mut self) -> pb::Tick {
        loop {
            if let Some(Kind::Tick(tick)) = self.next_signal().await.kind {
                return tick;
            }
        }
    }

    /// Waits until the host says goodbye, and passes over everything before that.
    ///
    /// # Panics
    /// When it does not in time, or the stream ends without it.
    pub async fn goaway(&mut self) -> pb::Goaway {
        self.next("a goaway", |engine| engine.goaway.take()).await
    }

    /// Waits until the host ends the stream, and returns how: none for a clean end.
    ///
    /// # Panics
    /// When it does not in time.
    pub async fn ended(&mut self) -> Option<tonic::Status> {
        patience("the end of the stream", async {
            loop {
                match self.wire.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        })
        .await
    }

    /// Waits for the result of a directive that was sent.
    ///
    /// # Panics
    /// When it does not come in time, or the stream ends.
    pub async fn result(&mut self, reference: u64) -> pb::DirectiveResult {
        self.next("the result of a directive", |engine| {
            let place = engine.results.iter().position(|r| r.r#ref == reference)?;
            engine.results.remove(place)
        })
        .await
    }

    /// Prepares a command; awaiting it sends it and waits for its result.
    pub fn command(&mut self, key: &str, op: &str, target: &str) -> EngineDirective<'_> {
        EngineDirective::command(self, key, op, target)
    }

    /// Prepares the verdict on a review, `allow` or `deny`; awaiting it sends it and waits for its result.
    ///
    /// # Panics
    /// When the verdict is another word.
    pub fn verdict(&mut self, review: &str, verdict: &str) -> EngineDirective<'_> {
        EngineDirective::verdict(self, review, verdict)
    }

    /// Prepares the word that there is no opinion on a review; awaiting it sends it and waits for its result.
    pub fn no_opinion(&mut self, review: &str) -> EngineDirective<'_> {
        let body = pb::directive::Body::NoOpinion(pb::NoOpinion {
            answers: review.to_owned(),
        });
        EngineDirective::new(
            self,
            pb::Directive {
                body: Some(body),
                ..pb::Directive::default()
            },
        )
    }

    /// Prepares any directive; awaiting it sends it and waits for its result.
    pub fn directive(&mut self, directive: pb::Directive) -> EngineDirective<'_> {
        EngineDirective::new(self, directive)
    }

    /// Sends directives as fast as the stream takes them and does not read meanwhile; returns their numbers.
    pub async fn flood(&mut self, directives: impl IntoIterator<Item = pb::Directive>) -> Vec<u64> {
        let mut references = Vec::new();
        for directive in directives {
            references.push(self.send(directive).await);
        }
        references
    }

    /// Acknowledges everything up to a cursor.
    pub async fn ack(&mut self, cursor: &str) {
        self.wire
            .send(Request::Ack(pb::Ack {
                cursor: cursor.to_owned(),
                signal_ids: Vec::new(),
            }))
            .await;
    }

    /// Reports that a signal could not be handled.
    pub async fn fault(&mut self, signal: &str, message: &str) {
        self.wire
            .send(Request::Fault(pb::Fault {
                signal_id: signal.to_owned(),
                message: message.to_owned(),
            }))
            .await;
    }

    /// Closes the engine's half of the stream; signals go on.
    pub fn half_close(&mut self) {
        self.wire.half_close();
    }

    /// Dies: the connection is gone without a word.
    pub fn kill(self) {
        drop(self);
    }

    pub(super) async fn send(&mut self, mut directive: pb::Directive) -> u64 {
        self.last_ref += 1;
        if directive.r#ref == 0 {
            directive.r#ref = self.last_ref;
        }
        let reference = directive.r#ref;
        self.wire.send(Request::Directive(directive)).await;
        reference
    }

    /// Reads until there is what is looked for. The time for it does not begin anew with every frame.
    async fn next<T>(&mut self, what: &str, mut take: impl FnMut(&mut Self) -> Option<T>) -> T {
        patience(what, async {
            loop {
                if let Some(taken) = take(self) {
                    return taken;
                }
                self.read(what).await;
            }
        })
        .await
    }

    /// Reads one frame and puts it where it belongs.
    async fn read(&mut self, what: &str) {
        match self.wire.next().await {
            Ok(Some(Response::Signal(signal))) => self.signals.push_back(signal),
            Ok(Some(Response::Result(result))) => self.results.push_back(result),
            Ok(Some(Response::Goaway(goaway))) => self.goaway = Some(goaway),
            Ok(Some(Response::Progress(_))) => {}
            Ok(Some(Response::SnapshotChunk(chunk))) => {
                panic!("a chunk came without Started: {chunk:?}")
            }
            Ok(None) => panic!("the host ended the stream while the engine waited for {what}"),
            Err(status) => panic!("the stream failed while the engine waited for {what}: {status}"),
        }
    }
}

#[cfg(test)]
mod tests;
