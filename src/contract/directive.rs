//! Directives: what an engine returns (contract §6), as sent. Ids and names in them are checked by
//! the interlocking, so that a wrong one is refused with a code instead of lost in parsing.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Arguments of a command, by name.
pub type Args = BTreeMap<String, Value>;

/// A directive with what every kind has.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    /// The idempotency key (C19): 1–128 printable ASCII characters, scoped to the supervisor.
    pub key: Option<String>,
    /// What it reacts to (C20), as sent.
    pub cause: Option<String>,
    /// Why; required at own initiative (C21).
    pub reason: Option<String>,
    /// Asks for a prediction instead of the effect.
    pub dry_run: bool,
    /// What is directed.
    pub body: Body,
}

/// What a directive directs.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A control command.
    Command(Command),
    /// The answer to a `Review`.
    ReviewVerdict {
        /// The review's id.
        answers: String,
        /// `allow`, `deny` or `requireApproval`.
        verdict: String,
    },
    /// The answer to a `Delegated`.
    DelegationAnswer {
        /// The request's id.
        answers: String,
        /// `allow`, `deny` or `escalate`, for an approval or an escalation.
        answer: Option<String>,
        /// The value, for an input or a consultation.
        value: Option<Value>,
    },
    /// A question to the parents.
    Delegate {
        /// `CONSULT`.
        kind: String,
        /// The question.
        payload: Value,
        /// The answers to choose from; empty means any text.
        choices: Vec<String>,
    },
    /// An audited message that changes nothing.
    Notify {
        /// `info`, `warning` or `error`.
        level: String,
        /// At most 4 KiB.
        message: String,
        /// More, for machines.
        data: Option<Value>,
    },
    /// Explicitly no answer.
    NoOpinion {
        /// The question that stays unanswered, if it is one.
        answers: Option<String>,
    },
}

/// A control command as sent, by an engine or by an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// The operation's name.
    pub op: String,
    /// The target, a selector perhaps (C25).
    pub target: String,
    /// The arguments of operations.md; absent ones have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: Args,
    /// Only if the run or node acted on has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_status: Option<String>,
}

/// Who gave a command to an operator's surface (C16).
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    minicbor::Encode,
    minicbor::Decode,
)]
pub struct Actor {
    /// `KEY`, `USER` or `MCP`.
    #[n(0)]
    pub kind: String,
    /// The key's, user's or client's id.
    #[n(1)]
    pub id: String,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

/// The flat JSON form, as in the seed. `ref` is the wire's and does not belong to the directive.
#[derive(Serialize, Deserialize)]
#[serde(
    tag = "directive",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum Flat {
    Command {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        op: String,
        target: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        args: Args,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_status: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
    },
    ReviewVerdict {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        answers: String,
        verdict: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    DelegationAnswer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        answers: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Delegate {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        kind: String,
        payload: Value,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Notify {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        level: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    NoOpinion {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl Serialize for Directive {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            key,
            cause,
            reason,
            dry_run,
            body,
        } = self.clone();
        let flat = match body {
            Body::Command(Command {
                op,
                target,
                args,
                if_status,
            }) => Flat::Command {
                key,
                op,
                target,
                args,
                cause,
                if_status,
                reason,
                dry_run,
            },
            Body::ReviewVerdict { answers, verdict } => Flat::ReviewVerdict {
                key,
                answers,
                verdict,
                cause,
                reason,
            },
            Body::DelegationAnswer {
                answers,
                answer,
                value,
            } => Flat::DelegationAnswer {
                key,
                answers,
                answer,
                value,
                cause,
                reason,
            },
            Body::Delegate {
                kind,
                payload,
                choices,
            } => Flat::Delegate {
                key,
                kind,
                payload,
                choices,
                cause,
                reason,
            },
            Body::Notify {
                level,
                message,
                data,
            } => Flat::Notify {
                key,
                level,
                message,
                data,
                cause,
                reason,
            },
            Body::NoOpinion { answers } => Flat::NoOpinion {
                key,
                answers,
                cause,
                reason,
            },
        };
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Directive {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let make = |key, cause, reason, dry_run, body| Self {
            key,
            cause,
            reason,
            dry_run,
            body,
        };
        Ok(match Flat::deserialize(deserializer)? {
            Flat::Command {
                key,
                op,
                target,
                args,
                cause,
                if_status,
                reason,
                dry_run,
            } => make(
                key,
                cause,
                reason,
                dry_run,
                Body::Command(Command {
                    op,
                    target,
                    args,
                    if_status,
                }),
            ),
            Flat::ReviewVerdict {
                key,
                answers,
                verdict,
                cause,
                reason,
            } => make(
                key,
                cause,
                reason,
                false,
                Body::ReviewVerdict { answers, verdict },
            ),
            Flat::DelegationAnswer {
                key,
                answers,
                answer,
                value,
                cause,
                reason,
            } => make(
                key,
                cause,
                reason,
                false,
                Body::DelegationAnswer {
                    answers,
                    answer,
                    value,
                },
            ),
            Flat::Delegate {
                key,
                kind,
                payload,
                choices,
                cause,
                reason,
            } => make(
                key,
                cause,
                reason,
                false,
                Body::Delegate {
                    kind,
                    payload,
                    choices,
                },
            ),
            Flat::Notify {
                key,
                level,
                message,
                data,
                cause,
                reason,
            } => make(
                key,
                cause,
                reason,
                false,
                Body::Notify {
                    level,
                    message,
                    data,
                },
            ),
            Flat::NoOpinion {
                key,
                answers,
                cause,
                reason,
            } => make(key, cause, reason, false, Body::NoOpinion { answers }),
        })
    }
}
