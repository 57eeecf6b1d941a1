//! What was run, what came of it and how long it took.
//!
//! A step that could not run is not a step that passed: it is listed again at the end with its reason, and with
//! `CI` set it counts as a failure.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What came of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and found nothing wrong.
    Passed,
    /// It ran and found this.
    Failed(String),
    /// It could not run on this machine, for this reason.
    Skipped(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(why) => Self::Failed(why),
        }
    }
}

struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// The steps of one call, in the order in which they ran.
pub struct Report {
    steps: Vec<Step>,
    strict: bool,
}

impl Report {
    /// Makes an empty report; `strict` turns every skipped step into a failure.
    pub fn new(strict: bool) -> Self {
        Self {
            steps: Vec::new(),
            strict,
        }
    }

    /// Makes an empty report that is strict when the environment has `CI` set.
    pub fn from_environment() -> Self {
        Self::new(std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false"))
    }

    /// Runs one step, prints what came of it and how long it took, and keeps both.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> Outcome) {
        println!("== {name}");
        let start = now();
        let outcome = run();
        let took = start.elapsed();
        println!("== {name}: {} ({})", self.word(&outcome), seconds(took));
        self.steps.push(Step {
            name: name.to_owned(),
            outcome,
            took,
        });
    }

    /// Prints the summary; the exit code says whether everything passed.
    pub fn finish(self) -> ExitCode {
        println!("\n== summary");
        for step in &self.steps {
            println!(
                "   {:<24} {:>9}  {}",
                step.name,
                seconds(step.took),
                self.word(&step.outcome).lines().next().unwrap_or_default()
            );
        }
        let skipped = self
            .steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Skipped(_)))
            .count();
        if skipped > 0 {
            println!(
                "   {skipped} of {} could not run on this machine; the reasons are above.",
                self.steps.len()
            );
        }
        match self.failures() {
            0 => {
                println!("   nothing failed");
                ExitCode::SUCCESS
            }
            failures => {
                println!("   {failures} of {} failed", self.steps.len());
                ExitCode::FAILURE
            }
        }
    }

    /// Counts the steps that failed, with the skipped ones where nothing may be skipped.
    pub fn failures(&self) -> usize {
        let failed = |step: &&Step| match step.outcome {
            Outcome::Passed => false,
            Outcome::Failed(_) => true,
            Outcome::Skipped(_) => self.strict,
        };
        self.steps.iter().filter(failed).count()
    }

    fn word(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Failed(why) => format!("FAILED: {why}"),
            Outcome::Skipped(why) if self.strict => {
                format!("FAILED: could not run, and with CI set nothing may be skipped: {why}")
            }
            Outcome::Skipped(why) => format!("NOT RUN: {why}"),
        }
    }
}

/// The time of the machine, for how long a step took.
#[expect(
    clippy::disallowed_methods,
    reason = "tasks measure real time; nothing here is replayed"
)]
pub fn now() -> Instant {
    Instant::now()
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(strict: bool) -> Report {
        let mut report = Report::new(strict);
        report.step("passes", || Outcome::Passed);
        report.step("is skipped", || Outcome::Skipped("no python3".to_owned()));
        report
    }

    #[test]
    fn a_skipped_step_fails_only_where_nothing_may_be_skipped() {
        assert_eq!(report(false).failures(), 0);
        assert_eq!(report(true).failures(), 1);
    }

    #[test]
    fn the_steps_after_a_failure_still_run() {
        let mut report = report(false);
        report.step("fails", || Err("one finding".to_owned()).into());
        report.step("runs after it", || Outcome::Passed);
        assert_eq!(report.failures(), 1);
        assert_eq!(report.steps.len(), 4);
    }
}
