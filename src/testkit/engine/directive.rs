//! A directive of an engine, written down piece by piece.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::FakeEngine;
use crate::wire::proto::v1 as pb;
use pb::directive::Body;

/// A directive. Awaiting it sends it and waits for its result.
#[must_use = "a directive is sent by awaiting it"]
#[derive(Debug)]
pub struct EngineDirective<'a> {
    engine: &'a mut FakeEngine,
    directive: pb::Directive,
}

impl<'a> EngineDirective<'a> {
    pub(super) fn new(engine: &'a mut FakeEngine, directive: pb::Directive) -> Self {
        Self { engine, directive }
    }

    pub(super) fn command(engine: &'a mut FakeEngine, key: &str, op: &str, target: &str) -> Self {
        Self::new(engine, command_directive(key, op, target))
    }

    pub(super) fn verdict(engine: &'a mut FakeEngine, review: &str, verdict: &str) -> Self {
        let verdict = match verdict {
            "allow" => pb::Verdict::Allow,
            "deny" => pb::Verdict::Deny,
            "requireApproval" => pb::Verdict::RequireApproval,
            other => panic!("`{other}` is no verdict; say allow, deny or requireApproval"),
        };
        let body = Body::ReviewVerdict(pb::ReviewVerdict {
            answers: review.to_owned(),
            verdict: verdict.into(),
            reason: String::new(),
        });
        Self::new(
            engine,
            pb::Directive {
                body: Some(body),
                ..pb::Directive::default()
            },
        )
    }

    /// Sets the cause, for instance `event:e-1`; a command that is given none acts at the engine's own initiative.
    pub fn cause(mut self, cause: &str) -> Self {
        self.directive.cause = cause.to_owned();
        self
    }

    /// Sets the reason.
    pub fn reason(mut self, reason: &str) -> Self {
        self.directive.reason = reason.to_owned();
        self
    }

    /// Sets the key.
    pub fn key(mut self, key: &str) -> Self {
        self.directive.key = key.to_owned();
        self
    }

    /// Adds the guard of a command.
    pub fn if_status(mut self, status: &str) -> Self {
        match &mut self.directive.body {
            Some(Body::Command(command)) => command.if_status = status.to_owned(),
            other => panic!("only a command has a guard: {other:?}"),
        }
        self
    }

    /// Adds an argument of a command.
    pub fn arg(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        match &mut self.directive.body {
            Some(Body::Command(command)) => {
                let args = command.args.get_or_insert_with(Struct::default);
                args.fields
                    .insert(name.to_owned(), proto_value(value.into()));
            }
            other => panic!("only a command has arguments: {other:?}"),
        }
        self
    }

    /// Returns the directive as it goes out, to be sent by other means.
    #[must_use]
    pub fn into_directive(self) -> pb::Directive {
        self.directive
    }

    /// Sends it without waiting and returns its number, for [`FakeEngine::result`].
    pub async fn send(self) -> u64 {
        self.engine.send(self.directive).await
    }
}

impl<'a> IntoFuture for EngineDirective<'a> {
    type Output = pb::DirectiveResult;
    type IntoFuture = Pin<Box<dyn Future<Output = pb::DirectiveResult> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let reference = self.engine.send(self.directive).await;
            self.engine.result(reference).await
        })
    }
}

/// Makes a command at the engine's own initiative, without arguments and reason.
#[must_use]
pub fn command_directive(key: &str, op: &str, target: &str) -> pb::Directive {
    pb::Directive {
        key: key.to_owned(),
        cause: "initiative".to_owned(),
        body: Some(Body::Command(pb::Command {
            op: op.to_owned(),
            target: target.to_owned(),
            ..pb::Command::default()
        })),
        ..pb::Directive::default()
    }
}

fn proto_value(value: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match value {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(value) => {
            Kind::NumberValue(value.as_f64().expect("a JSON number is a number"))
        }
        Json::String(value) => Kind::StringValue(value),
        Json::Array(values) => Kind::ListValue(ListValue {
            values: values.into_iter().map(proto_value).collect(),
        }),
        Json::Object(fields) => Kind::StructValue(Struct {
            fields: fields
                .into_iter()
                .map(|(name, value)| (name, proto_value(value)))
                .collect(),
        }),
    };
    Value { kind: Some(kind) }
}
