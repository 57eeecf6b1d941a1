//! Reviews: operators' commands that wait for the owner's engine.

use std::rc::Rc;

use signalbox::contract::code::Code;
use signalbox::contract::id::SupervisorId;

use super::history::{Note, Remembered, Request, ReviewFact};
use super::{By, Caller, Reference};
use crate::choices::TIMEOUT_RECHECKS_OWNER;
use crate::operations::Deed;
use crate::seen::{Reply, Seen};

/// A review that is open.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub id: u64,
    pub supervisor: SupervisorId,
    pub deadline: u64,
    pub request: Rc<Request>,
}

/// How a caller waits for a review's end.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub scope: String,
    pub key: Option<String>,
    pub fingerprint: String,
    pub replayed: bool,
}

impl Reference {
    /// The open reviews of one supervisor or of all, the oldest first.
    pub(super) fn open_reviews(&self, of: Option<&SupervisorId>) -> Vec<Open> {
        let mut open: Vec<Open> = Vec::new();
        for (_, fact) in &self.history.reviews {
            match fact {
                ReviewFact::Asked {
                    id,
                    supervisor,
                    deadline,
                    request,
                } => open.push(Open {
                    id: *id,
                    supervisor: supervisor.clone(),
                    deadline: *deadline,
                    request: Rc::clone(request),
                }),
                ReviewFact::Ended { id } => open.retain(|r| r.id != *id),
                _ => {}
            }
        }
        open.retain(|r| of.is_none_or(|of| r.supervisor == *of));
        open
    }

    /// When a review was opened, if it ever was one of this supervisor's.
    pub(super) fn review_opened(&self, of: &SupervisorId, review: u64) -> Option<u64> {
        self.history
            .reviews
            .iter()
            .find_map(|(at, fact)| match fact {
                ReviewFact::Asked { id, supervisor, .. } if *id == review && supervisor == of => {
                    Some(*at)
                }
                _ => None,
            })
    }

    /// Opens a review and asks the engine, if it is there.
    pub(super) fn open_review(
        &mut self,
        owner: &SupervisorId,
        timeout_ms: u64,
        request: Rc<Request>,
    ) -> u64 {
        let asked = self
            .history
            .reviews
            .iter()
            .filter(|(_, f)| matches!(f, ReviewFact::Asked { .. }))
            .count();
        let id = asked as u64 + 1;
        self.history.reviews.push((
            self.now,
            ReviewFact::Asked {
                id,
                supervisor: owner.clone(),
                deadline: self.now + timeout_ms,
                request: Rc::clone(&request),
            },
        ));
        if let Some(live) = self.live(owner) {
            let command = &request.command;
            self.see(Seen::Review {
                session: live.session,
                id,
                timeout_ms,
                op: command.op.clone(),
                target: command.target.clone(),
                args: serde_json::to_string(&command.args).unwrap_or_default(),
                if_status: command.if_status.clone(),
                reason: request.reason.clone(),
                actor: request.actor.clone(),
            });
        } else {
            self.notes
                .push(Note::Review("opened while the engine is gone"));
        }
        id
    }

    /// Lets the present step's caller wait for a review.
    pub(super) fn wait_for(&mut self, id: u64, waiter: Waiter) {
        let Waiter {
            scope,
            key,
            fingerprint,
            replayed,
        } = waiter;
        let waits = ReviewFact::Waits {
            id,
            step: self.index,
            scope,
            key,
            fingerprint,
            replayed,
        };
        self.history.reviews.push((self.now, waits));
    }

    /// Ends a review by its engine's word.
    pub(super) fn end_by_verdict(&mut self, id: u64, allow: bool) {
        let Some(open) = self.open_reviews(None).into_iter().find(|r| r.id == id) else {
            return;
        };
        self.notes
            .push(Note::Review(if allow { "allow" } else { "deny" }));
        self.history
            .reviews
            .push((self.now, ReviewFact::Ended { id }));
        let reply = if allow {
            self.apply_request(&open.request, Some(Some(&open.supervisor)))
        } else {
            Reply::refused(Code::ControlRejected, "review")
        };
        self.answer_waiters(id, &reply);
    }

    /// Ends a review that its engine does not answer.
    pub(super) fn end_unanswered(&mut self, id: u64) {
        let Some(open) = self.open_reviews(None).into_iter().find(|r| r.id == id) else {
            return;
        };
        self.history
            .reviews
            .push((self.now, ReviewFact::Ended { id }));
        let reply = self.decide_unanswered(&open.supervisor, &open.request);
        self.answer_waiters(id, &reply);
    }

    /// What nobody answers: a stop is allowed, anything else refused.
    pub(super) fn decide_unanswered(&mut self, owner: &SupervisorId, request: &Request) -> Reply {
        if matches!(request.deed, Deed::Stop { .. }) {
            let owner = TIMEOUT_RECHECKS_OWNER.then_some(Some(owner));
            self.apply_request(request, owner)
        } else {
            Reply::refused(Code::ControlRejected, "review")
        }
    }

    /// Applies an operator's command now.
    pub(super) fn apply_request(
        &mut self,
        request: &Request,
        owner: Option<Option<&SupervisorId>>,
    ) -> Reply {
        let caller = Caller::Operator(request.actor.clone());
        let by = By {
            caller,
            cause: None,
            reason: request.reason.clone(),
        };
        let guard = request.command.if_status.as_deref();
        match self.act(&request.deed, guard, &request.places, owner, &by) {
            Ok(targets) => Reply {
                matched: request.matched,
                ..Reply::done(targets)
            },
            Err(refused) => refused,
        }
    }

    /// Answers who still waits for a review, and remembers the answer under every key that waited.
    fn answer_waiters(&mut self, review: u64, reply: &Reply) {
        let opened = self
            .history
            .reviews
            .iter()
            .rposition(|(_, f)| matches!(f, ReviewFact::Opened))
            .unwrap_or(0);
        let mut answers = Vec::new();
        for (at, (_, fact)) in self.history.reviews.iter().enumerate() {
            let ReviewFact::Waits {
                id,
                step,
                scope,
                key,
                fingerprint,
                replayed,
            } = fact
            else {
                continue;
            };
            if *id != review {
                continue;
            }
            if at >= opened {
                answers.push((
                    *step,
                    Reply {
                        replayed: *replayed,
                        ..reply.clone()
                    },
                ));
            } else {
                self.notes
                    .push(Note::Review("ended after its caller was gone"));
            }
            if let Some(key) = key {
                self.history
                    .keys
                    .extend(remembered(scope, key, fingerprint, reply));
            }
        }
        for (step, reply) in answers {
            self.answer(step, reply);
        }
    }

    /// The open review for which a key already waits, with the fingerprint that it waits for.
    pub(super) fn review_of_key(&self, of: &str, with: &str) -> Option<(u64, String)> {
        let open = self.open_reviews(None);
        self.history
            .reviews
            .iter()
            .find_map(|(_, fact)| match fact {
                ReviewFact::Waits {
                    id,
                    scope,
                    key: Some(key),
                    fingerprint,
                    ..
                } if scope == of && key == with && open.iter().any(|r| r.id == *id) => {
                    Some((*id, fingerprint.clone()))
                }
                _ => None,
            })
    }
}

/// What stays under a key of an answer; nothing of one that may be another the next time.
pub(super) fn remembered(
    scope: &str,
    key: &str,
    fingerprint: &str,
    reply: &Reply,
) -> Option<Remembered> {
    let passing = [
        Code::RateLimited,
        Code::InvalidArgument,
        Code::StaleSession,
        Code::Unavailable,
    ];
    (!reply.code.is_some_and(|code| passing.contains(&code))).then(|| Remembered {
        scope: scope.to_owned(),
        key: key.to_owned(),
        fingerprint: fingerprint.to_owned(),
        reply: reply.clone(),
    })
}
