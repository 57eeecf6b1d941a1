//! The journal's directory: modes, its lock, its filesystem, and files that are whole or absent.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::Error;

/// How long an open waits for a lock that is about to be released; the store lets go of it a little after it is dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Filesystems on which locks or syncs cannot be trusted, by the magic number of `statfs`.
const NETWORK: [(u32, &str); 14] = [
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x7375_7245, "Coda"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x0102_1997, "9P"),
    (0x0000_564C, "NCP"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x786F_4256, "vboxsf"),
    (0x1983_0326, "BeeGFS"),
];

/// Makes an error of a filesystem step.
pub(super) fn io_error(dir: &Path, what: &str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full {
            dir: dir.to_owned(),
        },
        _ => Error::Io {
            what: format!("{what} ({})", dir.display()),
            source,
        },
    }
}

/// Makes the directory if it is missing, gives it mode 0700, and refuses network filesystems.
pub(super) fn prepare(dir: &Path) -> Result<(), Error> {
    let fail = |what: &'static str| move |e| io_error(dir, what, e);
    let fresh = !dir.exists();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(fail("creating the journal directory"))?;
    if fresh && let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_dir(parent).map_err(fail("syncing the directory above the journal"))?;
    }
    let stat = rustix::fs::statfs(dir)
        .map_err(|e| io_error(dir, "asking for the filesystem", e.into()))?;
    // The kernel's number has 32 bits; the type around it differs from machine to machine.
    let magic = u32::try_from(i128::from(stat.f_type) & 0xFFFF_FFFF).unwrap_or_default();
    if let Some(kind) = network(magic) {
        return Err(Error::NetworkFilesystem {
            dir: dir.to_owned(),
            kind,
        });
    }
    let mode = fs::metadata(dir)
        .map_err(fail("reading the mode of the journal directory"))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        tracing::warn!(dir = %dir.display(), mode = format!("{:o}", mode & 0o777), "journal directory was open to others, closing it");
        fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(fail("closing the journal directory to others"))?;
    }
    Ok(())
}

/// Returns the name of a network filesystem by its magic number.
fn network(magic: u32) -> Option<&'static str> {
    NETWORK
        .iter()
        .find(|(number, _)| *number == magic)
        .map(|(_, kind)| *kind)
}

/// Gives every file under `dir` mode 0600 and every directory 0700; the embedded store makes its own with other modes.
pub(super) fn close_modes(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = match entry.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
        if !meta.is_symlink() && meta.permissions().mode() & 0o777 != wanted {
            fs::set_permissions(entry.path(), Permissions::from_mode(wanted))?;
        }
        if meta.is_dir() {
            close_modes(&entry.path())?;
        }
    }
    Ok(())
}

/// The lock on a journal's directory; released when dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock on the directory, waiting up to 2 s, then waits for the store's own lock to be free.
    pub(super) fn take(dir: &Path) -> Result<Self, Error> {
        let file =
            open_rw(&dir.join("lock")).map_err(|e| io_error(dir, "opening the lock file", e))?;
        let lock = Self::hold(dir, file)?;
        let note = format!("process {}\n", std::process::id());
        let write = || {
            lock.file.set_len(0)?;
            lock.file.write_all_at(note.as_bytes(), 0)
        };
        write().map_err(|e| io_error(dir, "writing the lock file", e))?;
        Ok(lock)
    }

    /// Takes the lock on a directory without leaving a note, so that nothing in it changes.
    pub(super) fn borrow(dir: &Path) -> Result<Self, Error> {
        // A journal that no host has opened yet has no lock file; the directory itself can be locked as well.
        let file = File::open(dir.join("lock")).or_else(|_| File::open(dir));
        Self::hold(
            dir,
            file.map_err(|e| io_error(dir, "opening the lock file", e))?,
        )
    }

    fn hold(dir: &Path, file: File) -> Result<Self, Error> {
        wait_for(dir, &file, || holder(&file))?;
        let db = dir.join("db");
        if db.exists() {
            // The store locks this file and reports a held lock as an unnamed error, so it is asked for here first.
            let probe =
                File::open(&db).map_err(|e| io_error(dir, "opening the store's file", e))?;
            wait_for(dir, &probe, || {
                "a process that opened its store directly".to_owned()
            })?;
        }
        Ok(Self { file })
    }
}

fn holder(file: &File) -> String {
    let mut note = String::new();
    match file.take(64).read_to_string(&mut note) {
        Ok(_) if !note.trim().is_empty() => note.trim().to_owned(),
        _ => "an unknown process".to_owned(),
    }
}

/// Locks `file`, trying again for 2 s while somebody else holds it.
fn wait_for(dir: &Path, file: &File, by: impl Fn() -> String) -> Result<(), Error> {
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => {
                if waited >= PATIENCE {
                    return Err(Error::Locked {
                        dir: dir.to_owned(),
                        by: by(),
                    });
                }
                std::thread::sleep(step);
                waited += step;
            }
            Err(e) => return Err(io_error(dir, "locking the journal directory", e.into())),
        }
    }
}

/// Opens a file for reading and writing, making it with mode 0600 if it is missing.
pub(super) fn open_rw(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Writes a file so that it is there whole or not at all, even after a power loss.
pub(super) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temp = path.with_extension("part");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temp)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()?;
    fs::rename(&temp, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Syncs a directory, so that names made in it survive a power loss.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes a directory with mode 0700 if it is missing.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_filesystems_are_known_and_local_ones_pass() {
        assert_eq!(network(0x6969), Some("NFS"));
        assert_eq!(network(0xFE53_4D42), Some("SMB2"));
        for (local, magic) in [
            ("ext4", 0xEF53),
            ("xfs", 0x5846_5342),
            ("btrfs", 0x9123_683E),
            ("tmpfs", 0x0102_1994),
        ] {
            assert_eq!(network(magic), None, "{local}");
        }
    }

    #[test]
    fn a_directory_that_others_can_read_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        prepare(dir.path()).unwrap();
        assert_eq!(
            fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
}
