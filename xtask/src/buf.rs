//! buf over `proto/`: lint, format, and breaking changes once there is a baseline.
//!
//! The program comes from the Python registry, at one version, into the virtual environment.

use crate::command::{self, Workspace};
use crate::python::{Trouble, Venv};
use crate::report::Outcome;
use std::process::Command;

const PACKAGE: &str = "buf-bin==1.75.0";

/// The wire as it was last released; `buf build -o` makes the file. A change that breaks it fails.
const BASELINE: &str = "proto/baseline.binpb";

/// Runs every check; the first that finds something ends it.
pub fn run(workspace: &Workspace) -> Outcome {
    let proto = workspace.root.join("proto");
    if !proto.join("buf.yaml").is_file() {
        return Outcome::Failed("proto/buf.yaml is not there".to_owned());
    }
    match install(workspace) {
        Ok(venv) => check(workspace, &venv).into(),
        Err(trouble) => trouble.into(),
    }
}

fn install(workspace: &Workspace) -> Result<Venv, Trouble> {
    let venv = Venv::open(workspace)?;
    venv.install("buf", PACKAGE, &[PACKAGE])?;
    Ok(venv)
}

fn check(workspace: &Workspace, venv: &Venv) -> Result<(), String> {
    let buf = |arguments: &[&str]| {
        command::run(
            Command::new(venv.program("buf"))
                .current_dir(&workspace.root)
                .args(arguments),
        )
    };
    buf(&["lint", "proto"])?;
    buf(&["format", "-d", "--exit-code", "proto"])
        .map_err(|why| format!("{why}; `buf format -w proto` writes it"))?;
    if workspace.root.join(BASELINE).is_file() {
        buf(&["breaking", "proto", "--against", BASELINE])?;
    }
    Ok(())
}
