//! The pointer to the host that runs on this machine: where it is, and where its admin key lies. `serve` writes it,
//! and the command line finds the host by it.
//!
//! It lies in a directory that only its owner can read or write, and is not believed otherwise: whoever could write
//! it could have keys sent to a host of their own.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file's name.
const FILE: &str = "host.json";

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pointer {
    /// The address of the operators' surface.
    pub url: String,
    /// The file with the admin key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The host's process.
    pub pid: u32,
}

/// Returns the directory of the pointer: `$XDG_RUNTIME_DIR/signalbox`, else `/tmp/signalbox-<uid>`.
#[must_use]
pub fn dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("signalbox"),
        None => PathBuf::from(format!("/tmp/signalbox-{}", uid())),
    }
}

fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Removes the pointer when it is dropped, if it still points to this host.
#[derive(Debug)]
pub struct Guard {
    dir: PathBuf,
    pointer: Pointer,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(Some(found)) = read_in(&self.dir)
            && found == self.pointer
            && let Err(error) = fs::remove_file(self.dir.join(FILE))
        {
            tracing::debug!(%error, "pointer not removed");
        }
    }
}

/// Writes the pointer; the newest host on the machine is the one that is found.
///
/// # Errors
/// The directory cannot be made, or belongs to somebody else.
pub fn write(url: &str, key_file: Option<&Path>) -> io::Result<Guard> {
    write_in(dir(), url, key_file)
}

/// Reads the pointer; nothing where no host has written one, or where the host's process is gone: somebody else may
/// listen at its address by now.
///
/// # Errors
/// The directory is not to be believed, or the file cannot be read.
pub fn read() -> io::Result<Option<Pointer>> {
    Ok(read_in(&dir())?.filter(|pointer| is_alive(pointer.pid)))
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    // A process that is not ours to signal is there all the same.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn write_in(dir: PathBuf, url: &str, key_file: Option<&Path>) -> io::Result<Guard> {
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => own(&dir)?,
    }
    let key_file = key_file.map(std::path::absolute).transpose()?;
    let pointer = Pointer {
        url: url.to_owned(),
        key_file,
        pid: std::process::id(),
    };
    let new = dir.join(format!("{FILE}.{}", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(&serde_json::to_vec(&pointer).map_err(io::Error::other)?)?;
    fs::rename(&new, dir.join(FILE))?;
    Ok(Guard { dir, pointer })
}

fn read_in(dir: &Path) -> io::Result<Option<Pointer>> {
    match own(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        owned => owned?,
    }
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that a directory is ours alone.
fn own(dir: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(dir)?;
    if meta.is_dir() && meta.uid() == uid() && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let message = format!(
        "{} is not a directory of this user alone; remove it",
        dir.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_newest_host_is_found_until_it_goes() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("signalbox");
        assert_eq!(read_in(&dir).expect("reads"), None);
        let first = write_in(dir.clone(), "http://127.0.0.1:1", None).expect("writes");
        let second = write_in(
            dir.clone(),
            "http://127.0.0.1:2",
            Some(Path::new("/data/admin.key")),
        )
        .expect("writes");
        drop(first);
        let found = read_in(&dir).expect("reads").expect("is there");
        assert_eq!(
            (found.url.as_str(), found.key_file),
            ("http://127.0.0.1:2", Some("/data/admin.key".into()))
        );
        drop(second);
        assert_eq!(read_in(&dir).expect("reads"), None);
    }

    #[test]
    fn a_host_whose_process_is_gone_is_not_found() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        let pid = child.id();
        child.wait().expect("ends");
        assert!(!is_alive(pid));
        assert!(!is_alive(0));
        assert!(!is_alive(u32::MAX));
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_believed() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("signalbox");
        let _guard = write_in(dir.clone(), "http://127.0.0.1:1", None).expect("writes");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("changes");
        assert_eq!(
            read_in(&dir).expect_err("refused").kind(),
            io::ErrorKind::PermissionDenied
        );
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("changes");
        let link = tmp.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).expect("links");
        assert!(read_in(&link).is_err());
    }
}
