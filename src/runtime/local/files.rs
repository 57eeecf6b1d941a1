//! What shim and host tell each other: the small files of an attempt, the spec and the shim's first words.
//!
//! Every stored form carries a version `v`; fields are only ever added. A host may be newer than a shim
//! that it takes up, and the other way round.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::Mark;

/// The version of everything written here.
pub(super) const VERSION: u32 = 1;

/// What the host hands to a shim on its standard input: never in arguments, environment or on the disk,
/// since the values of variables may be secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) v: u32,
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// The whole environment.
    pub(super) env: BTreeMap<String, String>,
    /// The working directory, absolute.
    pub(super) cwd: PathBuf,
    /// Make the working directory if it is not there.
    pub(super) make_cwd: bool,
    /// How much of each stream is kept, in bytes.
    pub(super) max_log_bytes: u64,
}

/// The part of a spec that may lie on the disk.
#[derive(Serialize)]
pub(super) struct PublicSpec<'a> {
    pub(super) v: u32,
    pub(super) argv: &'a [String],
    pub(super) cwd: &'a Path,
    pub(super) env_names: Vec<&'a str>,
}

/// The first and only words of a shim to the host that started it, one line on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hello {
    /// The process runs.
    Started,
    /// The attempt was claimed, but its process could not be started; `exit` says why.
    NotStarted,
    /// Another shim has claimed the attempt.
    Taken,
    /// The attempt could not be claimed, for this reason.
    Failed(String),
}

/// The content of `lock`: who the shim is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LockFile {
    pub(super) v: u32,
    pub(super) shim: Mark,
    /// The boot of the machine in which these numbers mean something.
    pub(super) boot: String,
}

/// The content of `pid`: the started process, which leads a process group of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PidFile {
    pub(super) v: u32,
    pub(super) child: Mark,
    /// Wall time of the start in milliseconds, for display.
    pub(super) wall_ms: u64,
}

/// The content of `exit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExitFile {
    pub(super) v: u32,
    pub(super) end: Ending,
    /// Wall time of the end in milliseconds, for display.
    pub(super) wall_ms: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// The process returned a code.
    Code(i32),
    /// A signal ended the process.
    Signal(i32),
    /// The process could not be started.
    NotStarted(String),
}

/// Reads one of the files; `None` when it is not there.
///
/// # Errors
/// The file cannot be read, or is not what a shim writes (`InvalidData`).
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Prints a value as one line.
pub(super) fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}
