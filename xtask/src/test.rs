//! `cargo xtask test`: every check and test that a change must pass, in the order in which a fault is cheapest to see.
//!
//! All calls of cargo use the dev profile and one set of packages and features, so that lints and documentation share
//! their metadata, and tests and doc tests their code. The one exception is the shipped build: the test features are
//! off there, and only our own crates are looked at again.

use crate::command::{self, Workspace};
use crate::python::PythonEngine;
use crate::report::{Outcome, Report};
use crate::{buf, deny};
use std::process::{Command, ExitCode};

/// What cargo looks at: everything, with the features that only tests turn on.
pub const EVERYTHING: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// The steps by name, in order; `--only` takes one of these.
const STEPS: [&str; 9] = [
    "format", "licences", "proto", "lint", "shipped", "python", "tests", "doctests", "docs",
];

/// Runs the steps, or one of them.
pub fn run(workspace: &Workspace, only: Option<&str>) -> Result<ExitCode, String> {
    if let Some(unknown) = only.filter(|name| !STEPS.contains(name)) {
        return Err(format!(
            "there is no step `{unknown}`; the steps are {}",
            STEPS.join(", ")
        ));
    }
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut report = Report::from_environment();
    let mut python = None;
    for name in STEPS {
        // The tests want the Python engine even when they are all that is asked for.
        let needed = wanted(name) || (name == "python" && wanted("tests"));
        if !needed {
            continue;
        }
        report.step(name, || match name {
            "format" => format(workspace),
            "licences" => deny::run(workspace).into(),
            "proto" => buf::run(workspace),
            "lint" => lint(workspace, &["--all-targets"], &EVERYTHING),
            "shipped" => lint(
                workspace,
                &["--lib", "--bins"],
                &["--workspace", "--locked"],
            ),
            "python" => match PythonEngine::prepare(workspace) {
                Ok(engine) => {
                    python = Some(engine);
                    Outcome::Passed
                }
                Err(trouble) => trouble.into(),
            },
            "tests" => tests(workspace, python.as_ref()).into(),
            "doctests" => {
                let mut doctests = workspace.cargo(["test", "--doc"]);
                command::run(doctests.args(EVERYTHING)).into()
            }
            "docs" => docs(workspace).into(),
            other => Outcome::Failed(format!("the step `{other}` has no body")),
        });
    }
    Ok(report.finish())
}

fn format(workspace: &Workspace) -> Outcome {
    if !command::works(&mut workspace.cargo(["fmt", "--version"])) {
        return Outcome::Skipped(
            "cargo fmt is not installed; `rustup component add rustfmt`".to_owned(),
        );
    }
    command::run(&mut workspace.cargo(["fmt", "--all", "--check", "--", "-l"]))
        .map_err(|_| "the files above are not formatted; `cargo fmt --all` writes them".to_owned())
        .into()
}

fn lint(workspace: &Workspace, targets: &[&str], packages: &[&str]) -> Outcome {
    if !command::works(&mut workspace.cargo(["clippy", "--version"])) {
        return Outcome::Skipped(
            "clippy is not installed; `rustup component add clippy`".to_owned(),
        );
    }
    let mut clippy = workspace.cargo(["clippy"]);
    command::run(
        clippy
            .args(packages)
            .args(targets)
            .args(["--", "-D", "warnings"]),
    )
    .into()
}

fn tests(workspace: &Workspace, python: Option<&PythonEngine>) -> Result<(), String> {
    let mut tests = tester(workspace);
    if let Some(PythonEngine { interpreter, stubs }) = python {
        tests
            .env("SIGNALBOX_TEST_PYTHON", interpreter)
            .env("SIGNALBOX_TEST_PYTHONPATH", stubs);
    } else {
        println!("   without the tests of the Python engine: its environment is not there");
    }
    command::run(tests.args(EVERYTHING))
}

/// nextest where it is installed, else cargo's own runner; both go on after a failure.
fn tester(workspace: &Workspace) -> Command {
    if !command::works(&mut workspace.cargo(["nextest", "--version"])) {
        println!("   cargo-nextest is not installed; `cargo test` runs the same tests");
        return workspace.cargo(["test", "--no-fail-fast", "--all-targets"]);
    }
    workspace.cargo(["nextest", "run", "--no-fail-fast", "--all-targets"])
}

fn docs(workspace: &Workspace) -> Result<(), String> {
    let mut docs = workspace.cargo(["doc", "--no-deps"]);
    command::run(docs.args(EVERYTHING).env("RUSTDOCFLAGS", "-D warnings"))
}
