//! The claim on an attempt's directory, and the files that the shim keeps in it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::super::files::{self, ExitFile, LockFile, PidFile, PublicSpec, Spec, VERSION};
use super::super::layout;
use super::super::logs::{BoundedLog, StatFile, Stream};
use super::super::process::{self, Mark};

/// The space that `exit` is sure to have, in bytes; a longer reason needs a disk that is not full.
const EXIT_RESERVE: usize = 512;

/// Everything that a shim has in an attempt's directory. The lock lasts as long as this.
pub(super) struct Claim {
    /// Where the files are now: the staging directory, then the attempt's.
    dir: PathBuf,
    attempt_dir: PathBuf,
    /// Held, never read: the lock ends with it.
    _lock: File,
    exit: File,
    /// The host's requests for signals; open for reading and writing, so that it never ends.
    pub(super) ctl: OwnedFd,
    pub(super) stdout: BoundedLog,
    pub(super) stderr: BoundedLog,
    stat: StatFile,
}

impl Claim {
    /// Prepares the directory under another name, with the lock held already.
    pub(super) fn stage(attempt_dir: &Path, spec: &Spec) -> io::Result<Self> {
        let pid = std::process::id();
        let dir = layout::staging(attempt_dir, pid).ok_or(io::ErrorKind::InvalidInput)?;
        if let Some(parent) = dir.parent() {
            layout::make_dirs(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(&dir) {
            // Left by a shim with the same number that was killed before its claim.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir_all(&dir)?;
                DirBuilder::new().mode(0o700).create(&dir)?;
            }
            other => other?,
        }
        Self::fill(&dir, attempt_dir, spec).inspect_err(|_| {
            // The error says what matters; a leftover is under a name that nobody reads.
            let _ = fs::remove_dir_all(&dir);
        })
    }

    fn fill(dir: &Path, attempt_dir: &Path, spec: &Spec) -> io::Result<Self> {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let mut lock = layout::create(&dir.join(layout::LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        lock.write_all(&files::line(&LockFile {
            v: VERSION,
            shim: process::stat(me)?.mark,
            boot: crate::clock::boot_id()?,
        })?)?;
        layout::create(&dir.join(layout::SPEC))?.write_all(&files::line(&PublicSpec {
            v: VERSION,
            argv: &spec.argv,
            cwd: &spec.cwd,
            env_names: spec.env.keys().map(String::as_str).collect(),
        })?)?;
        let ctl = dir.join(layout::CTL);
        rustix::fs::mkfifoat(rustix::fs::CWD, &ctl, Mode::RUSR | Mode::WUSR)?;
        let exit = layout::create(&dir.join(layout::EXIT_TMP))?;
        exit.write_all_at(&[b' '; EXIT_RESERVE], 0)?;
        Ok(Self {
            dir: dir.to_owned(),
            attempt_dir: attempt_dir.to_owned(),
            _lock: lock,
            exit,
            ctl: rustix::fs::open(
                &ctl,
                OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )?,
            stdout: BoundedLog::create(dir, Stream::Stdout, spec.max_log_bytes)?,
            stderr: BoundedLog::create(dir, Stream::Stderr, spec.max_log_bytes)?,
            stat: StatFile::create(dir)?,
        })
    }

    /// Claims the attempt. A directory cannot be renamed onto one that is not empty, and an attempt's
    /// directory is never empty: exactly one shim succeeds, and no other sees a half-made one. `None`:
    /// another shim was first.
    pub(super) fn take(mut self) -> io::Result<Option<Self>> {
        match fs::rename(&self.dir, &self.attempt_dir) {
            Ok(()) => {
                self.dir.clone_from(&self.attempt_dir);
                self.stdout.moved_to(&self.dir);
                self.stderr.moved_to(&self.dir);
                Ok(Some(self))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                fs::remove_dir_all(&self.dir)?;
                Ok(None)
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&self.dir);
                Err(error)
            }
        }
    }

    /// Records the started process. Without the record the attempt goes on; only the search for remains
    /// after the shim's own death has less to go by.
    pub(super) fn record_child(&self, child: Mark) {
        let record = PidFile {
            v: VERSION,
            child,
            wall_ms: crate::clock::wall_ms(),
        };
        let written = files::line(&record)
            .and_then(|line| layout::create(&self.dir.join(layout::PID))?.write_all(&line));
        if let Err(error) = written {
            self.note("the process could not be recorded", &error);
        }
    }

    /// Writes the logs' counts.
    pub(super) fn record_counts(&self) {
        if let Err(error) = self.stat.write(self.stdout.count(), self.stderr.count()) {
            self.note("the logs' counts could not be written", &error);
        }
    }

    /// Writes the end so that it is complete and on the disk, or not there at all. One sync is enough: with
    /// the file's content its name in a new directory gets to the disk, and a complete `exit.tmp` counts as
    /// `exit` where the rename was lost.
    pub(super) fn finish(self, exit: &ExitFile) -> io::Result<()> {
        self.record_counts();
        let line = files::line(exit)?;
        self.exit.write_all_at(&line, 0)?;
        self.exit.set_len(line.len() as u64)?;
        self.exit.sync_all()?;
        fs::rename(self.dir.join(layout::EXIT_TMP), self.dir.join(layout::EXIT))
    }

    /// Leaves a line about something that went wrong.
    pub(super) fn note(&self, what: &str, error: &io::Error) {
        super::note(&self.dir, what, error);
    }
}
