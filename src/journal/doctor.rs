//! Checks and repairs a journal that no host is using.
//!
//! [`check`] works on a copy beside the journal and changes nothing in it: the store rewrites parts of its file when it
//! is opened. [`repair`] deals only with what holds no records, leftovers of interrupted writes and the store's own
//! snapshots of its page table; it tries on a copy first, moves aside instead of deleting, and never drops a record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::dir::{Lock, io_error, make_dir};
use super::{Damage, Error, Journal, Options, SledJournal, Verify, snapshot};

/// Where [`repair`] puts what it takes out of the store, inside the journal's directory.
const ASIDE: &str = "aside";

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// The journal's directory.
    pub dir: PathBuf,
    /// Why the journal does not open, if it does not.
    pub damage: Option<Error>,
    /// What the journal holds, if it opens: everything in it was read and verified.
    pub contents: Option<Contents>,
    /// What was noticed and what was done, one sentence each.
    pub notes: Vec<String>,
}

/// What a verified journal holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The oldest stored record.
    pub first_seq: u64,
    /// The last record, 0 if there is none.
    pub last_seq: u64,
    /// The last audit row, 0 if there is none.
    pub audit_len: u64,
    /// The hash of the last audit row.
    pub audit_head: [u8; 32],
    /// The epoch of cursors.
    pub epoch: u64,
    /// Whether it ended cleanly.
    pub clean: bool,
    /// The committed state snapshots, the newest first: the record, and why the file is not usable if it is not.
    pub snapshots: Vec<(u64, Option<String>)>,
}

/// Verifies everything in a journal, on a copy beside it, and changes nothing.
///
/// # Errors
/// [`Error::Locked`] while a host runs, [`Error::Full`] when there is no room for the copy, [`Error::Io`]. Damage is no
/// error here but part of the report.
pub fn check(dir: &Path) -> Result<Report, Error> {
    let _lock = Lock::borrow(dir)?;
    verify(dir, |_| true)
}

/// Removes leftovers of interrupted writes and, if the journal then still does not open but would without the store's
/// own snapshots, moves those aside; then verifies everything.
///
/// # Errors
/// As [`check`].
pub fn repair(dir: &Path) -> Result<Report, Error> {
    let _lock = Lock::borrow(dir)?;
    let mut done = Vec::new();
    for path in files(dir, is_leftover)? {
        fs::remove_file(&path).map_err(|e| io_error(dir, "removing a leftover", e))?;
        done.push(format!(
            "removed {}, a leftover of an interrupted write",
            path.display()
        ));
    }
    let mut report = verify(dir, |_| true)?;
    let suspects = files(dir, is_store_snapshot)?;
    let unreadable = matches!(
        report.damage,
        Some(Error::Damaged {
            what: Damage::Store(_),
            ..
        })
    );
    if unreadable && !suspects.is_empty() {
        let without = verify(dir, |name| !is_store_snapshot(name))?;
        if without.damage.is_none() {
            done.extend(
                move_aside(dir, &suspects)
                    .map_err(|e| io_error(dir, "moving a damaged file aside", e))?,
            );
            report = verify(dir, |_| true)?;
        }
    }
    if report.damage.is_some() {
        done.push(
            "nothing else can be repaired without dropping records: restore a backup".to_owned(),
        );
    }
    done.append(&mut report.notes);
    report.notes = done;
    Ok(report)
}

fn is_leftover(name: &str) -> bool {
    name.starts_with("snap.") && name.ends_with(".generating")
}

fn is_store_snapshot(name: &str) -> bool {
    name.starts_with("snap.") && !is_leftover(name)
}

/// Returns the files directly in `dir` with such a name.
fn files(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
    let list = || {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(&wanted)
            {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    };
    list().map_err(|e| io_error(dir, "listing the journal directory", e))
}

fn move_aside(dir: &Path, suspects: &[PathBuf]) -> io::Result<Vec<String>> {
    let aside = dir.join(ASIDE);
    make_dir(&aside)?;
    let mut notes = Vec::new();
    for path in suspects {
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = aside.join(name);
        fs::rename(path, &target)?;
        notes.push(format!(
            "moved {} to {}: it was damaged and holds no records",
            path.display(),
            target.display()
        ));
    }
    super::dir::sync_dir(&aside)?;
    super::dir::sync_dir(dir)?;
    Ok(notes)
}

/// Verifies a copy that holds only the wanted of the files directly in `dir`.
fn verify(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Report, Error> {
    let copy = Copy::of(dir, wanted)?;
    let mut notes = Vec::new();
    for path in files(dir, is_leftover)? {
        notes.push(format!(
            "{} is a leftover of an interrupted write: the next start removes it",
            path.display()
        ));
    }
    let options = Options {
        verify: Verify::Full,
        ..Options::default()
    };
    let (damage, contents) = match SledJournal::open(&copy.path, options) {
        Ok(opened) => (None, Some(contents(&copy.path, &opened, &mut notes))),
        Err(Error::Damaged { what, .. }) => (
            Some(Error::Damaged {
                dir: dir.to_owned(),
                what,
            }),
            None,
        ),
        Err(Error::Format { found, known, .. }) => (
            Some(Error::Format {
                dir: dir.to_owned(),
                found,
                known,
            }),
            None,
        ),
        Err(other) => return Err(other),
    };
    Ok(Report {
        dir: dir.to_owned(),
        damage,
        contents,
        notes,
    })
}

fn contents(copy: &Path, opened: &super::Opened<SledJournal>, notes: &mut Vec<String>) -> Contents {
    let reader = opened.journal.reader();
    let committed = opened.journal.committed_snapshots();
    let snapshots: Vec<_> = committed
        .into_iter()
        .map(|one| (one.seq, snapshot::read(copy, one).err()))
        .collect();
    for (seq, _) in snapshots.iter().filter(|(_, reason)| reason.is_some()) {
        notes.push(format!(
            "the state snapshot of record {seq} is not usable: a start uses an older one or replays"
        ));
    }
    Contents {
        first_seq: reader.first_seq(),
        last_seq: reader.last_seq(),
        audit_len: reader.audit_len(),
        audit_head: reader.audit_head(),
        epoch: opened.epoch,
        clean: opened.clean,
        snapshots,
    }
}

/// A copy of a journal's directory, removed when dropped.
struct Copy {
    path: PathBuf,
}

impl Copy {
    fn of(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Self, Error> {
        let fail = |e| io_error(dir, "copying the journal for a check", e);
        let whole = fs::canonicalize(dir).map_err(fail)?;
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        let path = whole.with_file_name(format!(".{name}.check-{}", std::process::id()));
        let copy = Self { path };
        copy.remove().map_err(fail)?;
        copy_dir(&whole, &copy.path, &|name| {
            name != "lock" && name != ASIDE && wanted(name)
        })
        .map_err(fail)?;
        Ok(copy)
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.path.display(), %error, "copy for the check stays, remove it by hand");
        }
    }
}

fn copy_dir(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<()> {
    make_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if !entry.file_name().to_str().is_some_and(wanted) {
            continue;
        }
        if kind.is_dir() {
            copy_dir(&entry.path(), &target, &|_| true)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
