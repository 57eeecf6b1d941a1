//! Check `key`: the same key with the same content is answered as before, with other content refused (C19).

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::passage::{Passage, Stop};
use crate::contract::code::Code;
use crate::contract::directive::{Body, Command, Directive};
use crate::core::fault::{self, Fault};
use crate::core::record::Fingerprint;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    p.fingerprint = fingerprint(p.directive, p.cause.as_deref());
    let Some(kept) = p.key.as_deref().and_then(|key| p.supervisor.keys.get(key)) else {
        return Ok(());
    };
    if kept.fingerprint != p.fingerprint && !fault::on(Fault::ConflictReplays) {
        return Err(conflict(p.key.as_deref().unwrap_or_default()));
    }
    match &kept.answer {
        Some(answer) => {
            let replayed = !fault::on(Fault::ReplayUnmarked);
            Err(Stop::Replayed(Box::new(crate::contract::outcome::Answer {
                replayed,
                ..answer.clone()
            })))
        }
        None => Ok(()),
    }
}

/// Makes the refusal of a key that stands for something else.
pub(super) fn conflict(key: &str) -> Stop {
    Stop::refused(
        Code::KeyConflict,
        "key",
        format!("key `{key}` was used for something else; use a new key"),
    )
}

/// Digests what a key stands for: the canonical body with its cause, without `reason` and `ref`.
fn fingerprint(directive: &Directive, cause: Option<&str>) -> Fingerprint {
    let mut text = String::with_capacity(128);
    match &directive.body {
        Body::Command(command) => put_command(&mut text, command),
        Body::ReviewVerdict { answers, verdict } => {
            put(&mut text, &["ReviewVerdict", answers, verdict])
        }
        Body::DelegationAnswer {
            answers,
            answer,
            value,
        } => {
            put(
                &mut text,
                &[
                    "DelegationAnswer",
                    answers,
                    answer.as_deref().unwrap_or_default(),
                ],
            );
            put_value(&mut text, value.as_ref().unwrap_or(&Value::Null));
        }
        Body::Delegate {
            kind,
            payload,
            choices,
        } => {
            put(&mut text, &["Delegate", kind]);
            put_value(&mut text, payload);
            put(
                &mut text,
                &choices.iter().map(String::as_str).collect::<Vec<_>>(),
            );
        }
        Body::Notify {
            level,
            message,
            data,
        } => {
            put(&mut text, &["Notify", level, message]);
            put_value(&mut text, data.as_ref().unwrap_or(&Value::Null));
        }
        Body::NoOpinion { answers } => put(
            &mut text,
            &["NoOpinion", answers.as_deref().unwrap_or_default()],
        ),
    }
    put(
        &mut text,
        &[
            cause.unwrap_or_default(),
            if directive.dry_run { "dry" } else { "" },
        ],
    );
    digest(&text)
}

/// Digests what an operator's key stands for.
pub(super) fn command_fingerprint(command: &Command) -> Fingerprint {
    let mut text = String::with_capacity(128);
    put_command(&mut text, command);
    digest(&text)
}

fn digest(text: &str) -> Fingerprint {
    let full = Sha256::digest(text.as_bytes());
    std::array::from_fn(|i| full[i])
}

fn put_command(text: &mut String, command: &Command) {
    put(
        text,
        &[
            "Command",
            &command.op,
            &command.target,
            command.if_status.as_deref().unwrap_or_default(),
        ],
    );
    for (name, value) in &command.args {
        put(text, &[name]);
        put_value(text, value);
    }
}

/// Appends texts so that no two lists of texts give the same: each with its length.
fn put(text: &mut String, parts: &[&str]) {
    for part in parts {
        put_number(text, part.len());
        text.push(':');
        text.push_str(part);
        text.push(';');
    }
}

fn put_number(text: &mut String, number: usize) {
    if number >= 10 {
        put_number(text, number / 10);
    }
    text.push(char::from(
        b'0' + u8::try_from(number % 10).unwrap_or_default(),
    ));
}

/// Appends a JSON value in one form: names in order, whole numbers without a fraction, however it was sent.
fn put_value(text: &mut String, value: &Value) {
    match value {
        Value::Number(n) => match whole(n) {
            Some(whole) => put(text, &["#", &whole.to_string()]),
            None => put(text, &["#", &n.to_string()]),
        },
        Value::Array(items) => {
            put(text, &["[", &items.len().to_string()]);
            items.iter().for_each(|item| put_value(text, item));
        }
        Value::Object(fields) => {
            put(text, &["{", &fields.len().to_string()]);
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            for name in names {
                put(text, &[name]);
                put_value(text, &fields[name]);
            }
        }
        Value::String(s) => put(text, &["s", s]),
        Value::Bool(_) | Value::Null => put(text, &[&value.to_string()]),
    }
}

/// Returns the whole number that a JSON number stands for; gRPC sends all numbers with a fraction.
pub(super) fn whole(n: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    n.as_i64().or_else(|| {
        let f = n.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the range check leaves only whole numbers that fit"
        )]
        (f.fract() == 0.0 && f.abs() <= EXACT).then_some(f as i64)
    })
}
