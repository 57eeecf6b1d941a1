//! The definitions of a directory: `workflows/` and `supervisors/` below it, all or nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::contract::definition::{SupervisorDef, WorkflowDef};

use super::{Format, MAX_BYTES, Mistake, Place, Places, read_supervisor, read_workflow};

/// A definition of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// A workflow.
    Workflow(WorkflowDef),
    /// A supervisor.
    Supervisor(Box<SupervisorDef>),
}

impl Definition {
    /// Returns `workflow:<id>` or `supervisor:<id>`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Workflow(def) => format!("workflow:{}", def.id),
            Self::Supervisor(def) => format!("supervisor:{}", def.id),
        }
    }
}

/// A definition from a file.
#[derive(Debug)]
pub struct Loaded {
    /// The file.
    pub file: PathBuf,
    /// What it defines.
    pub def: Definition,
    /// Where its fields are, for what a save finds wrong with it.
    pub places: Places,
}

impl Loaded {
    /// Makes the problem that a save found, at its line.
    #[must_use]
    pub fn problem(&self, path: &str, message: impl Into<String>) -> FileProblem {
        let Place { line, column } = self.places.find(path);
        FileProblem {
            file: self.file.clone(),
            line,
            column,
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// One thing that is wrong with a file. Line 0 means the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file or directory.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The path of the field.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            path,
            message,
        } = self;
        write!(f, "{}:", file.display())?;
        if *line > 0 {
            write!(f, "{line}:{column}:")?;
        }
        f.write_str(" ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)
    }
}

/// Everything that is wrong with the files of a directory; one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<FileProblem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Reads every definition below a directory: the files of `workflows/`, then those of `supervisors/`, each in the
/// order of their names. Files end in `.yaml`, `.yml` or `.json`; others are left alone. A directory that is not
/// there defines nothing.
///
/// # Errors
/// Everything that is wrong with any of the files; then nothing is loaded.
pub fn load_dir(dir: &Path) -> Result<Vec<Loaded>, Problems> {
    let (mut loaded, mut problems) = (Vec::new(), Vec::new());
    for kind in [Kind::Workflow, Kind::Supervisor] {
        let below = dir.join(kind.directory());
        match files(&below) {
            Ok(files) => {
                files
                    .into_iter()
                    .for_each(|(file, format)| match load(&file, format, kind) {
                        Ok(one) => loaded.push(one),
                        Err(more) => problems.extend(more),
                    })
            }
            Err(error) => problems.push(whole(
                &below,
                format!("the directory cannot be read ({error}); check its rights"),
            )),
        }
    }
    let mut first: BTreeMap<String, &Path> = BTreeMap::new();
    for one in &loaded {
        if let Some(other) = first.insert(one.def.name(), &one.file) {
            let message = format!(
                "`{}` is defined in {} too; keep one of them",
                one.def.name(),
                other.display()
            );
            problems.push(one.problem("id", message));
        }
    }
    if problems.is_empty() {
        Ok(loaded)
    } else {
        Err(Problems(problems))
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Workflow,
    Supervisor,
}

impl Kind {
    fn directory(self) -> &'static str {
        match self {
            Self::Workflow => "workflows",
            Self::Supervisor => "supervisors",
        }
    }
}

/// Returns the definition files of a directory in the order of their names.
fn files(dir: &Path) -> std::io::Result<Vec<(PathBuf, Format)>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut out = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_none_or(|n| n.to_string_lossy().starts_with('.'));
        match path.extension().and_then(|e| e.to_str()) {
            Some("yaml" | "yml") if !hidden => out.push((path, Format::Yaml)),
            Some("json") if !hidden => out.push((path, Format::Json)),
            _ => tracing::debug!(file = %path.display(), "not a definition file"),
        }
    }
    out.sort();
    Ok(out)
}

fn load(file: &Path, format: Format, kind: Kind) -> Result<Loaded, Vec<FileProblem>> {
    let text = text(file).map_err(|message| vec![whole(file, message)])?;
    let read = match kind {
        Kind::Workflow => {
            read_workflow(&text, format).map(|r| (Definition::Workflow(r.def), r.places))
        }
        Kind::Supervisor => read_supervisor(&text, format)
            .map(|r| (Definition::Supervisor(Box::new(r.def)), r.places)),
    };
    match read {
        Ok((def, places)) => Ok(Loaded {
            file: file.to_owned(),
            def,
            places,
        }),
        Err(mistakes) => Err(mistakes.into_iter().map(|m| of_file(file, m)).collect()),
    }
}

fn text(file: &Path) -> Result<String, String> {
    let unreadable =
        |error: std::io::Error| format!("the file cannot be read ({error}); check its rights");
    let size = std::fs::metadata(file).map_err(unreadable)?;
    if !size.is_file() {
        return Err("it is not a file; move it away".to_owned());
    }
    if size.len() > MAX_BYTES as u64 {
        return Err(format!(
            "it has {} bytes, and a definition has {MAX_BYTES} at most; split it",
            size.len()
        ));
    }
    let bytes = std::fs::read(file).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8; save it as UTF-8".to_owned())
}

fn whole(file: &Path, message: String) -> FileProblem {
    FileProblem {
        file: file.to_owned(),
        line: 0,
        column: 0,
        path: String::new(),
        message,
    }
}

fn of_file(file: &Path, mistake: Mistake) -> FileProblem {
    let Mistake {
        place: Place { line, column },
        path,
        message,
    } = mistake;
    FileProblem {
        file: file.to_owned(),
        line,
        column,
        path,
        message,
    }
}
