//! Operators' commands: their checks in order (C29).

use std::rc::Rc;

use signalbox::contract::code::Code;
use signalbox::contract::directive::{Actor, Command};
use signalbox::contract::id::SupervisorId;
use signalbox::contract::outcome::Outcome;

use super::directives::{MOST_REASON_BYTES, is_key};
use super::history::{Note, Place, Request};
use super::judge::Judgement;
use super::ownership::is_gateway;
use super::reviews::{Waiter, remembered};
use super::{Caller, Reference};
use crate::choices::{EQUAL_REQUESTS_JOIN, MOST_OPEN_REVIEWS};
use crate::operations::{self, Deed};
use crate::seen::{Reply, TargetSeen};

/// How many commands an operator may send in a second.
const MOST_COMMANDS_PER_SECOND: u32 = 200;

/// What the owner's side says to a command.
enum Gate {
    /// It may be applied at once.
    Open,
    /// It is refused.
    Shut(Reply),
    /// This supervisor's engine is asked.
    Review(SupervisorId),
}

impl Reference {
    pub(super) fn operator_command(
        &mut self,
        actor: &Actor,
        command: &Command,
        reason: Option<&str>,
        key: Option<&str>,
    ) {
        let scope = actor.to_string();
        let flooded = self.floods(&scope, MOST_COMMANDS_PER_SECOND);
        let shaped = if key.is_some_and(|k| !is_key(k))
            || reason.is_some_and(|r| r.len() > MOST_REASON_BYTES)
        {
            Err(Code::InvalidArgument)
        } else {
            operations::read(command, false)
        };
        let (deed, aim) = match shaped {
            Ok(read) => read,
            Err(code) => return self.answer(self.index, Reply::refused(code, "shape")),
        };
        let fingerprint = serde_json::to_string(command).unwrap_or_default();
        if let Some(key) = key {
            if let Some(reply) = self.recall(&scope, key, &fingerprint) {
                return self.answer(self.index, reply);
            }
            if let Some((review, waiting)) = self.review_of_key(&scope, key) {
                if waiting != fingerprint {
                    return self.answer(self.index, Reply::refused(Code::KeyConflict, "key"));
                }
                self.notes.push(Note::Review("repeated while open"));
                let key = Some(key.to_owned());
                return self.wait_for(
                    review,
                    Waiter {
                        scope,
                        key,
                        fingerprint,
                        replayed: true,
                    },
                );
            }
        }
        if flooded {
            return self.answer(self.index, Reply::refused(Code::RateLimited, "flood"));
        }
        let (places, matched) = self.expand(&deed, &aim, None);
        let request = Rc::new(Request {
            actor: actor.clone(),
            command: command.clone(),
            reason: reason.map(str::to_owned),
            deed,
            places,
            matched,
        });
        let waiter = Waiter {
            scope: scope.clone(),
            key: key.map(str::to_owned),
            fingerprint: fingerprint.clone(),
            replayed: false,
        };
        if let Some(reply) = self.decide_request(&request, waiter) {
            if let Some(key) = key {
                self.history
                    .keys
                    .extend(remembered(&scope, key, &fingerprint, &reply));
            }
            self.answer(self.index, reply);
        }
    }

    /// Decides a command from its targets on; no answer if it waits for a review.
    fn decide_request(&mut self, request: &Rc<Request>, waiter: Waiter) -> Option<Reply> {
        if let [Place::Nowhere(_)] = request.places[..] {
            return Some(Reply::refused(Code::NotFound, "target exists"));
        }
        let owner = match self.gate(request) {
            Gate::Open => return Some(self.apply_request(request, None)),
            Gate::Shut(reply) => return Some(reply),
            Gate::Review(owner) => owner,
        };
        if let Some(reply) = self.without_effect(request) {
            return Some(reply);
        }
        let open = self.open_reviews(Some(&owner));
        let equal = |r: &&super::reviews::Open| {
            r.request.actor == request.actor && r.request.command == request.command
        };
        if let Some(equal) = open.iter().find(equal).filter(|_| EQUAL_REQUESTS_JOIN) {
            self.notes.push(Note::Review("joined"));
            self.wait_for(equal.id, waiter);
            return None;
        }
        let stop = matches!(request.deed, Deed::Stop { .. });
        if open.len() >= MOST_OPEN_REVIEWS {
            self.notes.push(Note::Review("too many open"));
            let refused = Reply::refused(Code::RateLimited, "review");
            return Some(if stop {
                self.decide_unanswered(&owner, request)
            } else {
                refused
            });
        }
        let timeout_ms = self
            .supervisor(&owner)
            .and_then(|def| def.review_timeout)
            .map_or(self.settings.review_timeout_ms, |t| t.0);
        let silent = match self.live(&owner) {
            None if self.now - self.gone_since(&owner) > timeout_ms => Some("engine gone"),
            Some(live) if !live.takes_reviews => Some("engine takes none"),
            _ => None,
        };
        if let Some(why) = silent {
            self.notes.push(Note::Review(why));
            return Some(self.decide_unanswered(&owner, request));
        }
        let id = self.open_review(&owner, timeout_ms, Rc::clone(request));
        self.wait_for(id, waiter);
        None
    }

    /// Asks who owns the places that were found, and what that means.
    fn gate(&self, request: &Request) -> Gate {
        let found = request
            .places
            .iter()
            .filter(|p| !matches!(p, Place::Nowhere(_)));
        let mut owners: Vec<Option<SupervisorId>> = found.map(|p| self.owner_of(p)).collect();
        owners.dedup();
        let controlled = || Gate::Shut(Reply::refused(Code::ControlledBySupervisor, "owner"));
        match owners.as_slice() {
            [] => Gate::Open,
            [None] if self.settings.default_enabled => Gate::Open,
            [None] => controlled(),
            [Some(owner)] => match self.supervisor(owner) {
                Some(def) if is_gateway(&def) => Gate::Open,
                Some(def)
                    if def
                        .operator_access
                        .iter()
                        .any(|p| p.matches(request.deed.op())) =>
                {
                    Gate::Review(owner.clone())
                }
                _ => controlled(),
            },
            _ => Gate::Shut(Reply::refused(Code::InvalidArgument, "owner")),
        }
    }

    /// The answer to a command that would change nothing; nobody is asked about it.
    fn without_effect(&mut self, request: &Request) -> Option<Reply> {
        let caller = Caller::Operator(request.actor.clone());
        let guard = request.command.if_status.as_deref();
        let mut targets = Vec::new();
        for place in &request.places {
            let (outcome, detail) = match place {
                Place::Nowhere(_) => (Outcome::NotFound, None),
                Place::Workflow(w) => {
                    let Deed::Start { params, .. } = &request.deed else {
                        return None;
                    };
                    return self.may_start(w, params).err();
                }
                _ => match self.judge(&request.deed, guard, &caller, place) {
                    Judgement::Apply(_) => return None,
                    Judgement::Not(outcome, detail) => (outcome, detail),
                },
            };
            targets.push(TargetSeen {
                target: place.text(),
                outcome,
                detail,
                order: None,
            });
        }
        for (place, target) in request.places.iter().zip(&targets) {
            let state = self.state_of(place);
            self.note_met(
                &request.deed,
                &state,
                target.outcome.as_str(),
                caller.channel(),
            );
        }
        Some(Reply {
            matched: request.matched,
            ..Reply::done(targets)
        })
    }
}
