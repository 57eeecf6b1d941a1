//! `doctor`: works on the files of a host that does not run.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{DoctorAction, DoctorArgs};
use super::output::{Output, safe};
use super::{Failure, Globals};
use crate::journal::doctor::{self, Contents, Report};

/// The journal's directory below the data directory.
const JOURNAL: &str = "journal";

/// What was found, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    dir: PathBuf,
    sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clean: Option<bool>,
    notes: Vec<String>,
}

/// Runs `doctor …`.
pub(super) fn run(globals: &Globals, args: &DoctorArgs) -> Result<u8, Failure> {
    let result = match &args.action {
        DoctorAction::Check { dir } => doctor::check(&journal(dir)?),
        DoctorAction::Repair { dir } => doctor::repair(&journal(dir)?),
    };
    let report = result.map_err(|e| Failure::new(e.exit_code(), e.to_string()))?;
    let exit = report
        .damage
        .as_ref()
        .map_or(0, crate::journal::Error::exit_code);
    Output::new(globals.output).print(&view(report), people)?;
    Ok(exit)
}

/// Takes the data directory or the journal in it.
fn journal(dir: &Path) -> Result<PathBuf, Failure> {
    let below = dir.join(JOURNAL);
    if below.is_dir() {
        return Ok(below);
    }
    if dir.is_dir() {
        return Ok(dir.to_owned());
    }
    Err(
        Failure::new(2, format!("{} is not a directory", dir.display()))
            .hint("give the directory of `serve --data-dir`"),
    )
}

fn view(report: Report) -> View {
    let Report {
        dir,
        damage,
        contents,
        notes,
    } = report;
    let contents = contents.as_ref();
    View {
        dir,
        sound: damage.is_none(),
        damage: damage.map(|d| d.to_string()),
        first_seq: contents.map(|c| c.first_seq),
        last_seq: contents.map(|c| c.last_seq),
        audit_rows: contents.map(|c| c.audit_len),
        audit_head: contents
            .map(|c: &Contents| c.audit_head.iter().map(|b| format!("{b:02x}")).collect()),
        clean: contents.map(|c| c.clean),
        notes,
    }
}

fn people(view: &View) -> String {
    let mut lines = vec![match &view.damage {
        None => format!("{} is sound", view.dir.display()),
        Some(damage) => damage.clone(),
    }];
    if let (Some(first), Some(last), Some(rows)) = (view.first_seq, view.last_seq, view.audit_rows)
    {
        lines.push(format!(
            "records {first} to {last}, {rows} rows of the audit, every one read and verified"
        ));
    }
    if view.clean == Some(false) {
        lines.push("it was not closed cleanly, which hurts nothing".to_owned());
    }
    lines.extend(view.notes.iter().cloned());
    lines
        .iter()
        .map(|line| safe(line))
        .collect::<Vec<_>>()
        .join("\n")
}
