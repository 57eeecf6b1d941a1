//! Where things lie below the data directory, and which names may become a path.
//!
//! ```text
//! runs/<execution>/<node>/<attempt>/   one attempt, mode 0700
//!     lock     who the shim is; locked (flock) for as long as the shim lives
//!     spec     what is run: program, directory, names of the variables (never their values)
//!     ctl      FIFO on which the host asks for signals
//!     pid      the process that was started; absent until then
//!     exit     how it ended; absent until then
//!     stdout.log, stderr.log and their tails, logstat
//!     shim.log what the shim could not do; absent when all went well
//! live/<execution>~<node>~<attempt>    empty; the host's list of directories to look at after a restart
//! boot                                 in which boot of the machine the last recovery was
//! work/<execution>/                    the working directory that the nodes of an execution share
//! ```
//! An attempt's directory appears at once with lock, spec and ctl in it, by a rename that only one shim
//! can win: a directory without a held lock is therefore always one whose shim is gone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::host::runtime::AttemptId;

/// Names the lock file of an attempt.
pub(super) const LOCK: &str = "lock";
/// Names the description of what an attempt runs.
pub(super) const SPEC: &str = "spec";
/// Names the FIFO on which signals are asked for.
pub(super) const CTL: &str = "ctl";
/// Names the file that tells the started process.
pub(super) const PID: &str = "pid";
/// Names the file that tells the end.
pub(super) const EXIT: &str = "exit";
/// Names the file that becomes `exit`; it is there from the start, so that a full disk cannot hide an end.
pub(super) const EXIT_TMP: &str = "exit.tmp";
/// Names the file with the shim's own troubles.
pub(super) const TROUBLES: &str = "shim.log";

/// The separator of the names below `live/`; the id pattern does not allow it.
const LIVE_SEPARATOR: char = '~';

/// Tells whether a name matches `[A-Za-z0-9][A-Za-z0-9._-]{0,63}` (contract C2).
/// Such a name is never `.` or `..` and holds no slash, so it is safe as a part of a path.
pub(super) fn is_id(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= 64
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Says what is wrong with an attempt's name, if anything is.
pub(super) fn check_id(id: &AttemptId) -> Result<(), String> {
    for (what, name) in [("execution", &id.execution), ("node", &id.node)] {
        if !is_id(name) {
            return Err(format!(
                "the {what} id {name:?} does not match [A-Za-z0-9][A-Za-z0-9._-]{{0,63}}: rename it"
            ));
        }
    }
    if id.attempt == 0 {
        return Err("attempt numbers begin at 1".to_owned());
    }
    Ok(())
}

/// The paths below one data directory. Names must have been checked with [`check_id`].
#[derive(Debug, Clone)]
pub(super) struct Layout {
    data_dir: PathBuf,
}

impl Layout {
    /// Describes the data directory at this path.
    pub(super) fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
        }
    }

    /// The directory of an attempt.
    pub(super) fn attempt(&self, id: &AttemptId) -> PathBuf {
        let mut path = self.data_dir.join("runs");
        path.push(&id.execution);
        path.push(&id.node);
        path.push(id.attempt.to_string());
        path
    }

    /// The working directory that the nodes of an execution share.
    pub(super) fn work(&self, execution: &str) -> PathBuf {
        self.data_dir.join("work").join(execution)
    }

    /// The directory that lists attempts whose end was not reported yet.
    pub(super) fn live_dir(&self) -> PathBuf {
        self.data_dir.join("live")
    }

    /// The file that tells in which boot of the machine the last recovery was.
    pub(super) fn boot(&self) -> PathBuf {
        self.data_dir.join("boot")
    }

    /// The entry of an attempt in that list.
    pub(super) fn live(&self, id: &AttemptId) -> PathBuf {
        let s = LIVE_SEPARATOR;
        self.live_dir()
            .join(format!("{}{s}{}{s}{}", id.execution, id.node, id.attempt))
    }
}

/// Reads the name of a live entry back; `None` for a name that no host has written.
pub(super) fn parse_live(name: &str) -> Option<AttemptId> {
    let mut parts = name.split(LIVE_SEPARATOR);
    let id = AttemptId {
        execution: parts.next()?.to_owned(),
        node: parts.next()?.to_owned(),
        attempt: parts.next()?.parse().ok()?,
    };
    (parts.next().is_none() && check_id(&id).is_ok()).then_some(id)
}

/// The directory in which a shim prepares an attempt before it claims it. Never an attempt's own name.
pub(super) fn staging(attempt_dir: &Path, pid: u32) -> Option<PathBuf> {
    let name = attempt_dir.file_name()?.to_str()?;
    Some(attempt_dir.with_file_name(format!(".{name}.{pid}")))
}

/// Makes a directory and its parents, for the owner only.
pub(super) fn make_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file for the owner only, or empties it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Replaces a small file, durably.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temp = path.with_extension("tmp");
    let mut file = create(&temp)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temp, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a file; that it is not there is fine.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_contract_become_paths() {
        for good in ["x1", "build.compile", "a", "A-b_c.9", &"a".repeat(64)] {
            assert!(is_id(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "../x",
            "a~b",
            "ä",
            "a b",
            "a\0",
            &"a".repeat(65),
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn live_entries_read_back() {
        let id = AttemptId {
            execution: "x1".into(),
            node: "build.compile".into(),
            attempt: 3,
        };
        let path = Layout::new(Path::new("/d")).live(&id);
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        assert_eq!(parse_live(name), Some(id));
        for foreign in ["x1", "x1~a", "x1~a~0", "x1~a~1~2", "..~a~1", "x1~a~b"] {
            assert_eq!(parse_live(foreign), None, "{foreign}");
        }
    }
}
