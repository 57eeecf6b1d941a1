//! Definitions as people write them: YAML or JSON to the types of [`crate::contract::definition`].
//!
//! Invariants:
//! - Every mistake of a text is named at once where that is possible, each with line, column and field.
//! - A scalar that stands where a text is wanted stays as it was written: `on`, `no`, `0123`, `1.10` and
//!   `2026-01-01` are texts. Types are those of the YAML 1.2 core schema; JSON gives the same result.
//! - A key that is given twice, a key that nobody knows and a value that is empty are mistakes, never ignored:
//!   an ignored guard would be dangerous.
//! - A text cannot cost more than its size: 1 MiB, 64 levels, and few aliases.
//! - A directory loads whole or not at all.
//!
//! Absent on purpose: merge keys (`<<`), tags of one's own, several documents in a file, and includes. What
//! needs more than one definition (ownership) is checked by the core at save; [`Places`] finds the line for it.

mod dir;
mod field;
mod tree;

use std::fmt;

use serde::de::DeserializeOwned;

use crate::contract::definition::{Problem, SupervisorDef, WorkflowDef};

pub use dir::{Definition, FileProblem, Loaded, Problems, load_dir};
use tree::Node;

/// The largest text of a definition, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The deepest nesting of a definition.
pub const MAX_DEPTH: usize = 64;

/// How many mistakes of one text are named at most.
pub const MAX_MISTAKES: usize = 50;

/// How a definition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// YAML 1.2, core schema.
    Yaml,
    /// JSON.
    Json,
}

/// A place in a text; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Place {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// The path of the field, for instance `nodes.build.needs[0]`; empty for the text as a whole.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            path,
            message,
        } = self;
        write!(f, "{}:{}: ", place.line, place.column)?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)
    }
}

/// A definition with the places of its fields.
#[derive(Debug)]
pub struct Read<T> {
    /// The definition; nothing is wrong with it by itself.
    pub def: T,
    /// Where its fields are.
    pub places: Places,
}

/// Where the fields of a text are.
#[derive(Debug)]
pub struct Places(Node);

impl Places {
    /// Finds the place of a field by its path, or of the nearest field above it that is there.
    #[must_use]
    pub fn find(&self, path: &str) -> Place {
        self.0.find(path)
    }
}

/// Reads a workflow.
///
/// # Errors
/// Everything that is wrong with the text, in the order of its lines.
pub fn read_workflow(text: &str, format: Format) -> Result<Read<WorkflowDef>, Vec<Mistake>> {
    read(text, format, WorkflowDef::problems)
}

/// Reads a supervisor.
///
/// # Errors
/// Everything that is wrong with the text, in the order of its lines.
pub fn read_supervisor(text: &str, format: Format) -> Result<Read<SupervisorDef>, Vec<Mistake>> {
    read(text, format, SupervisorDef::problems)
}

fn read<T: DeserializeOwned>(
    text: &str,
    format: Format,
    check: impl FnOnce(&T) -> Vec<Problem>,
) -> Result<Read<T>, Vec<Mistake>> {
    let (mut tree, mut mistakes) = tree::parse(text, format)?;
    let def: Option<T> = field::fill(&mut tree, &mut mistakes);
    // What is wrong with the whole can only be told when every part could be read.
    if let Some(def) = def.as_ref().filter(|_| mistakes.is_empty()) {
        mistakes.extend(
            check(def)
                .into_iter()
                .map(|Problem { path, message }| Mistake {
                    place: tree.find(&path),
                    path,
                    message,
                }),
        );
    }
    mistakes.sort_by_key(|m| m.place);
    match def {
        Some(def) if mistakes.is_empty() => Ok(Read {
            def,
            places: Places(tree),
        }),
        _ => Err(mistakes),
    }
}

#[cfg(test)]
mod tests;
