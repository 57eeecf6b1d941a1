//! State snapshots: plain files beside the store, `state/<seq>.snap`.
//!
//! A file holds the state's bytes and the replay index. It is written by another thread than the appender's, whole or
//! not at all; then its number and digest are committed to the journal. Recovery uses only what is committed and
//! matches its digest.
//!
//! ```text
//! magic "SN", version, zero, record u64, state length u64, index length u64, state, index
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;
use super::dir::{io_error, write_whole};
use super::frame::{Cut, Hash, digest};
use super::index::Index;

const MAGIC: [u8; 4] = [b'S', b'N', 1, 0];

/// A state snapshot whose file is written, to be committed with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRef {
    /// The last record that the state holds.
    pub seq: u64,
    /// SHA-256 of the file.
    pub digest: [u8; 32],
}

/// Writes state snapshots, on any thread.
pub trait SnapshotWriter: Send + Sync {
    /// Writes the state as of record `seq` and returns what to put into a batch. Nothing uses it before that.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] when the journal does not go that far, [`Error::Full`], or [`Error::Io`]; the journal stays
    /// writable.
    fn write(&self, seq: u64, state: &[u8]) -> Result<SnapshotRef, Error>;
}

/// Where snapshots are.
pub(super) fn folder(dir: &Path) -> PathBuf {
    dir.join("state")
}

fn path(dir: &Path, seq: u64) -> PathBuf {
    folder(dir).join(format!("{seq:020}.snap"))
}

/// Writes the file of a snapshot.
pub(super) fn write(
    dir: &Path,
    seq: u64,
    state: &[u8],
    index: &Index,
) -> Result<SnapshotRef, Error> {
    let index = index.encode();
    let mut head = Vec::with_capacity(28);
    head.extend_from_slice(&MAGIC);
    for number in [seq, state.len() as u64, index.len() as u64] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    let mut whole = sha2::Sha256::default();
    for part in [&head, state, &index] {
        sha2::Digest::update(&mut whole, part);
    }
    write_whole(&path(dir, seq), &[&head, state, &index])
        .map_err(|e| io_error(dir, "writing a state snapshot", e))?;
    Ok(SnapshotRef {
        seq,
        digest: sha2::Digest::finalize(whole).into(),
    })
}

/// Reads a committed snapshot; the error says why it is not usable.
pub(super) fn read(dir: &Path, wanted: SnapshotRef) -> Result<(Vec<u8>, Index), String> {
    let path = path(dir, wanted.seq);
    let mut bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let found: Hash = digest(&bytes);
    if found != wanted.digest {
        return Err(format!(
            "{}: its digest is not the committed one",
            path.display()
        ));
    }
    let (start, length, index) =
        parts(&bytes, wanted.seq).ok_or_else(|| format!("{}: it is not whole", path.display()))?;
    bytes.truncate(start + length);
    bytes.drain(..start);
    Ok((bytes, index))
}

/// Returns where the state begins, its length, and the index.
pub(super) fn parts(bytes: &[u8], seq: u64) -> Option<(usize, usize, Index)> {
    let mut cut = Cut(bytes);
    if cut.array::<4>()? != MAGIC || cut.u64()? != seq {
        return None;
    }
    let state = usize::try_from(cut.u64()?).ok()?;
    let index = usize::try_from(cut.u64()?).ok()?;
    let start = bytes.len() - cut.0.len();
    cut.take(state)?;
    if cut.0.len() != index {
        return None;
    }
    Some((start, state, Index::decode(cut.0)?))
}

/// Deletes the files of snapshots that are older than `oldest`, and what an interrupted write left.
pub(super) fn clean(dir: &Path, oldest: u64) {
    let Ok(entries) = fs::read_dir(folder(dir)) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let seq = name
            .strip_suffix(".snap")
            .and_then(|number| number.parse::<u64>().ok());
        if seq.is_some_and(|seq| seq < oldest)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "old state snapshot stays, it only takes room");
        }
    }
}
