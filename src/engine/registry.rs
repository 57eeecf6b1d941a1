//! What is known of each engine: whether it is connected, how it failed last, when it may come back. Operators
//! read it; sessions and managed processes write it. Forgotten at a restart of the host.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contract::definition::Transport;
use crate::contract::id::{SessionId, SupervisorId};
use crate::contract::time::HostTime;

use super::backoff::Backoff;

/// The most takeovers of answering sessions in a minute before newcomers are refused (C10).
const TAKEOVERS_MOST: usize = 5;
/// A session that said something this long ago, in milliseconds, counts as answering.
const ANSWERING_MS: u64 = 30_000;

/// What operators see of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineStatus {
    /// Its supervisor.
    pub supervisor: SupervisorId,
    /// How it is reached; absent where it never connected and is not managed.
    pub transport: Option<Transport>,
    /// Whether a session is live.
    pub connected: bool,
    /// The live session, else the newest one.
    pub session: Option<SessionId>,
    /// The engine's name, version and kit, as it says.
    pub engine: Option<String>,
    /// Since when it is connected, or not, unix milliseconds; absent where it never was.
    pub since: Option<u64>,
    /// Its last failure: when, in unix milliseconds, and what.
    pub last_failure: Option<(u64, String)>,
    /// When it may come back, unix milliseconds; absent where it may now.
    pub next_try: Option<u64>,
    /// How often it failed since the host opened.
    pub failures: u64,
}

/// The moment of a change, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Host time.
    pub now: HostTime,
    /// Unix milliseconds.
    pub wall: u64,
}

#[derive(Debug, Default)]
struct Entry {
    transport: Option<Transport>,
    live: Option<SessionId>,
    newest: Option<SessionId>,
    engine: Option<String>,
    since: Option<Moment>,
    heard: HostTime,
    last_failure: Option<(u64, String)>,
    failures: u64,
    backoff: Backoff,
    takeovers: VecDeque<HostTime>,
}

/// The registry; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<SupervisorId, Entry>>>);

/// Why an engine may not connect now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It failed a short while ago; milliseconds to wait.
    Backoff(u64),
    /// Two replicas take the session from each other; milliseconds to wait.
    Fighting(u64),
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<SupervisorId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, supervisor: &SupervisorId, change: impl FnOnce(&mut Entry) -> T) -> T {
        change(self.entries().entry(supervisor.clone()).or_default())
    }

    /// Says whether an engine may connect now.
    ///
    /// # Errors
    /// How long it has to wait, and why.
    pub fn may_connect(&self, supervisor: &SupervisorId, now: HostTime) -> Result<(), Wait> {
        self.with(supervisor, |entry| {
            if let Some(ms) = entry.backoff.wait_ms(now) {
                return Err(Wait::Backoff(ms));
            }
            while entry
                .takeovers
                .front()
                .is_some_and(|at| now.since(*at) >= 60_000)
            {
                entry.takeovers.pop_front();
            }
            match entry.takeovers.front() {
                Some(oldest) if entry.takeovers.len() >= TAKEOVERS_MOST && entry.answering(now) => {
                    Err(Wait::Fighting(oldest.plus(60_000).since(now)))
                }
                _ => Ok(()),
            }
        })
    }

    /// Takes note of a session that has begun, in the place of a live one perhaps.
    pub fn connected(
        &self,
        supervisor: &SupervisorId,
        transport: Option<Transport>,
        session: SessionId,
        engine: String,
        at: Moment,
    ) {
        self.with(supervisor, |entry| {
            // An older session that says so late has been replaced already.
            if entry.newest.is_some_and(|newest| newest > session) {
                return;
            }
            if entry.live.is_some() && entry.answering(at.now) {
                entry.takeovers.push_back(at.now);
            }
            entry.transport = transport;
            entry.live = Some(session);
            entry.newest = Some(session);
            entry.engine = Some(engine);
            entry.since = Some(at);
            entry.heard = at.now;
        });
    }

    /// Takes note that a session said something.
    pub fn heard(&self, supervisor: &SupervisorId, session: SessionId, now: HostTime) {
        self.with(supervisor, |entry| {
            if entry.live == Some(session) {
                entry.heard = now;
            }
        });
    }

    /// Takes note of a session's end. A failure's text says what failed. Returns how long the engine has to wait, in
    /// milliseconds; nothing for an end that was no failure, and for one of an older session.
    pub fn ended(
        &self,
        supervisor: &SupervisorId,
        session: Option<SessionId>,
        failure: Option<&str>,
        at: Moment,
    ) -> Option<u64> {
        self.with(supervisor, |entry| {
            // A session that was replaced says nothing about the one that lives.
            if session.is_some() && entry.live != session {
                return None;
            }
            let well_since = entry.since.filter(|_| session.is_some()).map(|m| m.now);
            if session.is_some() {
                entry.live = None;
                entry.since = Some(at);
            }
            failure.map(|what| entry.fail(what, well_since, at))
        })
    }

    /// Takes note that a managed process has ended, `began` being when it was started, and returns how long to wait
    /// before the next start, in milliseconds. Where its session failed in the same breath, that counted already.
    pub fn exited(
        &self,
        supervisor: &SupervisorId,
        began: HostTime,
        what: &str,
        at: Moment,
    ) -> u64 {
        self.with(supervisor, |entry| {
            entry.transport = Some(Transport::Managed);
            match entry.backoff.wait_ms(at.now) {
                Some(ms) => {
                    entry.last_failure = Some((at.wall, what.to_owned()));
                    ms
                }
                None => entry.fail(what, Some(began), at),
            }
        })
    }

    /// Returns what is known of every engine that was ever heard of, by supervisor id.
    #[must_use]
    pub fn list(&self, at: Moment) -> Vec<EngineStatus> {
        self.entries()
            .iter()
            .map(|(id, entry)| entry.status(id, at))
            .collect()
    }

    /// Returns what is known of one engine.
    #[must_use]
    pub fn get(&self, supervisor: &SupervisorId, at: Moment) -> Option<EngineStatus> {
        self.entries()
            .get(supervisor)
            .map(|e| e.status(supervisor, at))
    }
}

impl Entry {
    fn answering(&self, now: HostTime) -> bool {
        self.live.is_some() && now.since(self.heard) < ANSWERING_MS
    }

    fn fail(&mut self, what: &str, well_since: Option<HostTime>, at: Moment) -> u64 {
        self.failures += 1;
        self.last_failure = Some((at.wall, what.to_owned()));
        self.backoff.failed(at.now, well_since).since(at.now)
    }

    fn status(&self, id: &SupervisorId, at: Moment) -> EngineStatus {
        EngineStatus {
            supervisor: id.clone(),
            transport: self.transport,
            connected: self.live.is_some(),
            session: self.live.or(self.newest),
            engine: self.engine.clone(),
            since: self.since.map(|m| m.wall),
            last_failure: self.last_failure.clone(),
            next_try: self
                .backoff
                .wait_ms(at.now)
                .map(|ms| at.wall.saturating_add(ms)),
            failures: self.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SupervisorId {
        "pipeline".parse().expect("id")
    }

    fn at(ms: u64) -> Moment {
        Moment {
            now: HostTime(ms),
            wall: 1_000_000 + ms,
        }
    }

    fn connect(registry: &Registry, session: u64, ms: u64) {
        registry.connected(
            &id(),
            Some(Transport::Attached),
            SessionId(session),
            "e".into(),
            at(ms),
        );
    }

    #[test]
    fn a_failed_engine_waits_and_a_closed_one_does_not() {
        let registry = Registry::default();
        connect(&registry, 1, 0);
        assert_eq!(
            registry.ended(&id(), Some(SessionId(1)), None, at(10)),
            None
        );
        assert_eq!(registry.may_connect(&id(), HostTime(10)), Ok(()));
        connect(&registry, 2, 20);
        let wait = registry
            .ended(&id(), Some(SessionId(2)), Some("reset"), at(30))
            .expect("a wait");
        assert_eq!(
            registry.may_connect(&id(), HostTime(30)),
            Err(Wait::Backoff(wait))
        );
        let status = registry.get(&id(), at(30)).expect("known");
        assert_eq!(status.last_failure, Some((1_000_030, "reset".into())));
        assert_eq!(status.next_try, Some(1_000_030 + wait));
        assert!(!status.connected);
        assert_eq!(registry.may_connect(&id(), HostTime(30 + wait)), Ok(()));
    }

    #[test]
    fn the_end_of_a_replaced_session_changes_nothing() {
        let registry = Registry::default();
        connect(&registry, 1, 0);
        connect(&registry, 2, 5);
        assert_eq!(
            registry.ended(&id(), Some(SessionId(1)), Some("reset"), at(6)),
            None
        );
        let status = registry.get(&id(), at(6)).expect("known");
        assert!(status.connected);
        assert_eq!(status.session, Some(SessionId(2)));
        assert_eq!(status.failures, 0);
    }

    #[test]
    fn replicas_that_fight_for_a_session_are_slowed_down() {
        let registry = Registry::default();
        for n in 0..6 {
            assert_eq!(registry.may_connect(&id(), HostTime(n)), Ok(()));
            connect(&registry, n, n);
        }
        assert_eq!(
            registry.may_connect(&id(), HostTime(10)),
            Err(Wait::Fighting(59_991))
        );
        assert_eq!(registry.may_connect(&id(), HostTime(60_001)), Ok(()));
    }

    #[test]
    fn a_silent_session_may_always_be_taken_over() {
        let registry = Registry::default();
        for n in 0..6 {
            connect(&registry, n, n);
        }
        // What has been silent for 30 s may be a half-open stream.
        assert_eq!(registry.may_connect(&id(), HostTime(30_010)), Ok(()));
        registry.heard(&id(), SessionId(5), HostTime(30_005));
        assert!(registry.may_connect(&id(), HostTime(30_010)).is_err());
    }

    #[test]
    fn a_process_that_ends_with_its_session_fails_once() {
        let registry = Registry::default();
        connect(&registry, 1, 0);
        let wait = registry
            .ended(&id(), Some(SessionId(1)), Some("reset"), at(10))
            .expect("a wait");
        assert_eq!(
            registry.exited(&id(), HostTime(0), "exit code 1", at(11)),
            wait - 1
        );
        assert_eq!(registry.get(&id(), at(11)).expect("known").failures, 1);
        let later = at(11 + wait);
        assert!(registry.exited(&id(), HostTime(0), "exit code 1", later) >= 200);
        assert_eq!(registry.get(&id(), later).expect("known").failures, 2);
    }
}
