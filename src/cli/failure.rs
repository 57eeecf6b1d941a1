//! Why a command did not do what it should, with its exit code (C48).

use crate::contract::code::Code;
use crate::operators::FieldError;
use crate::operators::rest::Problem;

use super::output::safe;

/// The exit codes of C48, the worst first; any other code counts as the first.
const WORST_FIRST: [u8; 6] = [1, 4, 6, 5, 7, 0];

/// Returns the worse of two exit codes.
#[must_use]
pub fn worse(a: u8, b: u8) -> u8 {
    let rank = |code: u8| WORST_FIRST.iter().position(|c| *c == code).unwrap_or(0);
    if rank(a) <= rank(b) { a } else { b }
}

/// A failure, as it is told on standard error.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// What is wrong.
    pub message: String,
    /// What to do about it, where the message does not say.
    pub hint: Option<String>,
    /// More lines: bad fields.
    pub more: Vec<String>,
    /// The code of the contract, where the host gave one.
    pub code: Option<String>,
}

impl Failure {
    /// Makes a failure.
    pub fn new(exit: u8, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            more: Vec::new(),
            code: None,
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Makes the failure of a problem body that the host sent.
    #[must_use]
    pub fn of_problem(problem: &Problem) -> Self {
        let code = Code::ALL.iter().find(|c| c.as_str() == problem.code);
        // A newer host may know more codes than this program.
        let exit = code.map_or_else(|| by_status(problem.status), |c| c.exit_code());
        let more = problem
            .errors
            .iter()
            .filter(|_| problem.errors.len() > 1)
            .map(field)
            .collect();
        let hint = code.and_then(|code| hint(*code)).map(str::to_owned);
        Self {
            exit,
            message: problem.detail.clone(),
            hint,
            more,
            code: Some(problem.code.clone()),
        }
    }

    /// Tells it on standard error.
    pub fn print(&self) {
        let code = self
            .code
            .as_ref()
            .map_or_else(String::new, |c| format!(" [{}]", safe(c)));
        eprintln!(
            "error{code}: {}",
            safe(&self.message).replace("\\n", "\n  ")
        );
        for line in &self.more {
            eprintln!("  {}", safe(line));
        }
        if let Some(hint) = &self.hint {
            eprintln!("hint: {}", safe(hint));
        }
    }
}

fn field(error: &FieldError) -> String {
    let place = match (error.line, error.column) {
        (Some(line), Some(column)) => format!("{line}:{column}: "),
        _ => String::new(),
    };
    format!("{place}{}: {}", error.path, error.message)
}

/// Returns the exit code for a status whose code is not known.
fn by_status(status: u16) -> u8 {
    match status {
        400 | 405 | 413 | 415 | 422 => 2,
        401 => 4,
        404 => 5,
        _ => 1,
    }
}

/// Says what to do where the host's own message cannot know.
fn hint(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => Some(
            "give a key with --key or SIGNALBOX_KEY, or --data-dir DIR on the host's own machine",
        ),
        Code::ControlledBySupervisor | Code::ControlRejected => Some(
            "`signalbox audit` says what was decided and why, `signalbox supervisor list` who owns what",
        ),
        Code::DefinedInFile => Some("change the file and start the host again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_counts_in_the_order_of_the_contract() {
        for (a, b, worst) in [
            (0, 7, 7),
            (7, 5, 5),
            (5, 6, 6),
            (6, 4, 4),
            (4, 1, 1),
            (0, 0, 0),
            (6, 0, 6),
            (5, 0, 5),
            (1, 7, 1),
        ] {
            assert_eq!((worse(a, b), worse(b, a)), (worst, worst), "{a} {b}");
        }
    }

    #[test]
    fn every_code_has_the_exit_code_of_the_one_table() {
        let table = [
            (
                2,
                vec![
                    "INVALID_ARGUMENT",
                    "KEY_REQUIRED",
                    "UNKNOWN_OPERATION",
                    "KEY_CONFLICT",
                ],
            ),
            (4, vec!["UNAUTHENTICATED", "PERMISSION_DENIED"]),
            (
                5,
                vec!["NOT_FOUND", "PRECONDITION_FAILED", "ANSWER_NOT_OPEN"],
            ),
            (
                6,
                vec![
                    "CAUSE_UNKNOWN",
                    "CAUSE_EXPIRED",
                    "CAUSE_EXHAUSTED",
                    "REASON_REQUIRED",
                    "INITIATIVE_NOT_ALLOWED",
                    "INITIATIVE_RATE_LIMITED",
                    "COMMAND_NOT_ALLOWED",
                    "RISK_TOO_HIGH",
                    "CONTROL_REJECTED",
                    "CONTROLLED_BY_SUPERVISOR",
                ],
            ),
            (7, vec!["AWAITING_APPROVAL"]),
        ];
        for code in Code::ALL {
            let listed = table
                .iter()
                .find(|(_, codes)| codes.contains(&code.as_str()))
                .map_or(1, |(exit, _)| *exit);
            let problem = Problem::of(
                &crate::operators::Error::new(*code, "why"),
                axum::http::StatusCode::BAD_REQUEST,
                "/",
            );
            assert_eq!(Failure::of_problem(&problem).exit, listed, "{code}");
        }
    }

    #[test]
    fn a_code_of_a_newer_host_goes_by_its_status() {
        let error = crate::operators::Error::new(Code::Internal, "why");
        let mut problem = Problem::of(&error, axum::http::StatusCode::NOT_FOUND, "/");
        problem.code = "GONE_FISHING".into();
        assert_eq!(Failure::of_problem(&problem).exit, 5);
    }
}
