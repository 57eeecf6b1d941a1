//! `cargo xtask test --long`: the long counts, a row at a time, each going on where the last call stopped.
//!
//! A row repeats one test with ever new seeds. After every round its result file `target/xtask/long/<row>.json` holds
//! the count so far, the rounds with their seeds and revisions, and the failures with their output, so that a call
//! can be interrupted at any moment and costs at most one round. A failed round is no part of the count, and its
//! seed is not used again: the failure stays in the file until `--fresh`.

use crate::command::{self, Workspace};
use crate::report::{Outcome, Report, now};
use crate::test::EVERYTHING;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// A row that repeats one test.
struct Row {
    id: &'static str,
    title: &'static str,
    /// What is counted.
    unit: &'static str,
    /// How many are wanted.
    target: u64,
    /// How many minutes a call takes at most when `--minutes` says nothing.
    minutes: u64,
    /// What cargo test is told beside the packages.
    test: &'static [&'static str],
    /// The variable that says how much a round does, and its value.
    size: (&'static str, u64),
    /// How many units a round counts for.
    counts: u64,
    /// The variable that takes the first seed of a round, and how many seeds a round uses up.
    seed: (&'static str, u64),
}

const ROWS: [Row; 2] = [
    Row {
        id: "MODEL",
        title: "random inputs on the reference and on the core",
        unit: "inputs",
        target: 1_000_000,
        minutes: 60,
        test: &[
            "--test",
            "model",
            "--",
            "the_core_does_what_the_reference_does",
        ],
        size: ("SIGNALBOX_MODEL_SEEDS", 200),
        counts: 200 * 500,
        seed: ("SIGNALBOX_MODEL_SEED_BASE", 200),
    },
    Row {
        id: "P1",
        title: "no acknowledged directive is lost or applied twice over kill -9",
        unit: "kills",
        target: 500,
        minutes: 120,
        test: &["--test", "it", "--", "crash::kills_at_random_moments"],
        size: ("SIGNALBOX_KILLS", 50),
        counts: 50,
        seed: ("SIGNALBOX_SEED", 1),
    },
];

const MUTANTS: &str = "MUTANTS";

/// A row that fails this often in one call is given up: its fault is known by then.
const FAILURES_ENOUGH: usize = 3;

/// Runs the rows, or one of them.
pub fn run(
    workspace: &Workspace,
    only: Option<&str>,
    minutes: Option<u64>,
    fresh: bool,
) -> Result<ExitCode, String> {
    let ids: Vec<_> = ROWS.iter().map(|row| row.id).chain([MUTANTS]).collect();
    if let Some(unknown) = only.filter(|id| !ids.contains(id)) {
        return Err(format!(
            "there is no row `{unknown}`; the rows are {}",
            ids.join(", ")
        ));
    }
    let wanted = |id: &str| only.is_none_or(|only| only == id);
    let folder = workspace.own().join("long");
    let mut report = Report::from_environment();
    for row in ROWS.iter().filter(|row| wanted(row.id)) {
        let name = format!("{} ({} {})", row.id, row.target, row.unit);
        report.step(&name, || {
            repeat(
                workspace,
                row,
                &folder,
                minutes.unwrap_or(row.minutes),
                fresh,
            )
        });
    }
    if wanted(MUTANTS) {
        report.step(MUTANTS, || mutants(workspace, &folder, fresh));
    }
    Ok(report.finish())
}

/// What a row has done so far, over all calls.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Progress {
    row: String,
    title: String,
    unit: String,
    target: u64,
    done: u64,
    next_seed: u64,
    rounds: Vec<Round>,
    failures: Vec<Failure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Round {
    seed: u64,
    count: u64,
    seconds: f64,
    revision: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Failure {
    seed: u64,
    revision: String,
    why: String,
    output: PathBuf,
}

impl Progress {
    /// Reads what earlier calls did; a row without a file begins at nothing. A file that cannot be read is an error,
    /// since counting from nothing would hide the failures in it.
    fn resume(file: &Path, row: &Row, fresh: bool) -> Result<Self, String> {
        let mut progress = if fresh || !file.exists() {
            Self {
                next_seed: 1,
                ..Self::default()
            }
        } else {
            serde_json::from_str(&command::read(file)?)
                .map_err(|error| format!("{}: {error}; begin again with --fresh", file.display()))?
        };
        progress.row = row.id.to_owned();
        progress.title = row.title.to_owned();
        progress.unit = row.unit.to_owned();
        progress.target = row.target;
        Ok(progress)
    }

    /// Writes the file beside its old self and renames it, so that a call that is killed leaves one of the two.
    fn save(&self, file: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        let draft = file.with_extension("json.new");
        command::write(&draft, &text)?;
        std::fs::rename(&draft, file).map_err(|error| format!("write {}: {error}", file.display()))
    }

    fn passed(&mut self, row: &Row, seconds: f64, revision: &str) {
        let round = Round {
            seed: self.next_seed,
            count: row.counts,
            seconds,
            revision: revision.to_owned(),
        };
        self.done += round.count;
        self.next_seed += row.seed.1;
        self.rounds.push(round);
    }

    fn failed(&mut self, row: &Row, why: String, output: PathBuf, revision: &str) {
        let revision = revision.to_owned();
        self.failures.push(Failure {
            seed: self.next_seed,
            revision,
            why,
            output,
        });
        self.next_seed += row.seed.1;
    }

    fn outcome(&self, file: &Path) -> Outcome {
        let Self {
            done,
            target,
            unit,
            failures,
            ..
        } = self;
        let so_far = format!("{done} of {target} {unit} in {}", file.display());
        match failures.first() {
            Some(first) => Outcome::Failed(format!(
                "{} rounds failed, the first at seed {} ({}); {so_far}",
                failures.len(),
                first.seed,
                first.output.display()
            )),
            None if done < target => {
                Outcome::Skipped(format!("the time is over: {so_far}; the next call goes on"))
            }
            None => Outcome::Passed,
        }
    }
}

fn repeat(workspace: &Workspace, row: &Row, folder: &Path, minutes: u64, fresh: bool) -> Outcome {
    let file = folder.join(format!("{}.json", row.id));
    match rounds(workspace, row, &file, minutes, fresh) {
        Ok(progress) => progress.outcome(&file),
        Err(why) => Outcome::Failed(why),
    }
}

fn rounds(
    workspace: &Workspace,
    row: &Row,
    file: &Path,
    minutes: u64,
    fresh: bool,
) -> Result<Progress, String> {
    let mut progress = Progress::resume(file, row, fresh)?;
    let revision = revision(workspace);
    let start = now();
    let limit = Duration::from_secs(minutes * 60);
    let failed_before = progress.failures.len();
    while progress.done < row.target
        && start.elapsed() < limit
        && progress.failures.len() < failed_before + FAILURES_ENOUGH
    {
        let seed = progress.next_seed;
        let began = now();
        let output = file.with_file_name(format!("{}-{seed}.log", row.id));
        let result = round(workspace, row, seed, &output);
        let seconds = began.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                progress.passed(row, seconds, &revision);
                std::fs::remove_file(&output)
                    .map_err(|error| format!("remove {}: {error}", output.display()))?;
                println!(
                    "   seed {seed}: passed in {seconds:.1} s; {} of {} {}",
                    progress.done, row.target, row.unit
                );
            }
            Err(why) => {
                println!(
                    "   seed {seed}: FAILED: {why}; its output is in {}",
                    output.display()
                );
                progress.failed(row, why, output, &revision);
            }
        }
        progress.save(file)?;
    }
    Ok(progress)
}

/// Runs the row's test once. A filter that matches no test is a failure, not a pass.
fn round(workspace: &Workspace, row: &Row, seed: u64, output: &Path) -> Result<(), String> {
    let mut test = workspace.cargo(["test"]);
    test.args(EVERYTHING).args(row.test).arg("--nocapture");
    test.env(row.size.0, row.size.1.to_string())
        .env(row.seed.0, seed.to_string());
    let done = test
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    let text = format!(
        "{}\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    command::write(output, &text)?;
    if !done.status.success() {
        return Err(format!("cargo test ended with {}", done.status));
    }
    match passed_tests(&text) {
        0 => Err("no test has the row's name".to_owned()),
        _ => Ok(()),
    }
}

/// How many tests passed, over all binaries, by what cargo's runner prints.
fn passed_tests(output: &str) -> u64 {
    let results = output
        .lines()
        .filter_map(|line| line.split_once("test result: ok. "));
    results
        .filter_map(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

fn revision(workspace: &Workspace) -> String {
    let git = |arguments: &[&str]| {
        command::capture(
            Command::new("git")
                .current_dir(&workspace.root)
                .args(arguments),
        )
    };
    match (
        git(&["rev-parse", "--short=12", "HEAD"]),
        git(&["status", "--porcelain"]),
    ) {
        (Ok(head), Ok(changes)) if changes.trim().is_empty() => head.trim().to_owned(),
        (Ok(head), _) => format!("{} with changes", head.trim()),
        (Err(_), _) => "unknown".to_owned(),
    }
}

/// Mutates the interlocking: every mutant must be caught by the unit tests or by the model test.
fn mutants(workspace: &Workspace, folder: &Path, fresh: bool) -> Outcome {
    if !command::works(&mut workspace.cargo(["mutants", "--version"])) {
        return Outcome::Skipped(
            "cargo-mutants is not installed; `cargo install cargo-mutants --locked`".to_owned(),
        );
    }
    if let Err(error) = std::fs::create_dir_all(folder) {
        return Outcome::Failed(format!("make {}: {error}", folder.display()));
    }
    let mut mutate = workspace.cargo(["mutants", "--package", "signalbox-host", "--all-features"]);
    mutate.args([
        "--file",
        "src/core/interlocking.rs",
        "--file",
        "src/core/interlocking/**",
    ]);
    mutate
        .args([
            "--test-package",
            "signalbox-host,signalbox-model",
            "--output",
        ])
        .arg(folder);
    if !fresh {
        // Mutants that an earlier call caught are not tried again.
        mutate.arg("--iterate");
    }
    command::run(mutate.args(["--", "--lib", "--test", "model"]))
        .map_err(|why| {
            format!(
                "{why}; the mutants that lived are in {}",
                folder.join("mutants.out/missed.txt").display()
            )
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> PathBuf {
        let name = format!(
            "signalbox-xtask-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        std::env::temp_dir().join(name).join("P1.json")
    }

    fn row() -> &'static Row {
        ROWS.iter().find(|row| row.id == "P1").unwrap()
    }

    #[test]
    fn a_row_goes_on_where_the_last_call_stopped() {
        let file = file();
        let mut first = Progress::resume(&file, row(), false).unwrap();
        assert_eq!((first.done, first.next_seed), (0, 1));
        first.passed(row(), 1.5, "a");
        first.failed(row(), "lost one".to_owned(), "P1-2.log".into(), "a");
        first.save(&file).unwrap();

        let mut second = Progress::resume(&file, row(), false).unwrap();
        assert_eq!(second, first);
        assert_eq!((second.done, second.next_seed), (50, 3));
        second.passed(row(), 1.0, "b");
        let seeds: Vec<_> = second.rounds.iter().map(|round| round.seed).collect();
        assert_eq!(seeds, [1, 3]);

        let fresh = Progress::resume(&file, row(), true).unwrap();
        assert_eq!((fresh.done, fresh.failures.len()), (0, 0));
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_result_file_that_cannot_be_read_is_not_counted_as_nothing() {
        let file = file();
        command::write(&file, "{\"row\": \"P1\", \"done\":").unwrap();
        let error = Progress::resume(&file, row(), false).unwrap_err();
        assert!(error.contains("--fresh"), "{error}");
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_row_passes_only_with_its_whole_count_and_without_a_failure() {
        let file = Path::new("P1.json");
        let mut progress = Progress {
            target: 100,
            ..Progress::default()
        };
        progress.passed(row(), 1.0, "a");
        assert!(matches!(progress.outcome(file), Outcome::Skipped(_)));
        progress.passed(row(), 1.0, "a");
        assert_eq!(progress.outcome(file), Outcome::Passed);
        progress.failed(row(), "lost one".to_owned(), "P1-2.log".into(), "a");
        assert!(matches!(progress.outcome(file), Outcome::Failed(_)));
    }

    #[test]
    fn a_run_without_a_matching_test_counts_nothing() {
        assert_eq!(
            passed_tests("test result: ok. 0 passed; 0 failed; 0 ignored"),
            0
        );
        assert_eq!(
            passed_tests("x\ntest result: ok. 1 passed; 0 failed\ntest result: ok. 2 passed; 0"),
            3
        );
    }
}
