//! Sessions of engines, their ticks and acknowledgements, floods, and what a crash loses.

use signalbox::contract::id::SupervisorId;

use super::Reference;
use super::history::{Note, ReviewFact, Save, Wire};
use crate::seen::Seen;
use crate::step::Resume;

/// A session that lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub session: u64,
    pub since: u64,
    pub takes_reviews: bool,
    pub tick_ms: Option<u64>,
}

impl Reference {
    /// The host was killed: whoever was connected or waited is gone.
    pub(super) fn lose_what_is_transient(&mut self) {
        self.history.wires.push((self.now, Wire::Opened));
        self.history.reviews.push((self.now, ReviewFact::Opened));
    }

    /// The live session of a supervisor's engine.
    pub(super) fn live(&self, of: &SupervisorId) -> Option<Live> {
        for (at, wire) in self.history.wires.iter().rev() {
            match wire {
                Wire::Opened => return None,
                Wire::SessionEnded { supervisor } if supervisor == of => return None,
                Wire::SessionBegan {
                    supervisor,
                    session,
                    takes_reviews,
                    tick_ms,
                } if supervisor == of => {
                    let (session, takes_reviews, tick_ms) = (*session, *takes_reviews, *tick_ms);
                    return Some(Live {
                        session,
                        since: *at,
                        takes_reviews,
                        tick_ms,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// The newest session that a supervisor ever had, and when it was accepted.
    pub(super) fn newest_session(&self, of: &SupervisorId) -> Option<(u64, u64)> {
        self.history
            .wires
            .iter()
            .rev()
            .find_map(|(at, wire)| match wire {
                Wire::SessionBegan {
                    supervisor,
                    session,
                    ..
                } if supervisor == of => Some((*session, *at)),
                _ => None,
            })
    }

    /// Since when a supervisor without a session has had none.
    pub(super) fn gone_since(&self, of: &SupervisorId) -> u64 {
        let last = self
            .history
            .wires
            .iter()
            .rev()
            .find_map(|(at, wire)| match wire {
                Wire::Opened => Some(*at),
                Wire::SessionEnded { supervisor } if supervisor == of => Some(*at),
                _ => None,
            });
        last.unwrap_or(0).max(self.first_saved(of))
    }

    pub(super) fn hello(
        &mut self,
        supervisor: &SupervisorId,
        resume: Resume,
        signals: Option<&[String]>,
        tick_ms: Option<u64>,
    ) {
        if self.supervisor(supervisor).is_none() {
            return;
        }
        if let Some(old) = self.live(supervisor) {
            self.notes.push(Note::Rare("a session is replaced"));
            self.history.wires.push((
                self.now,
                Wire::SessionEnded {
                    supervisor: supervisor.clone(),
                },
            ));
            self.see(Seen::Goaway {
                session: old.session,
                reason: "REPLACED".to_owned(),
            });
        }
        let reason = if self.newest_session(supervisor).is_none() {
            "first"
        } else {
            "resubscribe"
        };
        let session = 1 + self
            .history
            .wires
            .iter()
            .filter(|(_, wire)| matches!(wire, Wire::SessionBegan { .. }))
            .count() as u64;
        let takes_reviews = signals.is_none_or(|kinds| kinds.iter().any(|k| k == "Review"));
        let began = Wire::SessionBegan {
            supervisor: supervisor.clone(),
            session,
            takes_reviews,
            tick_ms,
        };
        self.history.wires.push((self.now, began));
        let last = self.last_cursor(supervisor);
        let after = match resume {
            Resume::After(cursor) if cursor <= last => cursor,
            Resume::After(_) | Resume::Snapshot => last,
            Resume::Unsaid => self.acknowledged(supervisor).unwrap_or(last),
        };
        let open: Vec<u64> = self
            .open_reviews(Some(supervisor))
            .iter()
            .map(|r| r.id)
            .collect();
        self.see(Seen::SessionStarted {
            supervisor: supervisor.clone(),
            session,
            reason: reason.to_owned(),
            after,
            open_reviews: if takes_reviews {
                open.clone()
            } else {
                Vec::new()
            },
        });
        // What is open is not answered any more by an engine that takes no reviews.
        if !takes_reviews {
            for review in open {
                self.end_unanswered(review);
            }
        }
    }

    pub(super) fn end_session(&mut self, supervisor: &SupervisorId) {
        if self.live(supervisor).is_some() {
            self.history.wires.push((
                self.now,
                Wire::SessionEnded {
                    supervisor: supervisor.clone(),
                },
            ));
        }
    }

    fn acknowledged(&self, of: &SupervisorId) -> Option<u64> {
        let acks = self
            .history
            .wires
            .iter()
            .filter_map(|(_, wire)| match wire {
                Wire::Acked { supervisor, cursor } if supervisor == of => Some(*cursor),
                _ => None,
            });
        acks.max()
    }

    /// Takes an acknowledgement; one of an event that is not there yet means nothing.
    pub(super) fn ack(&mut self, supervisor: &SupervisorId, cursor: u64) {
        if cursor <= self.last_cursor(supervisor) {
            self.history.wires.push((
                self.now,
                Wire::Acked {
                    supervisor: supervisor.clone(),
                    cursor,
                },
            ));
        }
    }

    /// Sends every live session the tick that is due. Ticks stand at multiples of the period.
    pub(super) fn send_ticks(&mut self) {
        for def in self.supervisors() {
            let Some(live) = self.live(&def.id) else {
                continue;
            };
            let Some(period) = def.tick.map(|t| t.0).or(live.tick_ms).filter(|p| *p > 0) else {
                continue;
            };
            let sent = self
                .history
                .wires
                .iter()
                .rev()
                .find_map(|(_, wire)| match wire {
                    Wire::TickSent {
                        session, scheduled, ..
                    } if *session == live.session => Some(*scheduled),
                    _ => None,
                });
            let base = sent
                .unwrap_or(0)
                .max(self.period_since(&def.id, live.since, live.tick_ms));
            let (last, latest) = (base / period, self.now / period);
            if latest > last {
                let (scheduled, missed) = (latest * period, latest - last - 1);
                let session = live.session;
                let sent = Wire::TickSent {
                    supervisor: def.id.clone(),
                    session,
                    scheduled,
                };
                self.history.wires.push((self.now, sent));
                self.notes.push(Note::Rare(if missed > 0 {
                    "ticks collapse"
                } else {
                    "a tick is sent"
                }));
                self.see(Seen::Tick {
                    session,
                    scheduled,
                    missed,
                });
            }
        }
    }

    /// When the session's tick period last changed: its start, or a later save.
    fn period_since(&self, of: &SupervisorId, since: u64, asked: Option<u64>) -> u64 {
        let (mut changed, mut before) = (since, None);
        for (at, save) in &self.history.saves {
            let Save::Supervisor(def) = save else {
                continue;
            };
            if def.id == *of {
                let period = def.tick.map(|t| t.0).or(asked);
                if *at > since && before.is_some_and(|b| b != period) {
                    changed = *at;
                }
                before = Some(period);
            }
        }
        changed
    }

    /// Says whether a tick was sent to a supervisor since the host opened.
    pub(super) fn ticked(&self, of: &SupervisorId) -> bool {
        let since = self
            .history
            .wires
            .iter()
            .rev()
            .take_while(|(_, wire)| !matches!(wire, Wire::Opened));
        since
            .into_iter()
            .any(|(_, wire)| matches!(wire, Wire::TickSent { supervisor, .. } if supervisor == of))
    }

    /// Counts a message; says whether it is one too many: the `most`-th before it came less than a second ago.
    pub(super) fn floods(&mut self, from: &str, most: u32) -> bool {
        let since = self
            .history
            .wires
            .iter()
            .rev()
            .take_while(|(_, wire)| !matches!(wire, Wire::Opened));
        let own = since.filter(|(_, wire)| matches!(wire, Wire::Message { from: f } if f == from));
        let nth = own
            .map(|(at, _)| *at)
            .nth((most as usize).saturating_sub(1));
        self.history.wires.push((
            self.now,
            Wire::Message {
                from: from.to_owned(),
            },
        ));
        match nth.map(|at| self.now - at) {
            Some(999) => self.notes.push(Note::Rare("a flood by a millisecond")),
            Some(1_000) => self.notes.push(Note::Rare("no flood by a millisecond")),
            _ => {}
        }
        nth.is_some_and(|at| self.now - at < 1_000)
    }
}
