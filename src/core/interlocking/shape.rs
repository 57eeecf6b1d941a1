//! Check `shape`: every field has the form that the contract says; what is not served is refused by name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::key::whole;
use super::passage::{Call, Passage, Request, Stop};
use crate::contract::code::Code;
use crate::contract::directive::{Args, Body, Command, Directive};
use crate::contract::operation::{ArgSpec, ArgType, Level, Op};
use crate::contract::status::{NodeStatus, RunStatus};
use crate::contract::target::Target;
use crate::core::record::StopMode;
use crate::core::runs::act::Act;
use crate::core::runs::stop::GRACE_MS;

/// The longest reason, in bytes.
const REASON_MOST: usize = 1_024;
/// The longest message of a notify, in bytes.
const MESSAGE_MOST: usize = 4_096;
/// The longest key, in characters.
const KEY_MOST: usize = 128;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    let d = p.directive;
    lengths(d)?;
    let implied = match &d.body {
        Body::ReviewVerdict { answers, .. }
        | Body::NoOpinion {
            answers: Some(answers),
        } => Some(format!("answers:{answers}")),
        _ => None,
    };
    if let Some(key) = &d.key {
        key_form(key)?;
        if key.starts_with("answers:") && implied.as_ref() != Some(key) {
            return Err(bad(
                "key",
                "keys that begin with `answers:` are reserved for verdicts and answers",
            ));
        }
    }
    p.key = d.key.clone().or_else(|| implied.clone());
    if p.key.is_none() {
        return Err(Stop::refused(
            Code::KeyRequired,
            "shape",
            "key: give an idempotency key",
        ));
    }
    if d.dry_run {
        return Err(bad(
            "dryRun",
            "this version of the host does not serve dry runs yet; leave it out",
        ));
    }
    if let (Some(cause), Some(implied)) = (&d.cause, &implied)
        && cause != implied
    {
        return Err(bad(
            "cause",
            format!("the cause of an answer is `{implied}`; leave it out or give that"),
        ));
    }
    p.cause = d.cause.clone().or(implied);
    reason(d.reason.as_deref())?;
    p.request = Some(match &d.body {
        Body::Command(command) => Request::Command(call(command)?),
        Body::ReviewVerdict { answers, verdict } => Request::Verdict {
            answers: answers.clone(),
            allow: allow(verdict)?,
        },
        Body::NoOpinion { answers } => Request::NoOpinion {
            answers: answers.clone(),
        },
        Body::Notify {
            level,
            message,
            data,
        } => notify(level, message, data.as_ref())?,
        Body::Delegate { .. } => return Err(unknown_op("delegate")),
        Body::DelegationAnswer { .. } => return Err(unknown_op("DelegationAnswer")),
    });
    if p.cause.is_none() && !matches!(p.request, Some(Request::NoOpinion { .. })) {
        return Err(bad("cause", "give event:<id>, tick or initiative"));
    }
    Ok(())
}

/// The longest id of a request, in bytes.
const ANSWERS_MOST: usize = 64;
/// The longest cause, in bytes.
const CAUSE_MOST: usize = 128;
/// The longest target, in bytes: 200 nodes with the longest ids fit.
const TARGET_MOST: usize = 32 << 10;
/// The most bytes of a command's arguments, printed as JSON.
const ARGS_MOST: usize = 64 << 10;

/// Checks what bounds everything that is stored of a directive, whatever else is wrong with it.
fn lengths(d: &Directive) -> Result<(), Stop> {
    let too_long = |field: &str, most: usize| Err(bad(field, format!("give at most {most} bytes")));
    if d.cause.as_ref().is_some_and(|c| c.len() > CAUSE_MOST) {
        return too_long("cause", CAUSE_MOST);
    }
    match &d.body {
        Body::ReviewVerdict { answers, .. }
        | Body::NoOpinion {
            answers: Some(answers),
        } if answers.len() > ANSWERS_MOST => too_long("answers", ANSWERS_MOST),
        _ => Ok(()),
    }
}

fn bad(field: &str, message: impl AsRef<str>) -> Stop {
    Stop::refused(
        Code::InvalidArgument,
        "shape",
        format!("{field}: {}", message.as_ref()),
    )
}

fn unknown_op(name: &str) -> Stop {
    let served: Vec<&str> = Op::ALL
        .iter()
        .filter(|op| op.spec().served)
        .map(|op| op.as_str())
        .collect();
    let message = format!(
        "op: `{}` is not served; this version serves {}",
        shorten(name),
        served.join(", ")
    );
    Stop::refused(Code::UnknownOperation, "shape", message)
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Checks the form of an idempotency key (C19).
pub(super) fn key_form(key: &str) -> Result<(), Stop> {
    let printable = key.bytes().all(|b| (0x20..=0x7e).contains(&b));
    if (1..=KEY_MOST).contains(&key.len()) && printable {
        Ok(())
    } else {
        Err(bad("key", "give 1 to 128 printable ASCII characters"))
    }
}

/// Checks the length of a reason.
pub(super) fn reason(reason: Option<&str>) -> Result<(), Stop> {
    match reason {
        Some(reason) if reason.len() > REASON_MOST => Err(bad("reason", "give at most 1024 bytes")),
        _ => Ok(()),
    }
}

fn allow(verdict: &str) -> Result<bool, Stop> {
    match verdict {
        "allow" => Ok(true),
        "deny" => Ok(false),
        "requireApproval" => Err(bad(
            "verdict",
            "this version of the host does not serve requireApproval yet; allow or deny",
        )),
        _ => Err(bad(
            "verdict",
            format!("`{}` is none; give allow or deny", shorten(verdict)),
        )),
    }
}

fn notify(level: &str, message: &str, data: Option<&Value>) -> Result<Request, Stop> {
    if !matches!(level, "info" | "warning" | "error") {
        return Err(bad("level", "give info, warning or error"));
    }
    if message.is_empty() || message.len() > MESSAGE_MOST {
        return Err(bad("message", "give 1 to 4096 bytes"));
    }
    let data = data.map(Value::to_string);
    if data.as_ref().is_some_and(|d| d.len() > MESSAGE_MOST) {
        return Err(bad("data", "give at most 4096 bytes of JSON"));
    }
    Ok(Request::Notify {
        level: level.to_owned(),
        message: message.to_owned(),
        data,
    })
}

/// Checks the form of a command, an engine's or an operator's.
pub(super) fn call(command: &Command) -> Result<Call, Stop> {
    let op = Op::from_name(&command.op)
        .filter(|op| op.spec().served)
        .ok_or_else(|| unknown_op(&command.op))?;
    if op == Op::Notify {
        return Err(bad(
            "op",
            "notify is no command; an engine sends a Notify directive",
        ));
    }
    if command.target.len() > TARGET_MOST {
        return Err(bad("target", format!("give at most {TARGET_MOST} bytes")));
    }
    let args = serde_json::to_string(&command.args).map_or(usize::MAX, |text| text.len());
    if args > ARGS_MOST {
        return Err(bad(
            "args",
            format!("give at most {ARGS_MOST} bytes of JSON"),
        ));
    }
    for (name, value) in &command.args {
        let spec = op
            .spec()
            .args
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = op.spec().args.iter().map(|s| s.name).collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                bad(
                    &format!("args.{}", shorten(name)),
                    format!("{op} has no such argument (it has: {known})"),
                )
            })?;
        arg_form(spec, value)?;
    }
    let target: Target = command
        .target
        .parse()
        .map_err(|e| bad("target", format!("{e}")))?;
    fits(op, &target)?;
    if let Some(status) = &command.if_status {
        if_status_form(op, status)?;
    }
    Ok(Call {
        act: act(op, &command.args)?,
        target,
        if_status: command.if_status.clone(),
    })
}

fn arg_form(spec: &ArgSpec, value: &Value) -> Result<(), Stop> {
    let field = format!("args.{}", spec.name);
    match (spec.kind, value) {
        (ArgType::Boolean, Value::Bool(_))
        | (ArgType::Text, Value::String(_))
        | (ArgType::Any, _) => Ok(()),
        (ArgType::Boolean, _) => Err(bad(&field, "give true or false")),
        (ArgType::Text, _) => Err(bad(&field, "give a text")),
        (ArgType::Integer, value) => {
            let (least, most) = spec.range.unwrap_or((i64::MIN, i64::MAX));
            let number = value.as_number().and_then(whole);
            match number.filter(|n| (least..=most).contains(n)) {
                Some(_) => Ok(()),
                None => Err(bad(
                    &field,
                    format!("give a whole number from {least} to {most}"),
                )),
            }
        }
        (ArgType::Choice(choices), value) => match value.as_str().filter(|v| choices.contains(v)) {
            Some(_) => Ok(()),
            None => Err(bad(&field, format!("give one of {}", choices.join(", ")))),
        },
        (ArgType::Texts, Value::Object(fields)) => {
            match fields.iter().find(|(_, v)| !v.is_string()) {
                Some((name, _)) => Err(bad(
                    &format!("{field}.{}", shorten(name)),
                    "give a text; put quotes around it",
                )),
                None => Ok(()),
            }
        }
        (ArgType::Texts, _) => Err(bad(&field, "give an object of texts by name")),
    }
}

fn fits(op: Op, target: &Target) -> Result<(), Stop> {
    let fits = match (op.spec().level, target) {
        (Level::Run, Target::Workflow(_)) => true,
        (Level::Run, Target::Execution(_) | Target::OwnedRunning | Target::OwnedHeld) => {
            op != Op::RunStart
        }
        (Level::Node, Target::Nodes(_)) => true,
        _ => false,
    };
    let wanted = match op.spec().level {
        Level::Run if op == Op::RunStart => "workflow:<id>",
        Level::Run => "execution:<id>, workflow:<id>, owned.running or owned.held",
        _ => "node:<execution>/<node>",
    };
    if fits {
        Ok(())
    } else {
        Err(bad(
            "target",
            format!("`{target}` does not fit {op}; give {wanted}"),
        ))
    }
}

fn if_status_form(op: Op, status: &str) -> Result<(), Stop> {
    let known = match op.spec().level {
        Level::Run if op != Op::RunStart => RunStatus::ALL.iter().any(|s| s.as_str() == status),
        Level::Node => NodeStatus::ALL.iter().any(|s| s.as_str() == status),
        _ => {
            return Err(bad(
                "ifStatus",
                format!("{op} acts on nothing that has a status; leave it out"),
            ));
        }
    };
    if known {
        Ok(())
    } else {
        Err(bad(
            "ifStatus",
            format!("`{}` is no status of this target", shorten(status)),
        ))
    }
}

fn act(op: Op, args: &Args) -> Result<Act, Stop> {
    let number = |name: &str| args.get(name).and_then(Value::as_number).and_then(whole);
    let millis = |name: &str| number(name).and_then(|n| u64::try_from(n).ok());
    Ok(match op {
        Op::RunStart => Act::Start {
            params: texts(args.get("params")),
            priority: number("priority")
                .and_then(|n| i32::try_from(n).ok())
                .unwrap_or(0),
        },
        Op::RunPause => {
            if args.get("suspend") == Some(&Value::Bool(true)) {
                return Err(bad(
                    "args.suspend",
                    "this version of the host cannot freeze processes yet; leave it out",
                ));
            }
            Act::Pause
        }
        Op::RunResume => Act::Resume,
        Op::RunResumeHeld => Act::ResumeHeld,
        Op::RunStop => {
            let immediate = args.get("mode").and_then(Value::as_str) == Some("immediate");
            let drain_limit = millis("drainTimeoutMs");
            if immediate && drain_limit.is_some() {
                return Err(bad(
                    "args.drainTimeoutMs",
                    "has no effect with mode immediate; leave it out",
                ));
            }
            let mode = if immediate {
                StopMode::Immediate
            } else {
                StopMode::Drain
            };
            Act::Stop {
                mode,
                grace: millis("graceMs").unwrap_or(GRACE_MS),
                drain_limit,
            }
        }
        Op::NodeRetry => Act::Retry,
        Op::NodeSkip => Act::Skip,
        _ => return Err(unknown_op(op.as_str())),
    })
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields
        .filter_map(|(name, v)| Some((name.clone(), v.as_str()?.to_owned())))
        .collect()
}
