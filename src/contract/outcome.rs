//! What comes of a directive or command (C23, C24).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::code::Code;

/// What happened to one target.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Recorded; the work may take its time.
    #[n(0)]
    Applied,
    /// The target does not exist.
    #[n(1)]
    NotFound,
    /// The sender does not own the target.
    #[n(2)]
    NotOwned,
    /// `ifStatus` or the target's state did not fit; the detail says which.
    #[n(3)]
    PreconditionFailed,
    /// Nothing to do: the end state is reached.
    #[n(4)]
    AlreadyInState,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &'static [Self] = &[
        Self::Applied,
        Self::NotFound,
        Self::NotOwned,
        Self::PreconditionFailed,
        Self::AlreadyInState,
    ];

    /// Returns the outcome as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "APPLIED",
            Self::NotFound => "NOT_FOUND",
            Self::NotOwned => "NOT_OWNED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::AlreadyInState => "ALREADY_IN_STATE",
        }
    }
}

/// The outcome for one target.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TargetResult {
    /// The target as expanded: `execution:x1`, `node:x1/build`; for a start the new execution.
    #[n(0)]
    pub target: String,
    /// What happened to it.
    #[n(1)]
    pub outcome: Outcome,
    /// More, in fixed words first: `ifStatus RUNNING`, `state STOPPED`, `STILL_HELD by …`, `cleared …`.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The command's place in its run's total order, from 1; only where it was applied (C26).
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
}

/// How a directive or command ended as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ResultStatus {
    /// It passed the checks up to allowedCommands; the targets tell the rest.
    #[n(0)]
    Done,
    /// A check refused it; `code`, `check` and `message` say which and what to change.
    #[n(1)]
    Refused,
    /// It waits for an approval.
    #[n(2)]
    AwaitingApproval,
    /// It would have had the outcomes listed; nothing was changed.
    #[n(3)]
    DryRun,
}

impl ResultStatus {
    /// Returns the status as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "DONE",
            Self::Refused => "REFUSED",
            Self::AwaitingApproval => "AWAITING_APPROVAL",
            Self::DryRun => "DRY_RUN",
        }
    }
}

/// The answer to a directive or an operator's command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// How it ended.
    #[n(0)]
    pub status: ResultStatus,
    /// The refusal's code.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What was wrong and what to change.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The name of the check that refused.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// One outcome per target, in the order applied.
    #[n(4)]
    #[serde(default)]
    pub targets: Vec<TargetResult>,
    /// How many targets a selector matched, when it was cut at 200.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// The same answer was given before under the same key.
    #[n(6)]
    #[serde(default)]
    pub replayed: bool,
}

impl Answer {
    /// Makes the answer of a command that passed, with its outcomes.
    #[must_use]
    pub fn done(targets: Vec<TargetResult>) -> Self {
        Self {
            status: ResultStatus::Done,
            code: None,
            message: None,
            check: None,
            targets,
            matched: None,
            replayed: false,
        }
    }

    /// Makes the answer of a command that a check refused.
    #[must_use]
    pub fn refused(code: Code, check: &str, message: impl Into<String>) -> Self {
        Self {
            status: ResultStatus::Refused,
            code: Some(code),
            message: Some(message.into()),
            check: Some(check.to_owned()),
            targets: Vec::new(),
            matched: None,
            replayed: false,
        }
    }

    /// Says whether a selector was cut at 200 targets.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.matched.is_some_and(|m| m > self.targets.len() as u64)
    }
}
