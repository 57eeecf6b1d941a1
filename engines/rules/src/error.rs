//! What can go wrong, each with what to do about it.

use std::fmt;
use std::path::PathBuf;

/// Why the engine does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable of the environment is missing or empty.
    #[error(
        "{variable} is not set: give it {meaning}; the host sets it for engines that it starts itself"
    )]
    MissingVariable {
        /// The variable's name.
        variable: &'static str,
        /// What belongs into it.
        meaning: &'static str,
    },
    /// A variable of the environment cannot be used.
    #[error("{variable} cannot be used: {problem}")]
    BadVariable {
        /// The variable's name.
        variable: &'static str,
        /// What is wrong and what to change. Never the value of a secret.
        problem: String,
    },
    /// The file of rules cannot be read.
    #[error("cannot read the rules in {path}: {source}; check the path and its permissions", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file of rules is no YAML, or not of the form of rules.
    #[error("{path}{place}: {message}; correct the file and start again", path = .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// `:line:column`, or nothing where it is not known.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// Rules contradict the contract or themselves, or an expression is wrong.
    #[error("{path} has {count} to correct:{list}", path = .path.display(), count = count(.mistakes), list = list(.mistakes))]
    Rules {
        /// The file.
        path: PathBuf,
        /// Every mistake, in the order of the file.
        mistakes: Vec<Mistake>,
    },
    /// The host refuses this engine for good.
    #[error("the host at {addr} refuses this engine ({code}): {message}; {advice}")]
    Refused {
        /// The host's address.
        addr: String,
        /// The gRPC code.
        code: &'static str,
        /// The host's message.
        message: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A newer session of the same supervisor took over (C10).
    #[error(
        "another engine of supervisor {supervisor} took over this session: run one engine for a supervisor ({message})"
    )]
    Replaced {
        /// The supervisor.
        supervisor: String,
        /// The host's message.
        message: String,
    },
    /// A managed engine's session ended with a failure; the host starts the engine again.
    #[error(
        "the session with the host ended: {message}; the host starts a managed engine again by itself"
    )]
    SessionEnded {
        /// Why.
        message: String,
    },
    /// The program cannot watch its host.
    #[error("cannot start a thread that watches standard input: {0}; raise the limit of threads")]
    Watch(std::io::Error),
}

/// One mistake in a file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; 0 where it is not known.
    pub line: u64,
    /// The name of the rule; empty where it is about the file.
    pub rule: String,
    /// What is wrong and what to change.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.rule.is_empty() {
            write!(f, "rule {}: ", self.rule)?;
        }
        f.write_str(&self.message)
    }
}

fn count(mistakes: &[Mistake]) -> String {
    match mistakes.len() {
        1 => "1 mistake".to_owned(),
        n => format!("{n} mistakes"),
    }
}

fn list(mistakes: &[Mistake]) -> String {
    mistakes
        .iter()
        .map(|mistake| format!("\n  {mistake}"))
        .collect()
}
