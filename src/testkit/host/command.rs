//! An operator's command, written down piece by piece.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::super::patience;
use super::tester;
use crate::contract::directive::{Actor, Command};
use crate::contract::outcome::Answer;
use crate::core::effect::Refusal;
use crate::host::HostHandle;

/// An operator's command. Awaiting it sends it and waits for its answer.
#[must_use = "a command is sent by awaiting it"]
pub struct OperatorCommand {
    handle: HostHandle,
    actor: Actor,
    command: Command,
    reason: Option<String>,
    key: Option<String>,
}

impl OperatorCommand {
    pub(super) fn new(handle: HostHandle, op: &str, target: &str) -> Self {
        Self {
            handle,
            actor: tester(),
            command: Command {
                op: op.to_owned(),
                target: target.to_owned(),
                args: Default::default(),
                if_status: None,
            },
            reason: None,
            key: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.command.args.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the guard.
    pub fn if_status(mut self, status: &str) -> Self {
        self.command.if_status = Some(status.to_owned());
        self
    }

    /// Adds the reason.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Adds the idempotency key.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Sends it as another actor, of kind `KEY`.
    pub fn by(mut self, id: &str) -> Self {
        self.actor.id = id.to_owned();
        self
    }

    /// Sends it, and lets the test go on while it waits, for instance for a review.
    ///
    /// # Errors
    /// The task gives `UNAVAILABLE` when the host stops before it has answered.
    pub fn send(self) -> JoinHandle<Result<Answer, Refusal>> {
        let Self {
            handle,
            actor,
            command,
            reason,
            key,
        } = self;
        tokio::spawn(async move { handle.command(actor, command, reason, key).await })
    }
}

impl IntoFuture for OperatorCommand {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let op = self.command.op.clone();
            let Self {
                handle,
                actor,
                command,
                reason,
                key,
            } = self;
            let answer = handle.command(actor, command, reason, key);
            match patience(&format!("the answer to {op}"), answer).await {
                Ok(answer) => answer,
                Err(refusal) => panic!("the host did not answer {op}: {}", refusal.message),
            }
        })
    }
}
