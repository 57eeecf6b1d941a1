//! What the engine owes the host, as a machine without clock and sockets: frames go in, effects come out.
//!
//! Each signal becomes a piece of work that is open until every directive of it has its result. Work
//! outlives a lost session: open directives are sent again on the next one, under their old keys, and a
//! signal that comes again while its work is open, or soon after, is not decided twice.
//!
//! | input | effect |
//! | - | - |
//! | `Started` | every open directive is sent again; rules on Started fire |
//! | another signal, new | its directives are sent |
//! | another signal, known | nothing |
//! | a result, final | its directive is closed |
//! | a result, transient | its directive is sent again later, at most [`TRIES`] times |
//! | `goaway` | the session ends, and how |
//!
//! The position that is acknowledged is that of the last event before which nothing is open.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::proto as pb;
use crate::proto::connect_request::Body as Request;
use crate::proto::connect_response::Body as Response;
use crate::proto::signal::Kind;
use crate::rules::{Memory, RuleSet};

/// How often a directive is sent before a transient refusal counts as final.
const TRIES: u32 = 6;

/// How long to wait after a transient refusal that does not say.
const PAUSE: Duration = Duration::from_secs(1);

/// How many signals that are done are remembered, so that a late repeat is not decided again.
const RECENT: usize = 4096;

/// How many signals may be open before the engine says that the host does not answer.
const MOST_OPEN: usize = 16_384;

/// The contract version that this engine speaks.
const CONTRACT_VERSION: u32 = 1;

/// What the machine wants done.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send this.
    Send(Request),
    /// Call [`Session::again`] with this after the delay.
    Later(Duration, Sent),
    /// End the session.
    End(End),
}

/// One directive of one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sent {
    work: u64,
    place: usize,
}

/// How the host ended the session, or why the engine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// A newer session took over.
    Replaced(String),
    /// The host says goodbye, and how long to stay away.
    Goaway {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// The host breaks the contract.
    Fault(String),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Session {
    supervisor: String,
    rules: RuleSet,
    memory: Memory,
    next_work: u64,
    next_ref: u64,
    work: BTreeMap<u64, Work>,
    /// The work of events, in the order of their cursors.
    events: VecDeque<u64>,
    refs: BTreeMap<u64, Sent>,
    known: BTreeSet<String>,
    recent: VecDeque<String>,
    ack: pb::Ack,
}

#[derive(Debug)]
struct Work {
    signal: String,
    /// The event's cursor; empty for other signals.
    cursor: String,
    directives: Vec<pb::Directive>,
    /// The places of directives without a final result, with the number of times they were sent.
    open: BTreeMap<usize, u32>,
}

impl Session {
    pub(crate) fn new(rules: RuleSet, supervisor: String) -> Self {
        Self {
            supervisor,
            rules,
            memory: Memory::default(),
            next_work: 0,
            next_ref: 1,
            work: BTreeMap::new(),
            events: VecDeque::new(),
            refs: BTreeMap::new(),
            known: BTreeSet::new(),
            recent: VecDeque::new(),
            ack: pb::Ack::default(),
        }
    }

    /// Returns the first message of a session. It goes on after the position that the host stored.
    pub(crate) fn hello(&self) -> Request {
        let tick = self.rules.tick.map_or(0, |period| {
            u64::try_from(period.as_millis()).unwrap_or(u64::MAX)
        });
        Request::Hello(pb::Hello {
            supervisor: self.supervisor.clone(),
            engine: Some(pb::EngineInfo {
                name: "rules".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                sdk: String::new(),
            }),
            contract_version: CONTRACT_VERSION,
            resume: None,
            tick_period_ms: tick,
            event_kinds: self.rules.event_kinds(),
            signals: self.rules.signals(),
            heartbeat: true,
        })
    }

    /// Takes one frame of the host.
    pub(crate) fn on_frame(&mut self, frame: Response) -> Vec<Effect> {
        match frame {
            Response::Signal(signal) => self.on_signal(signal),
            Response::Result(result) => self.on_result(&result),
            Response::Goaway(goaway) => vec![Effect::End(on_goaway(goaway))],
            // Rules see no snapshot, and an idle stream needs no answer but the heartbeat.
            Response::SnapshotChunk(_) | Response::Progress(_) => Vec::new(),
        }
    }

    /// Sends a directive again after a transient refusal, unless it has its result meanwhile.
    pub(crate) fn again(&mut self, sent: Sent) -> Vec<Effect> {
        self.send(sent).into_iter().collect()
    }

    /// Returns the acknowledgement that is due, if one is.
    pub(crate) fn take_ack(&mut self) -> Option<Request> {
        let ack = std::mem::take(&mut self.ack);
        (ack != pb::Ack::default()).then_some(Request::Ack(ack))
    }

    fn on_signal(&mut self, signal: pb::Signal) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(Kind::Started(started)) = &signal.kind {
            tracing::info!(
                session = started.session,
                reason = started.reason,
                cursor = started.cursor,
                "session started"
            );
            effects.extend(self.send_open());
        }
        if self.known.contains(&signal.id) {
            // Its directives are under way or have their results; an acknowledgement may have been lost.
            if let (Some(Kind::Event(event)), true) = (&signal.kind, self.events.is_empty()) {
                self.ack.cursor.clone_from(&event.cursor);
            }
            return effects;
        }
        if self.work.len() >= MOST_OPEN {
            effects.push(Effect::End(End::Fault(
                "the host does not answer directives".to_owned(),
            )));
            return effects;
        }

        let decision = self.rules.decide(&mut self.memory, &signal);
        for (rule, problem) in &decision.problems {
            tracing::warn!(rule, signal = signal.id, problem, "rule cannot be applied");
        }
        let work = self.next_work;
        self.next_work += 1;
        let cursor = match signal.kind {
            Some(Kind::Event(event)) => {
                self.events.push_back(work);
                event.cursor
            }
            _ => String::new(),
        };
        let places = 0..decision.directives.len();
        self.known.insert(signal.id.clone());
        self.work.insert(
            work,
            Work {
                signal: signal.id,
                cursor,
                directives: decision.directives,
                open: places.clone().map(|place| (place, 0)).collect(),
            },
        );
        effects.extend(places.filter_map(|place| self.send(Sent { work, place })));
        self.settle(work);
        effects
    }

    fn on_result(&mut self, result: &pb::DirectiveResult) -> Vec<Effect> {
        if !result.signal_id.is_empty() {
            tracing::info!(
                key = result.key,
                status = result.status,
                code = result.code,
                "approval ended"
            );
            self.ack.signal_ids.push(result.signal_id.clone());
        }
        let Some(sent) = self.refs.remove(&result.r#ref) else {
            return Vec::new();
        };
        if result.code == "STALE_SESSION" {
            // This session is over; the directive stays open and goes out on the next one.
            return Vec::new();
        }
        let Some(work) = self.work.get_mut(&sent.work) else {
            return Vec::new();
        };
        let tries = work.open.get(&sent.place).copied().unwrap_or(TRIES);
        let transient = matches!(result.code.as_str(), "RATE_LIMITED" | "UNAVAILABLE");
        if transient && tries < TRIES {
            tracing::debug!(
                key = result.key,
                code = result.code,
                "directive is sent again later"
            );
            let delay = result.retry_after_ms.map_or(PAUSE, Duration::from_millis);
            return vec![Effect::Later(delay, sent)];
        }
        log(&work.signal, result);
        work.open.remove(&sent.place);
        self.settle(sent.work);
        Vec::new()
    }

    /// Sends everything that is open again, for a new session.
    fn send_open(&mut self) -> Vec<Effect> {
        self.refs.clear();
        let open: Vec<_> = self
            .work
            .iter()
            .flat_map(|(work, w)| {
                w.open.keys().map(|place| Sent {
                    work: *work,
                    place: *place,
                })
            })
            .collect();
        open.into_iter()
            .filter_map(|sent| self.send(sent))
            .collect()
    }

    /// Sends one directive under a number of its own; nothing where it has its result.
    fn send(&mut self, sent: Sent) -> Option<Effect> {
        let work = self.work.get_mut(&sent.work)?;
        *work.open.get_mut(&sent.place)? += 1;
        let number = self.next_ref;
        self.next_ref += 1;
        let mut directive = work.directives.get(sent.place)?.clone();
        directive.r#ref = number;
        self.refs.insert(number, sent);
        Some(Effect::Send(Request::Directive(directive)))
    }

    /// Takes work that has nothing open off the list, and moves the position past events that are done.
    fn settle(&mut self, work: u64) {
        if self
            .work
            .get(&work)
            .is_some_and(|w| w.cursor.is_empty() && w.open.is_empty())
        {
            self.close(work);
        }
        while let Some(first) = self.events.front().copied() {
            if self.work.get(&first).is_some_and(|w| !w.open.is_empty()) {
                break;
            }
            self.events.pop_front();
            if let Some(done) = self.close(first) {
                self.ack.cursor = done.cursor;
            }
        }
    }

    fn close(&mut self, work: u64) -> Option<Work> {
        let done = self.work.remove(&work)?;
        self.recent.push_back(done.signal.clone());
        if self.recent.len() > RECENT
            && let Some(old) = self.recent.pop_front()
        {
            self.known.remove(&old);
        }
        Some(done)
    }
}

fn on_goaway(goaway: pb::Goaway) -> End {
    let pb::Goaway {
        reason,
        message,
        retry_after_ms,
    } = goaway;
    if reason == "REPLACED" {
        return End::Replaced(message);
    }
    tracing::info!(reason, message, retry_after_ms, "host ends the session");
    let retry_after = (retry_after_ms > 0).then(|| Duration::from_millis(retry_after_ms));
    End::Goaway {
        reason,
        retry_after,
    }
}

fn log(signal: &str, result: &pb::DirectiveResult) {
    let pb::DirectiveResult {
        key,
        status,
        code,
        message,
        check,
        targets,
        replayed,
        ..
    } = result;
    if status == "REFUSED" {
        tracing::warn!(signal, key, code, check, message, "directive refused");
        return;
    }
    let outcomes: Vec<_> = targets
        .iter()
        .map(|t| format!("{} {} {}", t.target, t.outcome, t.detail))
        .collect();
    tracing::info!(
        signal,
        key,
        status,
        replayed,
        outcomes = outcomes.join("; "),
        "directive answered"
    );
}

#[cfg(test)]
mod tests;
