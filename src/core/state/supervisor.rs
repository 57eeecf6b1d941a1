//! A supervisor's durable side: definition, stream position, keys and budgets.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use minicbor::{Decode, Encode};

use crate::contract::definition::SupervisorDef;
use crate::contract::id::{ReviewId, SessionId};
use crate::contract::outcome::Answer;
use crate::contract::time::HostTime;
use crate::core::record::{Cited, Fingerprint, Source};

/// How long a key is kept at least, unless 1,000,000 newer ones push it out (C19).
pub const KEY_AGE_MS: u64 = 86_400_000;
/// The most keys of one scope.
pub const KEYS_MOST: usize = 1_000_000;
/// The number of newest keys of one scope that are kept however old they are.
pub const KEYS_LEAST: usize = 100_000;
/// The number of causes of one supervisor whose budgets are kept; older ones count as expired.
pub const CITED_MOST: usize = 10_000;
/// The length of the windows for initiative and notify, in milliseconds.
pub const MINUTE_MS: u64 = 60_000;
/// How long a closed review can be cited, in milliseconds: as long as any `causeMaxAge`.
pub const REVIEW_AGE_MS: u64 = 86_400_000;

/// What a key stands for and what came of it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Kept {
    /// What it stands for.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub fingerprint: Fingerprint,
    /// The answer; absent while it waits for a review.
    #[n(1)]
    pub answer: Option<Answer>,
    /// The review that it waits for.
    #[n(2)]
    pub review: Option<ReviewId>,
}

/// The keys of one scope, in the order of their first use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys {
    by_text: OrdMap<Arc<str>, Arc<Kept>>,
    order: Vector<(HostTime, Arc<str>)>,
}

impl Keys {
    /// Finds what a key stands for.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Kept>> {
        self.by_text.get(key)
    }

    /// Returns how many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_text.len()
    }

    /// Says whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// Returns the keys in the order of their first use, with its time.
    pub fn in_order(&self) -> impl Iterator<Item = (HostTime, &Arc<str>, &Arc<Kept>)> {
        self.order
            .iter()
            .filter_map(|(at, key)| Some((*at, key, self.by_text.get(key)?)))
    }

    pub(super) fn put(&mut self, now: HostTime, key: &str, kept: Kept) {
        let key: Arc<str> = key.into();
        if self
            .by_text
            .insert(Arc::clone(&key), Arc::new(kept))
            .is_none()
        {
            self.order.push_back((now, key));
        }
        while let Some((at, oldest)) = self.order.front() {
            let old = now.since(*at) > KEY_AGE_MS && self.order.len() > KEYS_LEAST;
            if !old && self.order.len() <= KEYS_MOST {
                break;
            }
            self.by_text.remove(oldest);
            self.order.pop_front();
        }
    }
}

/// A supervisor.
#[derive(Debug, Clone, PartialEq)]
pub struct Supervisor {
    /// Its number: dense, in the order of first saves.
    pub number: u32,
    /// Its definition.
    pub def: Arc<SupervisorDef>,
    /// The definition as it was saved.
    pub json: Arc<str>,
    /// Where the definition came from.
    pub source: Source,
    /// When it was first saved.
    pub saved: HostTime,
    /// The newest cursor of its stream; 0 before the first event.
    pub last_cursor: u64,
    /// The newest cursor that its engine acknowledged.
    pub acknowledged: Option<u64>,
    /// Its newest session, and when it was accepted.
    pub newest_session: Option<(SessionId, HostTime)>,
    /// Its keys.
    pub keys: Keys,
    /// When events were committed: the first cursor of each second that had any.
    pub marks: Vector<(u64, HostTime)>,
    /// How many commands cited each cause.
    pub cited: OrdMap<Cited, u32>,
    /// Events up to this cursor can be no cause any more: their budgets are forgotten.
    pub cited_floor: u64,
    /// When the commands by ticks and at own initiative of the last minute passed.
    pub initiative: Vector<HostTime>,
    /// When the notifies of the last minute passed.
    pub notifies: Vector<HostTime>,
}

impl Supervisor {
    /// Returns when the event was committed, rounded down to the second; the last known time before
    /// where marks that old are gone.
    #[must_use]
    pub fn committed(&self, cursor: u64) -> Option<HostTime> {
        // Marks are in the order of cursors: the last one not above it is its second.
        let above = self.marks.iter().rposition(|(c, _)| *c <= cursor)?;
        self.marks.get(above).map(|(_, at)| *at)
    }

    /// Returns how many of the times lie in the minute before `now`.
    #[must_use]
    pub fn within_minute(window: &Vector<HostTime>, now: HostTime) -> usize {
        window
            .iter()
            .rev()
            .take_while(|at| now.since(**at) < MINUTE_MS)
            .count()
    }

    pub(super) fn spend(window: &mut Vector<HostTime>, now: HostTime) {
        while window.front().is_some_and(|at| now.since(*at) >= MINUTE_MS) {
            window.pop_front();
        }
        window.push_back(now);
    }

    pub(super) fn cite(&mut self, cited: Cited) {
        let count = self.cited.get(&cited).copied().unwrap_or(0);
        self.cited.insert(cited, count.saturating_add(1));
        if self.cited.len() > CITED_MOST
            && let Some((Cited::Event(n), _)) = self.cited.get_min().cloned()
        {
            self.cited.remove(&Cited::Event(n));
            self.cited_floor = n;
        }
    }

    pub(super) fn mark(&mut self, cursor: u64, now: HostTime) {
        let second = HostTime(now.0 - now.0 % 1_000);
        if self.marks.back().is_none_or(|(_, at)| *at < second) {
            self.marks.push_back((cursor, second));
        }
        let age = self.def.cause_max_age.0;
        while self.marks.len() > 1
            && self
                .marks
                .get(1)
                .is_some_and(|(_, at)| now.since(*at) > age.max(MINUTE_MS))
        {
            self.marks.pop_front();
        }
    }
}
