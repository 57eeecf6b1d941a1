//! Why something was not done, in the terms of the contract; each skin prints it in its own form.

use serde::{Deserialize, Serialize};

use crate::contract::code::Code;
use crate::contract::outcome::{Answer, Outcome, ResultStatus};
use crate::core::effect::Refusal;
use crate::definitions::{Mistake, Places};

/// A refusal or failure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The code.
    pub code: Code,
    /// What was wrong and what to do about it.
    pub message: String,
    /// The name of the check that refused, where one did.
    pub check: Option<String>,
    /// Every bad field, where fields were bad.
    pub fields: Vec<FieldError>,
    /// The answer behind it, where a command was answered.
    pub answer: Option<Box<Answer>>,
}

/// One bad field of a request or definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// The path of the field, for instance `nodes.build.needs`; empty for the whole.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
    /// The line in the text that was sent, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

impl Error {
    /// Makes an error without fields.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            check: None,
            fields: Vec::new(),
            answer: None,
        }
    }

    /// Makes the error of one bad field of a request.
    pub fn field(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let field = FieldError {
            path: path.to_owned(),
            message: message.clone(),
            line: None,
            column: None,
        };
        Self {
            fields: vec![field],
            ..Self::new(Code::InvalidArgument, format!("{path}: {message}"))
        }
    }

    /// Makes the error of a definition that cannot be read.
    #[must_use]
    pub fn mistakes(mistakes: Vec<Mistake>) -> Self {
        let message = match mistakes.as_slice() {
            [] => "the definition cannot be read; send it again".to_owned(),
            [one] => one.to_string(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
        };
        let fields = mistakes.into_iter().map(|m| FieldError {
            path: m.path,
            message: m.message,
            line: Some(m.place.line),
            column: Some(m.place.column),
        });
        Self {
            fields: fields.collect(),
            check: Some("definition".to_owned()),
            ..Self::new(Code::InvalidArgument, message)
        }
    }

    /// Makes the error of a save that the core refused, with the lines of the text that was sent.
    #[must_use]
    pub fn save(refusal: Refusal, places: &Places) -> Self {
        let mut error = Self::from(refusal);
        for field in &mut error.fields {
            let place = places.find(&field.path);
            field.line = Some(place.line);
            field.column = Some(place.column);
        }
        error
    }

    /// Says what an answer amounts to where it is not a success: a refusal, a wait for an approval, or a single
    /// target that was not there or did not fit (C46).
    #[must_use]
    pub fn of_answer(answer: &Answer) -> Option<Self> {
        let (code, message) = match (answer.status, answer.targets.as_slice()) {
            (ResultStatus::Refused, _) => (
                answer.code.unwrap_or(Code::Internal),
                answer.message.clone().unwrap_or_default(),
            ),
            (ResultStatus::AwaitingApproval, _) => (
                Code::AwaitingApproval,
                "the command waits for an approval".into(),
            ),
            (ResultStatus::Done, [one]) => {
                let detail = one.detail.as_deref().unwrap_or("it does not fit");
                match one.outcome {
                    Outcome::NotFound => {
                        (Code::NotFound, format!("`{}` does not exist", one.target))
                    }
                    Outcome::PreconditionFailed => (
                        Code::PreconditionFailed,
                        format!("`{}`: {detail}", one.target),
                    ),
                    Outcome::Applied | Outcome::NotOwned | Outcome::AlreadyInState => return None,
                }
            }
            (ResultStatus::Done | ResultStatus::DryRun, _) => return None,
        };
        Some(Self {
            check: answer.check.clone(),
            answer: Some(Box::new(answer.clone())),
            ..Self::new(code, message)
        })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let Refusal {
            code,
            check,
            message,
            problems,
        } = refusal;
        let fields = problems.into_iter().map(|p| FieldError {
            path: p.path,
            message: p.message,
            line: None,
            column: None,
        });
        Self {
            fields: fields.collect(),
            check: Some(check.to_owned()),
            ..Self::new(code, message)
        }
    }
}
