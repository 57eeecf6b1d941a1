//! The task of a session: it owns the stream, the mailbox and the timers, and does what the machine says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::contract::directive::Directive;
use crate::contract::id::{Cursor, EventId, SessionId, SupervisorId};
use crate::contract::outcome::Answer;
use crate::contract::signal::Signal;
use crate::core::effect::ReviewQuestion;
use crate::host::HostHandle;
use crate::host::mailbox::{Mail, Mailbox, Tick};
use crate::wire::directive::{Label, result};
use crate::wire::frame::Frame;
use crate::wire::hello::Hello;
use crate::wire::proto::v1 as pb;
use crate::wire::signal::signal;

use super::super::registry::{Moment, Registry};
use super::delivery::Deliveries;
use super::feed::{Feed, epoch};
use super::handshake::{self, Accepted};
use super::machine::{Effect, End, Input, Limits, Session};
use super::outbox::{Next, Outbox};
use super::outgoing::{self, LastWords, Outgoing};
use super::snapshot::{Parts, Wall};

/// How many directives may wait for their answers before the stream is not read any more.
const WAITING_MOST: usize = 256;

/// What a session is made of.
pub struct Link {
    /// The way into the host.
    pub host: HostHandle,
    /// What is known of engines.
    pub registry: Registry,
    /// Whose credential the engine showed.
    pub supervisor: SupervisorId,
    /// What the engine sends.
    pub incoming: Streaming<pb::ConnectRequest>,
    /// Cancelled when the listener stops.
    pub stopping: CancellationToken,
    /// The settings of the session's life.
    pub limits: Limits,
    /// How long a second of the limits is.
    pub second: Duration,
}

/// Makes a session's task and the stream that it feeds. The task is to be spawned; it never fails: whatever ends it,
/// the host and the registry are told.
pub fn start(link: Link) -> (impl Future<Output = ()> + Send, Outgoing) {
    let (out, end, outgoing) = outgoing::channel();
    (Task::new(link, out).run(end), outgoing)
}

/// A session that the host has accepted.
struct Live {
    session: SessionId,
    mailbox: Arc<Mailbox>,
    outbox: Outbox,
    parts: Parts,
    feed: Feed,
    deliveries: Deliveries,
    /// What results say about directives on their way, by the number that the host echoes.
    labels: BTreeMap<u64, Label>,
    next_label: u64,
    ticks: bool,
    /// The newest cursor that was acknowledged; older ones are not passed on.
    acknowledged: u64,
    goodbye: Goodbye,
}

impl Live {
    fn has_output(&self) -> bool {
        !self.outbox.is_empty() || !self.parts.is_done() || self.feed.is_ready()
    }

    fn waiting(&self) -> usize {
        self.mailbox.pending() + self.outbox.results()
    }

    /// Puts what has come in its place.
    fn take(&mut self, mail: Mail) {
        let Mail {
            results,
            reviews,
            tick,
            events,
            // Those two are for the machine.
            replaced: _,
            stopping: _,
        } = mail;
        for (reference, answer) in results {
            let label = self.labels.remove(&reference).unwrap_or_default();
            let answer = answer.unwrap_or_else(|r| Answer::refused(r.code, r.check, r.message));
            self.outbox.result(result(label, answer, true));
        }
        for review in reviews {
            self.outbox.review(review);
        }
        if let Some(tick) = tick.filter(|_| self.ticks) {
            self.outbox.tick(tick);
        }
        if events {
            self.feed.wake();
        }
    }
}

/// Tells the host that the stream has ended, also when the task is dropped.
struct Goodbye(Option<(HostHandle, SupervisorId, SessionId)>);

impl Goodbye {
    async fn say(&mut self) {
        if let Some((host, supervisor, session)) = self.0.take() {
            host.disconnected(supervisor, session).await;
        }
    }
}

impl Drop for Goodbye {
    fn drop(&mut self) {
        if let Some((host, supervisor, session)) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { host.disconnected(supervisor, session).await });
        }
    }
}

/// What the task waited for.
enum Event {
    Mail(Mail),
    Frame(Result<Option<pb::ConnectRequest>, tonic::Status>),
    /// There is a place in the stream, or nobody listens any more.
    Room(bool),
    Gone,
    Stopping,
    HostGone,
    Second,
}

struct Task {
    link: Link,
    out: mpsc::Sender<pb::ConnectResponse>,
    machine: Session,
    live: Option<Live>,
    half_closed: bool,
    stopping_seen: bool,
    heard: bool,
}

impl Task {
    fn new(link: Link, out: mpsc::Sender<pb::ConnectResponse>) -> Self {
        let machine = Session::new(link.limits);
        Self {
            link,
            out,
            machine,
            live: None,
            half_closed: false,
            stopping_seen: false,
            heard: false,
        }
    }

    async fn run(mut self, last: oneshot::Sender<LastWords>) {
        let mut seconds = tokio::time::interval(self.link.second);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // The first one comes at once.
        seconds.tick().await;
        let end = loop {
            if let Some(end) = self.turn(&mut seconds).await {
                break end;
            }
        };
        self.finish(*end, last).await;
    }

    /// Waits for one thing and does what follows from it; returns the end when it has come.
    async fn turn(&mut self, seconds: &mut tokio::time::Interval) -> Option<Box<End>> {
        if let Some(live) = &mut self.live
            && self.machine.reads()
            && live.outbox.is_empty()
            && live.parts.is_done()
            && let Err(error) = live.feed.fill().await
        {
            tracing::error!(supervisor = %self.link.supervisor, %error, "stream cannot be read");
            return self.act(Input::Damaged(error.to_string())).await;
        }
        if let Some(live) = &self.live
            && self.machine.drains()
            && live.waiting() == 0
        {
            return self.act(Input::Drained).await;
        }
        match self.wait(seconds).await {
            Event::Mail(mail) => self.on_mail(mail).await,
            Event::Frame(frame) => self.on_frame(frame).await,
            Event::Room(true) => {
                self.send();
                self.machine.said();
                None
            }
            Event::Room(false) | Event::Gone => self.on_gone().await,
            Event::Stopping => {
                self.stopping_seen = true;
                self.act(Input::Stopping).await
            }
            Event::HostGone => self.act(Input::HostGone).await,
            Event::Second => {
                if std::mem::take(&mut self.heard)
                    && let Some(live) = &self.live
                {
                    let now = self.link.host.clock().now();
                    self.link
                        .registry
                        .heard(&self.link.supervisor, live.session, now);
                }
                self.act(Input::Second).await
            }
        }
    }

    async fn wait(&mut self, seconds: &mut tokio::time::Interval) -> Event {
        let drains = self.machine.drains();
        let reads = self.machine.reads()
            && !self.half_closed
            && self
                .live
                .as_ref()
                .is_none_or(|l| l.waiting() < WAITING_MOST);
        let sends = match &self.live {
            Some(live) if drains => !live.outbox.is_empty(),
            Some(live) => live.has_output(),
            None => false,
        };
        let mailbox = self.live.as_ref().map(|l| Arc::clone(&l.mailbox));
        let mail = async {
            match mailbox {
                Some(mailbox) => mailbox.take().await,
                None => std::future::pending().await,
            }
        };
        let (host, stopping, out) = (&self.link.host, &self.link.stopping, &self.out);
        // In no fixed order, so that neither reading nor writing starves the other.
        tokio::select! {
            mail = mail => Event::Mail(mail),
            frame = self.link.incoming.message(), if reads => Event::Frame(frame),
            place = out.reserve(), if sends => Event::Room(place.is_ok()),
            () = out.closed(), if !sends => Event::Gone,
            () = stopping.cancelled(), if !self.stopping_seen => Event::Stopping,
            () = host.gone() => Event::HostGone,
            _ = seconds.tick() => Event::Second,
        }
    }

    /// Sends as long as there is something to say and a place for it.
    fn send(&mut self) {
        let Some(live) = &mut self.live else { return };
        let host = &self.link.host;
        while let Ok(place) = self.out.try_reserve() {
            let now = host.clock().now();
            let body = match live.outbox.next(now) {
                Some(Next::Ready(body)) => body,
                Some(Next::Review(review)) => review_signal(host, *review),
                Some(Next::Tick(tick)) => tick_signal(host, tick),
                Some(Next::Progress) => pb::connect_response::Body::Progress(pb::Progress {
                    cursor: live.feed.progress(),
                }),
                None if self.machine.drains() => return,
                None => {
                    if let Some(part) = live.parts.next() {
                        pb::connect_response::Body::SnapshotChunk(part)
                    } else if let Some((cursor, event)) = live.feed.next() {
                        live.deliveries.note(cursor, now);
                        pb::connect_response::Body::Signal(event)
                    } else {
                        return;
                    }
                }
            };
            place.send(pb::ConnectResponse { body: Some(body) });
        }
    }

    async fn on_frame(
        &mut self,
        frame: Result<Option<pb::ConnectRequest>, tonic::Status>,
    ) -> Option<Box<End>> {
        match frame {
            Ok(Some(raw)) => {
                self.heard = true;
                self.act(Input::Frame(Frame::from(raw))).await
            }
            Ok(None) => {
                self.half_closed = true;
                self.act(Input::HalfClosed).await
            }
            // The engine gave up its call: a close, not a break.
            Err(status) if status.code() == tonic::Code::Cancelled => self.act(Input::Gone).await,
            Err(status) => {
                let violation = matches!(
                    status.code(),
                    tonic::Code::InvalidArgument | tonic::Code::OutOfRange
                );
                let what = format!("the stream broke: {}", status.message());
                self.act(Input::Broken { what, violation }).await
            }
        }
    }

    /// The engine does not listen any more; the end of what it sent says whether it broke.
    async fn on_gone(&mut self) -> Option<Box<End>> {
        if !self.half_closed {
            let last = broken_by(&mut self.link.incoming);
            if let Ok(Some(status)) = tokio::time::timeout(self.link.second, last).await {
                return self.on_frame(Err(status)).await;
            }
        }
        self.act(Input::Gone).await
    }

    async fn on_mail(&mut self, mail: Mail) -> Option<Box<End>> {
        let (replaced, stopping) = (mail.replaced, mail.stopping);
        if let Some(live) = &mut self.live {
            live.take(mail);
        }
        if replaced {
            return self.act(Input::Replaced).await;
        }
        if stopping {
            return self.act(Input::HostGone).await;
        }
        None
    }

    /// Feeds the machine and does what it says.
    async fn act(&mut self, input: Input) -> Option<Box<End>> {
        let mut effects = VecDeque::from(self.machine.on(input));
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Open(hello) => effects.extend(self.open(*hello).await),
                Effect::Direct(label, directive) => {
                    effects.extend(self.direct(label, *directive).await);
                }
                Effect::Answer(label, answer) => {
                    tracing::debug!(supervisor = %self.link.supervisor, key = %label.key, message = ?answer.message, "directive malformed");
                    if let Some(live) = &mut self.live {
                        live.outbox.result(result(label, answer, true));
                    }
                }
                Effect::Acknowledge(cursor) => self.acknowledge(cursor).await,
                Effect::Report(signal) => {
                    self.link
                        .host
                        .fault(self.link.supervisor.clone(), signal)
                        .await;
                }
                Effect::Progress => {
                    if let Some(live) = &mut self.live {
                        live.outbox.progress();
                    }
                }
                Effect::End(end) => return Some(end),
            }
        }
        None
    }

    async fn open(&mut self, hello: Hello) -> Vec<Effect> {
        let Link {
            host,
            registry,
            supervisor,
            ..
        } = &self.link;
        let mailbox = Arc::new(Mailbox::default());
        let accepted = match handshake::open(host, supervisor, &hello, &mailbox).await {
            Ok(accepted) => accepted,
            Err(refusal) => return self.machine.on(Input::Refused(refusal)),
        };
        let Accepted {
            session,
            transport,
            started,
            parts,
            reviews,
            feed,
        } = accepted;
        let goodbye = Goodbye(Some((host.clone(), supervisor.clone(), session)));
        tracing::info!(%supervisor, %session, engine = hello.engine, "engine connected");
        registry.connected(
            supervisor,
            Some(transport),
            session,
            hello.engine,
            moment(host),
        );
        let mut outbox = Outbox::default();
        outbox.begin(started);
        let mut live = Live {
            session,
            mailbox,
            outbox,
            parts,
            feed,
            deliveries: Deliveries::default(),
            labels: BTreeMap::new(),
            next_label: 0,
            ticks: hello.signals.ticks,
            acknowledged: 0,
            goodbye,
        };
        for review in reviews {
            live.outbox.review(review);
        }
        self.live = Some(live);
        Vec::new()
    }

    async fn direct(&mut self, label: Label, directive: Directive) -> Vec<Effect> {
        let Some(live) = &mut self.live else {
            return Vec::new();
        };
        let delivered = directive
            .cause
            .as_deref()
            .and_then(|cause| cause.strip_prefix("event:")?.parse::<EventId>().ok())
            .and_then(|event| live.deliveries.of(event.0));
        live.next_label += 1;
        live.labels.insert(live.next_label, label);
        let sent = self.link.host.direct(
            self.link.supervisor.clone(),
            live.session,
            directive,
            delivered,
            &live.mailbox,
            live.next_label,
        );
        match sent.await {
            Ok(()) => Vec::new(),
            Err(_) => self.machine.on(Input::HostGone),
        }
    }

    async fn acknowledge(&mut self, cursor: Cursor) {
        let Link {
            host, supervisor, ..
        } = &self.link;
        let Some(live) = &mut self.live else { return };
        if cursor.epoch == epoch(host) {
            // An engine can acknowledge what was delivered, once: repeats cost nobody else a place.
            if cursor.n <= live.acknowledged || cursor.n > live.feed.reached() {
                return;
            }
            live.acknowledged = cursor.n;
            host.acknowledge(supervisor.clone(), cursor.n).await;
        } else {
            tracing::debug!(%supervisor, %cursor, "acknowledgement of another epoch");
        }
    }

    async fn finish(mut self, end: End, last: oneshot::Sender<LastWords>) {
        // The host first, so that whoever sees in the registry that the session is gone finds the host knowing it.
        if let Some(live) = &mut self.live {
            live.goodbye.say().await;
        }
        let Link {
            host,
            registry,
            supervisor,
            ..
        } = &self.link;
        let session = self.live.as_ref().map(|l| l.session);
        let wait = registry.ended(supervisor, session, end.failure.as_deref(), moment(host));
        match &end.failure {
            Some(failure) => {
                tracing::warn!(%supervisor, ?session, failure, wait_ms = wait, "session failed");
            }
            None => tracing::info!(%supervisor, ?session, goaway = ?end.goaway, "session ended"),
        }
        let mut words = LastWords {
            status: end.status(wait.map(Duration::from_millis)),
            ..LastWords::default()
        };
        if let Some(live) = &mut self.live {
            // What was answered in the last moment is said too.
            if let Some(mail) = live.mailbox.try_take() {
                live.take(mail);
            }
            words.messages.extend(
                live.outbox
                    .take_results()
                    .map(|body| pb::ConnectResponse { body: Some(body) }),
            );
        }
        if let Some(goaway) = end.goaway {
            let (reason, message, wait) = goaway.say();
            let body = pb::connect_response::Body::Goaway(pb::Goaway {
                reason: reason.into(),
                message: message.into(),
                retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
            words
                .messages
                .push_back(pb::ConnectResponse { body: Some(body) });
        }
        // Whoever listened may have gone.
        let _ = last.send(words);
    }
}

/// Reads to the end of a stream whose engine has gone: what broke it, if something did. What the engine still asked for
/// was asked by nobody who waits for an answer.
async fn broken_by(incoming: &mut Streaming<pb::ConnectRequest>) -> Option<tonic::Status> {
    loop {
        match incoming.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status),
        }
    }
}

fn moment(host: &HostHandle) -> Moment {
    Moment {
        now: host.clock().now(),
        wall: host.clock().wall_ms(),
    }
}

fn review_signal(host: &HostHandle, review: ReviewQuestion) -> pb::connect_response::Body {
    let ReviewQuestion {
        id,
        command,
        reason,
        actor,
        deadline,
        as_of,
    } = review;
    let review = Signal::Review {
        id: id.to_string(),
        timeout_ms: deadline.since(host.clock().now()),
        command,
        reason,
        actor,
        as_of: Some(
            Cursor {
                epoch: epoch(host),
                n: as_of,
            }
            .to_string(),
        ),
    };
    pb::connect_response::Body::Signal(signal(review, host.clock().wall_ms()))
}

fn tick_signal(host: &HostHandle, tick: Tick) -> pb::connect_response::Body {
    let wall = host.clock().wall_ms();
    let clock = Wall {
        now: host.clock().now(),
        wall,
    };
    let unix = |at| u64::try_from(clock.of(at)).unwrap_or(0);
    let tick = Signal::Tick {
        // The grid of ticks is the host's, so its points name them.
        id: format!("t-{}", tick.scheduled.0),
        scheduled_ms: unix(tick.scheduled),
        now_ms: unix(tick.now),
        missed: tick.missed,
    };
    pb::connect_response::Body::Signal(signal(tick, wall))
}
