//! Directives in, and their results out.

use serde_json::Value;

use super::proto::v1 as pb;
use super::{Malformed, given, strict, value};
use crate::contract::code::Code;
use crate::contract::directive::{Body, Command, Directive};
use crate::contract::operation::Op;
use crate::contract::outcome::{Answer, Outcome, TargetResult};

/// What a result says about its directive, kept while the directive is on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// The engine's number for it, 0 for none.
    pub reference: u64,
    /// Its key, as given or by default (C19); empty for none.
    pub key: String,
    /// Whether it starts a run, so that an applied target is a new execution.
    pub starts: bool,
}

/// Takes a directive from the wire. What its result needs comes out even where the directive is malformed.
pub fn receive(raw: pb::Directive) -> (Label, Result<Directive, Malformed>) {
    let mut label = Label {
        reference: raw.r#ref,
        // A key that is longer is refused; its label needs no more of it.
        key: raw.key.chars().take(129).collect(),
        starts: false,
    };
    let directive = Directive::try_from(raw);
    if let Ok(directive) = &directive {
        label.key = match (&directive.key, &directive.body) {
            (Some(key), _) => key.clone(),
            (
                None,
                Body::ReviewVerdict { answers, .. }
                | Body::NoOpinion {
                    answers: Some(answers),
                }
                | Body::DelegationAnswer { answers, .. },
            ) => format!("answers:{answers}"),
            (
                None,
                Body::Command(_)
                | Body::Delegate { .. }
                | Body::Notify { .. }
                | Body::NoOpinion { answers: None },
            ) => String::new(),
        };
        label.starts = matches!(&directive.body, Body::Command(c) if c.op == Op::RunStart.as_str());
    }
    (label, directive)
}

impl TryFrom<pb::Directive> for Directive {
    type Error = Malformed;

    fn try_from(raw: pb::Directive) -> Result<Self, Malformed> {
        if let Some(path) = strict::marked(&raw) {
            return Err(Malformed::new(
                path,
                "this version of the host does not know the field; leave it out",
            ));
        }
        let pb::Directive {
            // The reference is the wire's own: it is echoed, and means nothing.
            r#ref: _,
            key,
            cause,
            reason,
            dry_run,
            body,
        } = raw;
        let body = body.ok_or_else(|| {
            Malformed::new(
                "directive.body",
                "missing, or of a kind that this version of the host does not know",
            )
        })?;
        let (body, reason) = read_body(body, given(reason))?;
        Ok(Self {
            key: given(key),
            cause: given(cause),
            reason,
            dry_run,
            body,
        })
    }
}

fn read_body(
    body: pb::directive::Body,
    reason: Option<String>,
) -> Result<(Body, Option<String>), Malformed> {
    use pb::directive::Body as Wire;
    Ok(match body {
        Wire::Command(pb::Command {
            op,
            target,
            args,
            if_status,
        }) => {
            let args = value::fields(args.unwrap_or_default(), "directive.command.args")?;
            let command = Command {
                op,
                target,
                args: args.into_iter().collect(),
                if_status: given(if_status),
            };
            (Body::Command(command), reason)
        }
        Wire::ReviewVerdict(pb::ReviewVerdict {
            answers,
            verdict,
            reason: own,
        }) => {
            let reason = one_reason(reason, given(own), "directive.review_verdict.reason")?;
            let verdict = read_verdict(verdict)?.to_owned();
            (Body::ReviewVerdict { answers, verdict }, reason)
        }
        Wire::DelegationAnswer(pb::DelegationAnswer {
            answers,
            answer,
            reason: own,
        }) => {
            let reason = one_reason(reason, given(own), "directive.delegation_answer.reason")?;
            let (answer, value) = read_answer(answer)?;
            (
                Body::DelegationAnswer {
                    answers,
                    answer,
                    value,
                },
                reason,
            )
        }
        Wire::Delegate(pb::Delegate {
            kind,
            payload,
            choices,
            key,
        }) => {
            if !key.is_empty() {
                return Err(Malformed::new(
                    "directive.delegate.key",
                    "this version of the host does not serve it yet; leave it out",
                ));
            }
            let payload = optional(payload, "directive.delegate.payload")?.unwrap_or_default();
            (
                Body::Delegate {
                    kind,
                    payload,
                    choices,
                },
                reason,
            )
        }
        Wire::Notify(pb::Notify {
            level,
            message,
            data,
        }) => {
            let data = optional(data, "directive.notify.data")?;
            (
                Body::Notify {
                    level,
                    message,
                    data,
                },
                reason,
            )
        }
        Wire::NoOpinion(pb::NoOpinion { answers }) => (
            Body::NoOpinion {
                answers: given(answers),
            },
            reason,
        ),
    })
}

fn optional(raw: Option<prost_types::Struct>, path: &str) -> Result<Option<Value>, Malformed> {
    raw.map(|s| value::fields(s, path).map(Value::Object))
        .transpose()
}

fn one_reason(
    outer: Option<String>,
    own: Option<String>,
    path: &str,
) -> Result<Option<String>, Malformed> {
    match (outer, own) {
        (Some(outer), Some(own)) if outer != own => Err(Malformed::new(
            path,
            "differs from the directive's reason; give one of them",
        )),
        (outer, own) => Ok(own.or(outer)),
    }
}

fn read_verdict(number: i32) -> Result<&'static str, Malformed> {
    match pb::Verdict::try_from(number) {
        Ok(pb::Verdict::Allow) => Ok("allow"),
        Ok(pb::Verdict::Deny) => Ok("deny"),
        Ok(pb::Verdict::RequireApproval) => Ok("requireApproval"),
        Ok(pb::Verdict::Unspecified) | Err(_) => Err(Malformed::new(
            "directive.review_verdict.verdict",
            "unspecified or unknown; send VERDICT_ALLOW or VERDICT_DENY",
        )),
    }
}

fn read_answer(
    answer: Option<pb::delegation_answer::Answer>,
) -> Result<(Option<String>, Option<Value>), Malformed> {
    use pb::delegation_answer::Answer as Wire;
    const PATH: &str = "directive.delegation_answer.answer";
    let word = |word: &str| Ok((Some(word.to_owned()), None));
    match answer {
        None => Err(Malformed::new(
            PATH,
            "missing; send allow, deny, a value or escalate",
        )),
        Some(Wire::Allow(pb::Allow {})) => word("allow"),
        Some(Wire::Deny(pb::Deny {})) => word("deny"),
        Some(Wire::Escalate(pb::Escalate {})) => word("escalate"),
        Some(Wire::Value(v)) => Ok((None, Some(value::json(v, PATH)?))),
    }
}

/// How long to wait before trying again what was refused for the moment, in milliseconds; none where waiting does
/// not help.
#[must_use]
pub fn retry_after_ms(code: Code) -> Option<u64> {
    matches!(code, Code::RateLimited | Code::Unavailable).then_some(1_000)
}

/// Makes the answer of a directive that never reached the core.
#[must_use]
pub fn refusal(malformed: &Malformed) -> Answer {
    Answer::refused(Code::InvalidArgument, "shape", malformed.to_string())
}

/// Writes a result. `durable` says whether a crash can no longer take it back (C37).
#[must_use]
pub fn result(label: Label, answer: Answer, durable: bool) -> pb::DirectiveResult {
    let truncated = answer.truncated();
    let Answer {
        status,
        code,
        message,
        check,
        targets,
        matched,
        replayed,
    } = answer;
    let Label {
        reference,
        key,
        starts,
    } = label;
    pb::DirectiveResult {
        r#ref: reference,
        key,
        status: status.as_str().to_owned(),
        code: code.map_or_else(String::new, |c| c.as_str().to_owned()),
        message: message.unwrap_or_default(),
        check: check.unwrap_or_default(),
        targets: targets.into_iter().map(|t| target(t, starts)).collect(),
        replayed,
        // Approvals are not served by this version.
        approval_id: String::new(),
        matched: matched.map(|m| u32::try_from(m).unwrap_or(u32::MAX)),
        truncated,
        durable,
        signal_id: String::new(),
        retry_after_ms: code.and_then(retry_after_ms),
    }
}

fn target(result: TargetResult, starts: bool) -> pb::TargetOutcome {
    let TargetResult {
        target,
        outcome,
        detail,
        order,
    } = result;
    let detail = detail.unwrap_or_default();
    let new = target
        .strip_prefix("execution:")
        .filter(|_| starts && outcome == Outcome::Applied);
    pb::TargetOutcome {
        execution: new.unwrap_or_default().to_owned(),
        outcome: outcome.as_str().to_owned(),
        status: status_in(&detail).unwrap_or_default().to_owned(),
        cleared: cleared_in(&detail),
        order: order.unwrap_or(0),
        target,
        detail,
    }
}

/// A precondition's detail is `ifStatus <status>` or `state <status>`.
fn status_in(detail: &str) -> Option<&str> {
    detail
        .strip_prefix("ifStatus ")
        .or_else(|| detail.strip_prefix("state "))
}

/// A resume's detail is `cleared <holders>`, perhaps with `; STILL_HELD …` after it.
fn cleared_in(detail: &str) -> Vec<String> {
    detail
        .strip_prefix("cleared ")
        .and_then(|rest| rest.split(';').next())
        .map(|holders| holders.split(", ").map(str::to_owned).collect())
        .unwrap_or_default()
}
