//! Engines' directives: their checks in order (C22).

use signalbox::contract::code::Code;
use signalbox::contract::definition::SupervisorDef;
use signalbox::contract::directive::{Body, Directive};
use signalbox::contract::id::SupervisorId;
use signalbox::contract::operation::Op;

use super::history::{Note, Passed};
use super::reviews::remembered;
use super::{By, Caller, Reference};
use crate::operations::{self, Aim, Deed};
use crate::seen::Reply;

/// The longest reason, in bytes.
pub(super) const MOST_REASON_BYTES: usize = 1_024;
/// The longest message, in bytes.
const MOST_MESSAGE_BYTES: usize = 4_096;
/// How many notifies may pass in a minute.
const MOST_NOTIFIES: usize = 60;
/// How many commands a `Started` may cause.
const MOST_PER_STARTED: usize = 200;
/// A minute.
const MINUTE_MS: u64 = 60_000;

/// A directive whose shape is right.
struct Shaped {
    key: String,
    cause: Option<String>,
    what: What,
}

enum What {
    Command { deed: Deed, aim: Aim },
    Notify,
    Verdict { review: String, allow: bool },
    NoOpinion { review: Option<String> },
}

/// Says whether a text can be a key: 1–128 printable ASCII characters.
pub(super) fn is_key(key: &str) -> bool {
    (1..=128).contains(&key.len()) && key.bytes().all(|b| (0x20..=0x7e).contains(&b))
}

fn shape(d: &Directive) -> Result<Shaped, Code> {
    let invalid = Err(Code::InvalidArgument);
    let answers = match &d.body {
        Body::ReviewVerdict { answers, .. } => Some(answers),
        Body::NoOpinion { answers } => answers.as_ref(),
        _ => None,
    };
    let implied = answers.map(|id| format!("answers:{id}"));
    if d.key.as_deref().is_some_and(|k| !is_key(k)) {
        return invalid;
    }
    let key = match (&d.key, &implied) {
        (Some(key), _) if key.starts_with("answers:") && Some(key) != implied.as_ref() => {
            return invalid;
        }
        (Some(key), _) => key.clone(),
        (None, Some(implied)) => implied.clone(),
        (None, None) => return Err(Code::KeyRequired),
    };
    if implied.is_some() && d.cause.is_some() && d.cause != implied {
        return invalid;
    }
    let cause = implied.or_else(|| d.cause.clone());
    if d.dry_run
        || d.reason
            .as_ref()
            .is_some_and(|r| r.len() > MOST_REASON_BYTES)
    {
        return invalid;
    }
    let what = match &d.body {
        Body::Command(command) => {
            let (deed, aim) = operations::read(command, true)?;
            What::Command { deed, aim }
        }
        Body::Notify { level, message, .. } => {
            let level = ["info", "warning", "error"].contains(&level.as_str());
            if !level || !(1..=MOST_MESSAGE_BYTES).contains(&message.len()) {
                return invalid;
            }
            What::Notify
        }
        Body::ReviewVerdict { answers, verdict } => match verdict.as_str() {
            "allow" | "deny" => What::Verdict {
                review: answers.clone(),
                allow: verdict == "allow",
            },
            _ => return invalid,
        },
        Body::NoOpinion { answers } => What::NoOpinion {
            review: answers.clone(),
        },
        Body::DelegationAnswer { .. } | Body::Delegate { .. } => {
            return Err(Code::UnknownOperation);
        }
    };
    if matches!(what, What::Command { .. } | What::Notify) && cause.is_none() {
        return invalid;
    }
    Ok(Shaped { key, cause, what })
}

/// The body with the cause, without the reason: what two directives under one key must have equal.
fn fingerprint(d: &Directive, cause: Option<&String>) -> String {
    let bare = Directive {
        key: None,
        reason: None,
        cause: cause.cloned(),
        ..d.clone()
    };
    serde_json::to_string(&bare).unwrap_or_default()
}

impl Reference {
    pub(super) fn directive(
        &mut self,
        from: &SupervisorId,
        session: Option<u64>,
        unary: bool,
        d: &Directive,
        delivered: Option<u64>,
    ) -> Reply {
        let Some(def) = self.supervisor(from) else {
            return Reply::refused(Code::Unauthenticated, "session");
        };
        let scope = format!("supervisor:{from}");
        if self.floods(&scope, def.max_directives_per_second) {
            return Reply::refused(Code::RateLimited, "flood");
        }
        let shaped = match shape(d) {
            Ok(shaped) => shaped,
            Err(code) => return Reply::refused(code, "shape"),
        };
        let live = self.live(from).map(|l| l.session);
        // Only a unary call that names no session is good while there is no live one to be named.
        let fenced = session != live || live.is_none() && !unary;
        if fenced {
            return Reply::refused(Code::StaleSession, "session");
        }
        let fingerprint = fingerprint(d, shaped.cause.as_ref());
        if let Some(reply) = self.recall(&scope, &shaped.key, &fingerprint) {
            return reply;
        }
        let reply = self
            .interlock(&def, d, &shaped, delivered)
            .unwrap_or_else(|refused| refused);
        self.history
            .keys
            .extend(remembered(&scope, &shaped.key, &fingerprint, &reply));
        reply
    }

    /// Looks a key up: its answer again, or a conflict.
    pub(super) fn recall(&mut self, scope: &str, key: &str, fingerprint: &str) -> Option<Reply> {
        let known = self
            .history
            .keys
            .iter()
            .find(|k| k.scope == scope && k.key == key)?;
        if known.fingerprint == fingerprint {
            Some(Reply {
                replayed: true,
                ..known.reply.clone()
            })
        } else {
            Some(Reply::refused(Code::KeyConflict, "key"))
        }
    }

    /// The checks from the cause on.
    fn interlock(
        &mut self,
        def: &SupervisorDef,
        d: &Directive,
        shaped: &Shaped,
        delivered: Option<u64>,
    ) -> Result<Reply, Reply> {
        let (op, effect) = match &shaped.what {
            What::Verdict { review, allow } => {
                let id = self.answerable(&def.id, review)?;
                self.end_by_verdict(id, *allow);
                return Ok(Reply::done(Vec::new()));
            }
            What::NoOpinion {
                review: Some(review),
            } => {
                let id = self.answerable(&def.id, review)?;
                self.notes.push(Note::Review("no opinion"));
                self.end_unanswered(id);
                return Ok(Reply::done(Vec::new()));
            }
            What::NoOpinion { review: None } => return Ok(Reply::done(Vec::new())),
            What::Notify => (Op::Notify, None),
            What::Command { deed, aim } => (deed.op(), Some((deed, aim))),
        };
        let cause = shaped.cause.clone().unwrap_or_default();
        self.check_cause(def, &cause, delivered)?;
        self.check_initiative(def, &cause, d.reason.as_deref(), op)?;
        if !def.allowed_commands.iter().any(|p| p.matches(op)) {
            return Err(Reply::refused(Code::CommandNotAllowed, "allowedCommands"));
        }
        let reply = match effect {
            None => {
                let recent = |p: &Passed| p.op == Op::Notify;
                if self.passed_in_last_minute(&def.id, recent) >= MOST_NOTIFIES {
                    return Err(Reply::refused(Code::RateLimited, "notify rate"));
                }
                Reply::done(Vec::new())
            }
            Some((deed, aim)) => {
                let Body::Command(command) = &d.body else {
                    return Ok(Reply::done(Vec::new()));
                };
                let (places, matched) = self.expand(deed, aim, Some(&def.id));
                let caller = Caller::Engine(def.id.clone());
                let by = By {
                    caller,
                    cause: Some(cause.clone()),
                    reason: d.reason.clone(),
                };
                let owner = Some(Some(&def.id));
                let targets = self.act(deed, command.if_status.as_deref(), &places, owner, &by)?;
                Reply {
                    matched,
                    ..Reply::done(targets)
                }
            }
        };
        self.history.passed.push((
            self.now,
            Passed {
                supervisor: def.id.clone(),
                op,
                cause,
            },
        ));
        Ok(reply)
    }

    /// The review that an answer is for, if it is open and this supervisor's.
    fn answerable(&self, from: &SupervisorId, review: &str) -> Result<u64, Reply> {
        let open = self.open_reviews(Some(from));
        open.iter()
            .map(|r| r.id)
            .find(|id| format!("r-{id}") == review)
            .ok_or_else(|| Reply::refused(Code::AnswerNotOpen, "cause"))
    }

    fn check_cause(
        &mut self,
        def: &SupervisorDef,
        cause: &str,
        delivered: Option<u64>,
    ) -> Result<(), Reply> {
        let kind = match cause {
            "tick" => "tick",
            "initiative" => "initiative",
            c if c.starts_with("event:e-") => "event",
            c if c.starts_with("event:r-") => "review",
            c if c.starts_with("event:s-") => "started",
            c if c.starts_with("answers:") => "answers",
            _ => "other",
        };
        let judged = self.judge_cause(def, kind, cause, delivered);
        self.notes
            .push(Note::Cause(kind, judged.err().map_or("ok", Code::as_str)));
        judged.map_err(|code| Reply::refused(code, "cause"))
    }

    fn judge_cause(
        &mut self,
        def: &SupervisorDef,
        kind: &str,
        cause: &str,
        delivered: Option<u64>,
    ) -> Result<(), Code> {
        let number = || {
            let digits = cause
                .rsplit_once('-')
                .map(|(_, n)| n)
                .filter(|n| !n.starts_with('0'))?;
            digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse::<u64>().ok())?
        };
        let per_event = def.max_commands_per_event as usize;
        let (latest, most) = match kind {
            "initiative" => return Ok(()),
            "tick" if self.ticked(&def.id) => return Ok(()),
            "event" => {
                let n = number().ok_or(Code::CauseUnknown)?;
                let event = self
                    .history
                    .stream
                    .iter()
                    .find(|(_, e)| e.supervisor == def.id && e.cursor == n);
                let (committed, _) = event.ok_or(Code::CauseUnknown)?;
                (
                    (committed / 1_000 * 1_000).max(delivered.unwrap_or(0)),
                    per_event,
                )
            }
            "review" => {
                let opened = number().and_then(|n| self.review_opened(&def.id, n));
                (opened.ok_or(Code::CauseUnknown)?, per_event)
            }
            "started" => {
                let newest = self
                    .newest_session(&def.id)
                    .filter(|(s, _)| Some(*s) == number());
                (newest.ok_or(Code::CauseUnknown)?.1, MOST_PER_STARTED)
            }
            _ => return Err(Code::CauseUnknown),
        };
        let age = self.now.saturating_sub(latest);
        self.note_age(age, def.cause_max_age.0);
        if age > def.cause_max_age.0 {
            return Err(Code::CauseExpired);
        }
        let cited = self
            .history
            .passed
            .iter()
            .filter(|(_, p)| p.supervisor == def.id && p.cause == cause);
        if cited.count() >= most {
            Err(Code::CauseExhausted)
        } else {
            Ok(())
        }
    }

    fn note_age(&mut self, age: u64, most: u64) {
        if age == most {
            self.notes
                .push(Note::Rare("a cause is as old as it may be"));
        } else if age == most + 1 {
            self.notes.push(Note::Rare("a cause is just too old"));
        }
    }

    fn check_initiative(
        &self,
        def: &SupervisorDef,
        cause: &str,
        reason: Option<&str>,
        op: Op,
    ) -> Result<(), Reply> {
        let own = |cause: &str| cause == "tick" || cause == "initiative";
        if !own(cause) {
            return Ok(());
        }
        let refused = |code| Err(Reply::refused(code, "initiative"));
        if reason.is_none_or(str::is_empty) {
            return refused(Code::ReasonRequired);
        }
        if !def.initiative.iter().any(|p| p.matches(op)) {
            return refused(Code::InitiativeNotAllowed);
        }
        if self.passed_in_last_minute(&def.id, |p| own(&p.cause))
            >= def.max_initiative_per_minute as usize
        {
            return refused(Code::InitiativeRateLimited);
        }
        Ok(())
    }

    fn passed_in_last_minute(&self, of: &SupervisorId, counts: impl Fn(&Passed) -> bool) -> usize {
        let recent = |at: u64| at + MINUTE_MS > self.now;
        self.history
            .passed
            .iter()
            .filter(|(at, p)| recent(*at) && p.supervisor == *of && counts(p))
            .count()
    }
}
