//! Directives of engines, with causes of every kind and defects of every kind.

use signalbox::contract::directive::{Body, Directive};
use signalbox::contract::id::SupervisorId;

use super::{Generator, world};
use crate::reference::Reference;
use crate::step::Step;

impl Generator {
    pub(super) fn directive_step(&mut self, reference: &Reference) -> Step {
        let reviews = reference.reviews();
        // Open questions are answered before long, mostly by whom they are put to.
        if let Some((id, asked)) = self
            .pick(&reviews)
            .cloned()
            .filter(|_| self.rng.u32(0..10) < 6)
        {
            let by = if self.chance(92) {
                asked
            } else {
                world::id(self.one(world::ENGINES))
            };
            let directive = self.verdict(&format!("r-{id}"));
            return self.send(reference, by, directive);
        }
        let supervisor: SupervisorId = world::id(self.one(world::ENGINES));
        if self.chance(7) {
            let own: Vec<Directive> = self
                .sent
                .iter()
                .rev()
                .filter(|(s, _)| *s == supervisor)
                .take(8)
                .map(|(_, d)| d.clone())
                .collect();
            if let Some(again) = self.pick(&own).cloned() {
                let again = self.again_directive(again);
                return self.send(reference, supervisor, again);
            }
        }
        let mut directive = self.new_directive(reference, &supervisor);
        if self.chance(5) {
            self.spoil_directive(&mut directive);
        }
        self.sent.push((supervisor.clone(), directive.clone()));
        self.send(reference, supervisor, directive)
    }

    fn new_directive(&mut self, reference: &Reference, supervisor: &SupervisorId) -> Directive {
        let cause = Some(self.cause(reference, supervisor));
        let key = Some(self.new_key());
        let mut reason = self.reason();
        let body = match self.rng.u32(0..100) {
            0..8 => Body::Notify {
                level: self.one(["info", "warning", "error"]).to_owned(),
                message: if self.chance(5) {
                    "m".repeat(4_096)
                } else {
                    "look".to_owned()
                },
                data: None,
            },
            8..12 => Body::NoOpinion { answers: None },
            12 => Body::Delegate {
                kind: "CONSULT".to_owned(),
                payload: serde_json::Value::Null,
                choices: Vec::new(),
            },
            13 => Body::DelegationAnswer {
                answers: "d-1".to_owned(),
                answer: Some("allow".to_owned()),
                value: None,
            },
            _ => Body::Command(self.some_command(reference, Some(supervisor))),
        };
        let own = cause
            .as_deref()
            .is_some_and(|c| c == "tick" || c == "initiative");
        if own && self.chance(85) {
            reason = Some("it is time".to_owned());
        }
        Directive {
            key,
            cause,
            reason,
            dry_run: false,
            body,
        }
    }

    pub(super) fn verdict(&mut self, review: &str) -> Directive {
        let answers = review.to_owned();
        let body = match self.rng.u32(0..20) {
            0..11 => Body::ReviewVerdict {
                answers,
                verdict: "allow".to_owned(),
            },
            11..16 => Body::ReviewVerdict {
                answers,
                verdict: "deny".to_owned(),
            },
            16 => Body::ReviewVerdict {
                answers,
                verdict: "requireApproval".to_owned(),
            },
            17 => Body::ReviewVerdict {
                answers,
                verdict: "perhaps".to_owned(),
            },
            _ => Body::NoOpinion {
                answers: Some(answers),
            },
        };
        let key = if self.chance(25) {
            Some(self.new_key())
        } else {
            None
        };
        let cause = match self.rng.u32(0..20) {
            0 => Some("initiative".to_owned()),
            1..4 => Some(format!("answers:{review}")),
            _ => None,
        };
        Directive {
            key,
            cause,
            reason: self.reason(),
            dry_run: false,
            body,
        }
    }

    fn cause(&mut self, reference: &Reference, supervisor: &SupervisorId) -> String {
        let last = reference.last_event(supervisor);
        let session = reference.last_session(supervisor).unwrap_or(1);
        let review = |g: &mut Self| {
            let open = reference.reviews();
            let newest = open.iter().map(|(id, _)| *id).max().unwrap_or(0) + 1;
            g.rng.u64(1..=newest)
        };
        let now = self.now;
        let young = |at: Option<u64>| at.is_some_and(|at| at + world::CAUSE_AGE_MS > now);
        let started = reference.session_time(supervisor);
        // Mostly a cause that is still good.
        if !young(reference.event_time(supervisor, last)) && self.chance(75) {
            let good = young(started);
            return if good {
                format!("event:s-{session}")
            } else {
                "initiative".to_owned()
            };
        }
        let ticks = reference
            .all_supervisors()
            .iter()
            .any(|s| s.id == *supervisor && s.tick.is_some());
        match self.rng.u32(0..100) {
            0..52 if last == 0 => format!("event:s-{session}"),
            72..80 if !ticks => format!("event:e-{last}"),
            0..40 => format!("event:e-{}", last.saturating_sub(self.rng.u64(0..4))),
            40..52 => format!("event:e-{}", self.rng.u64(0..=last)),
            52 | 53 => format!("event:e-{}", last + 1),
            54..64 => format!("event:s-{session}"),
            64 => format!("event:s-{}", self.rng.u64(1..=session)),
            65..72 => format!("event:r-{}", review(self)),
            72..82 => "tick".to_owned(),
            82..96 => "initiative".to_owned(),
            96 => format!("answers:r-{}", review(self)),
            _ => self
                .one(["event:x1", "event:e-01", "event:e-", "whim", "event:"])
                .to_owned(),
        }
    }

    fn again_directive(&mut self, mut again: Directive) -> Directive {
        match self.rng.u32(0..10) {
            0 => again.reason = Some("once more".to_owned()),
            1 => again.cause = Some("initiative".to_owned()),
            2 => again.body = Body::NoOpinion { answers: None },
            _ => {}
        }
        again
    }

    fn spoil_directive(&mut self, d: &mut Directive) {
        match self.rng.u32(0..14) {
            0 | 1 => d.key = None,
            2 => d.key = Some(String::new()),
            3 => d.key = Some("k".repeat(129)),
            4 => d.key = Some("k\u{e9}".to_owned()),
            5 => d.key = Some("answers:r-1".to_owned()),
            6 => d.reason = Some("r".repeat(1_025)),
            7 if !matches!(d.body, Body::NoOpinion { .. } | Body::Delegate { .. }) => {
                d.cause = None
            }
            8 => d.dry_run = true,
            9 => {
                d.body = Body::Notify {
                    level: "shout".to_owned(),
                    message: "look".to_owned(),
                    data: None,
                };
            }
            10 => {
                let message = if self.chance(50) {
                    String::new()
                } else {
                    "m".repeat(4_097)
                };
                d.body = Body::Notify {
                    level: "info".to_owned(),
                    message,
                    data: None,
                };
            }
            11 => {
                d.body = Body::Command(super::command("notify", "server".to_owned(), &[]));
            }
            _ => {
                if let Body::Command(command) = &mut d.body {
                    self.spoil(command);
                }
            }
        }
        // Where two defects meet, only one is left: what is not served is not spoilt otherwise.
        if matches!(
            d.body,
            Body::Delegate { .. } | Body::DelegationAnswer { .. }
        ) {
            d.key = Some(self.new_key());
            (d.dry_run, d.reason) = (false, None);
        }
    }

    fn send(
        &mut self,
        reference: &Reference,
        supervisor: SupervisorId,
        directive: Directive,
    ) -> Step {
        let live = reference.live_session(&supervisor);
        let last = reference.last_session(&supervisor);
        let unary = if live.is_none() {
            self.chance(90)
        } else {
            self.chance(20)
        };
        let session = match self.rng.u32(0..50) {
            0 => last.map(|s| s.saturating_sub(1)),
            1 if unary => None,
            2 => last.map(|s| s + 1),
            _ => live.or(if unary && self.chance(50) { None } else { last }),
        };
        // What a stream knows of its own session is always some number.
        let session = if unary { session } else { session.or(Some(1)) };
        let cited = directive
            .cause
            .as_deref()
            .and_then(|c| c.strip_prefix("event:e-")?.parse::<u64>().ok());
        let committed = cited.and_then(|n| reference.event_time(&supervisor, n));
        let cause_delivered = committed
            .filter(|_| self.chance(30))
            .map(|at| self.rng.u64(at..=self.now));
        Step::Directive {
            supervisor,
            session,
            unary,
            directive,
            cause_delivered,
        }
    }
}
