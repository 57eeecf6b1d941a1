//! The embedded store: keys, values, and every call into it.
//!
//! One tree, one batch a commit. Keys: `e/<first record be64>` and `a/<first row be64>` for frames, with
//! `<part be16>` behind the number for what a frame has beyond 16 KiB (no value is ever so long that the store would put
//! it into a file of its own, which it does not sync); `m/format`, `m/epoch`, `m/trim`, `m/snapshot`,
//! `m/floor/<supervisor be32>`.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::guard::quiet;
use crate::journal::dir::io_error;
use crate::journal::frame::{Class, Cut, Encoded, FRAME, Frame, Hash, length};
use crate::journal::{Damage, Error, SnapshotRef};

/// The stored format that this version writes, and the newest that it reads.
pub(super) const FORMAT: u64 = 1;

/// The store's write buffer and file unit. Its leaves hold up to 17 values and go into a file of their own past a
/// quarter of this, so it has to be well above 4 × 17 × 16 KiB. It cannot change once a store exists.
const SEGMENT: usize = 2 << 20;

pub(super) const KEY_FORMAT: &[u8] = b"m/format";
pub(super) const KEY_EPOCH: &[u8] = b"m/epoch";
pub(super) const KEY_TRIM: &[u8] = b"m/trim";
pub(super) const KEY_SNAPSHOT: &[u8] = b"m/snapshot";
pub(super) const PREFIX_FLOOR: &[u8] = b"m/floor/";

/// The open store.
#[derive(Debug)]
pub(in crate::journal) struct Store {
    pub(super) dir: PathBuf,
    /// `None` once closed, so that readers that live on do not keep the store's lock.
    db: RwLock<Option<sled::Db>>,
    /// For a real sync: the store's own flush only starts the write-back of its pages.
    file: File,
}

/// The bytes of a frame.
pub(super) enum Stored {
    Whole(sled::IVec),
    Joined(Vec<u8>),
}

impl Deref for Stored {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

impl Store {
    /// Opens the store in `dir`; the caller holds the directory's lock.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .segment_size(SEGMENT)
            .flush_every_ms(None);
        let db = match quiet(|| config.open()) {
            Ok(Ok(db)) => db,
            Ok(Err(error)) => return Err(classify(dir, "opening the store", error)),
            Err(panic) => return Err(unreadable(dir, panic)),
        };
        let file =
            File::open(dir.join("db")).map_err(|e| io_error(dir, "opening the store's file", e))?;
        Ok(Self {
            dir: dir.to_owned(),
            db: RwLock::new(Some(db)),
            file,
        })
    }

    /// Ends all access; the store's lock is free when this returns, unless a read is just running.
    pub(super) fn close(&self) {
        let db = self
            .db
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Err(panic) = quiet(|| drop(db)) {
            tracing::warn!(
                panic,
                "store did not close cleanly, what was committed is safe"
            );
        }
    }

    /// Calls the store; its errors and panics come back named.
    fn with<T>(
        &self,
        what: &str,
        call: impl FnOnce(&sled::Db) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let guard: RwLockReadGuard<'_, Option<sled::Db>> =
            self.db.read().unwrap_or_else(PoisonError::into_inner);
        let Some(db) = guard.as_ref() else {
            return Err(Error::Closed);
        };
        match quiet(|| call(db)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Fault::Store(error))) => Err(classify(&self.dir, what, error)),
            Ok(Err(Fault::Ours(error))) => Err(error),
            Err(panic) => Err(unreadable(&self.dir, panic)),
        }
    }

    /// Applies a batch as one step that a crash keeps whole or not at all.
    pub(super) fn apply(&self, batch: sled::Batch) -> Result<(), Error> {
        self.with("writing to the store", |db| Ok(db.apply_batch(batch)?))
    }

    /// Hands everything applied to the operating system, and starts to write it.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.with("flushing the store", |db| {
            db.flush()?;
            Ok(())
        })
    }

    /// Waits until everything flushed is on the disk.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_data()
            .map_err(|e| io_error(&self.dir, "syncing the store", e))
    }

    /// Returns a small value.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, Error> {
        self.with("reading the store", |db| Ok(db.get(key)?))
    }

    /// Returns a small value that is one number.
    pub(super) fn number(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        let number: Option<[u8; 8]> = value.as_ref().try_into().ok();
        number
            .map(|bytes| Some(u64::from_le_bytes(bytes)))
            .ok_or_else(|| self.bad_meta(key))
    }

    /// Returns where the stored records begin and the chain before them, if something was trimmed.
    pub(super) fn trim(&self) -> Result<Option<(u64, Hash)>, Error> {
        let Some(value) = self.get(KEY_TRIM)? else {
            return Ok(None);
        };
        decode_trim(&value)
            .map(Some)
            .ok_or_else(|| self.bad_meta(KEY_TRIM))
    }

    /// Returns the committed snapshots, the newest first.
    pub(super) fn snapshots(&self) -> Result<Vec<SnapshotRef>, Error> {
        let Some(value) = self.get(KEY_SNAPSHOT)? else {
            return Ok(Vec::new());
        };
        decode_snapshots(&value).ok_or_else(|| self.bad_meta(KEY_SNAPSHOT))
    }

    /// Returns every supervisor's floor.
    pub(super) fn floors(&self) -> Result<Vec<(u32, u64)>, Error> {
        self.with("reading the store", |db| {
            let mut floors = Vec::new();
            for pair in db.scan_prefix(PREFIX_FLOOR) {
                let (key, value) = pair?;
                let supervisor = key
                    .strip_prefix(PREFIX_FLOOR)
                    .and_then(|rest| rest.try_into().ok());
                let floor = value.as_ref().try_into().ok();
                let (Some(supervisor), Some(floor)) = (supervisor, floor) else {
                    return Err(Fault::Ours(self.bad_meta(&key)));
                };
                floors.push((u32::from_be_bytes(supervisor), u64::from_le_bytes(floor)));
            }
            Ok(floors)
        })
    }

    /// Says whether the store holds no key at all.
    pub(super) fn is_empty(&self) -> Result<bool, Error> {
        self.with("reading the store", |db| Ok(db.first()?.is_none()))
    }

    /// Returns the frame that begins with a number.
    pub(super) fn frame(&self, class: Class, first: u64) -> Result<Option<Stored>, Error> {
        self.with("reading the store", |db| {
            let Some(start) = db.get(key(class, first))? else {
                return Ok(None);
            };
            self.join(class, first, start, |part| {
                Ok(db.get(part_key(class, first, part))?)
            })
            .map(Some)
        })
    }

    /// Returns the first number of the frame that holds a number, if it is stored.
    pub(super) fn frame_of(&self, class: Class, number: u64) -> Result<Option<u64>, Error> {
        self.with("reading the store", |db| {
            // The parts of a frame sort behind its key and before the next frame.
            let up_to = part_key(class, number, u16::MAX);
            match db
                .range(key(class, 0).as_slice()..=up_to.as_slice())
                .next_back()
            {
                Some(pair) => Ok(first_of(&pair?.0)),
                None => Ok(None),
            }
        })
    }

    /// Visits the frames of a class from the one that begins with `from` (or the next), until `visit` returns false.
    pub(super) fn walk(
        &self,
        class: Class,
        from: u64,
        mut visit: impl FnMut(u64, Frame<'_>, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.with("reading the store", |db| {
            let (low, high) = (key(class, from), part_key(class, u64::MAX, u16::MAX));
            let mut range = db.range(low.as_slice()..=high.as_slice());
            while let Some(pair) = range.next() {
                let (at, start) = pair?;
                let first = first_of(&at).filter(|_| at.len() == 10).ok_or_else(|| {
                    Fault::Ours(self.damaged(Damage::Meta(
                        String::from_utf8_lossy(&at).escape_debug().to_string(),
                    )))
                })?;
                let bytes = self.join(class, first, start, |_| {
                    Ok(range.next().transpose()?.map(|(_, value)| value))
                })?;
                let frame = self.parse(class, first, &bytes).map_err(Fault::Ours)?;
                if !visit(first, frame, &bytes).map_err(Fault::Ours)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Parses the frame that is stored under a number.
    pub(super) fn parse<'a>(
        &self,
        class: Class,
        first: u64,
        bytes: &'a [u8],
    ) -> Result<Frame<'a>, Error> {
        let frame = Frame::parse(bytes, class).map_err(|why| self.bad_frame(class, first, why))?;
        if frame.first == first {
            Ok(frame)
        } else {
            Err(self.bad_frame(class, first, "it is stored in the wrong place"))
        }
    }

    /// Puts a frame together from its start and its further parts.
    fn join(
        &self,
        class: Class,
        first: u64,
        start: sled::IVec,
        mut next: impl FnMut(u16) -> Result<Option<sled::IVec>, Fault>,
    ) -> Result<Stored, Fault> {
        let Some(whole) = length(&start) else {
            return Ok(Stored::Whole(start));
        };
        if whole <= start.len() {
            return Ok(Stored::Whole(start));
        }
        let mut bytes = start.to_vec();
        let mut part = 1;
        while bytes.len() < whole {
            match next(part)? {
                Some(more) if !more.is_empty() => bytes.extend_from_slice(&more),
                _ => {
                    return Err(Fault::Ours(self.bad_frame(
                        class,
                        first,
                        "a part of it is missing",
                    )));
                }
            }
            part += 1;
        }
        Ok(Stored::Joined(bytes))
    }

    /// Makes the error of a frame that cannot be used.
    pub(super) fn bad_frame(&self, class: Class, at: u64, why: &'static str) -> Error {
        self.damaged(Damage::Frame {
            what: class.word(),
            at,
            why,
        })
    }

    fn bad_meta(&self, key: &[u8]) -> Error {
        self.damaged(Damage::Meta(
            String::from_utf8_lossy(key).escape_debug().to_string(),
        ))
    }

    /// Makes an error of a damage.
    pub(super) fn damaged(&self, what: Damage) -> Error {
        Error::Damaged {
            dir: self.dir.clone(),
            what,
        }
    }
}

/// Why a call into the store failed.
enum Fault {
    Store(sled::Error),
    Ours(Error),
}

impl From<sled::Error> for Fault {
    fn from(error: sled::Error) -> Self {
        Self::Store(error)
    }
}

/// Returns the key of a frame.
pub(super) fn key(class: Class, first: u64) -> [u8; 10] {
    let mut key = [class.tag(), b'/', 0, 0, 0, 0, 0, 0, 0, 0];
    key[2..].copy_from_slice(&first.to_be_bytes());
    key
}

fn part_key(class: Class, first: u64, part: u16) -> [u8; 12] {
    let mut whole = [0; 12];
    whole[..10].copy_from_slice(&key(class, first));
    whole[10..].copy_from_slice(&part.to_be_bytes());
    whole
}

fn first_of(key: &[u8]) -> Option<u64> {
    Cut(key.get(2..)?).array().map(u64::from_be_bytes)
}

/// Returns the key of a supervisor's floor.
pub(super) fn floor_key(supervisor: u32) -> Vec<u8> {
    [PREFIX_FLOOR, &supervisor.to_be_bytes()].concat()
}

/// Puts a frame into a batch.
pub(super) fn put_frame(batch: &mut sled::Batch, class: Class, frame: &Encoded) {
    for (part, bytes) in (0_u16..).zip(frame.bytes.chunks(FRAME)) {
        match part {
            0 => batch.insert(&key(class, frame.first), bytes),
            _ => batch.insert(&part_key(class, frame.first, part), bytes),
        }
    }
}

/// Takes a frame out of the store with a batch.
pub(super) fn remove_frame(batch: &mut sled::Batch, class: Class, first: u64, length: usize) {
    batch.remove(&key(class, first));
    for part in (1_u16..).take(length.div_ceil(FRAME).saturating_sub(1)) {
        batch.remove(&part_key(class, first, part));
    }
}

pub(in crate::journal) fn encode_trim(first_seq: u64, chain: &Hash) -> Vec<u8> {
    [&first_seq.to_le_bytes(), chain.as_slice()].concat()
}

pub(in crate::journal) fn decode_trim(value: &[u8]) -> Option<(u64, Hash)> {
    let mut cut = Cut(value);
    let trim = (cut.u64()?, cut.array()?);
    (cut.0.is_empty() && trim.0 > 0).then_some(trim)
}

pub(in crate::journal) fn encode_snapshots(snapshots: &[SnapshotRef]) -> Vec<u8> {
    snapshots
        .iter()
        .flat_map(|one| [&one.seq.to_le_bytes(), one.digest.as_slice()].concat())
        .collect()
}

pub(in crate::journal) fn decode_snapshots(value: &[u8]) -> Option<Vec<SnapshotRef>> {
    let mut cut = Cut(value);
    let mut snapshots = Vec::new();
    while !cut.0.is_empty() {
        snapshots.push(SnapshotRef {
            seq: cut.u64()?,
            digest: cut.array()?,
        });
    }
    Some(snapshots)
}

fn classify(dir: &Path, what: &str, error: sled::Error) -> Error {
    match error {
        sled::Error::Io(source) => io_error(dir, what, source),
        other => Error::Damaged {
            dir: dir.to_owned(),
            what: Damage::Store(other.to_string()),
        },
    }
}

fn unreadable(dir: &Path, panic: String) -> Error {
    Error::Damaged {
        dir: dir.to_owned(),
        what: Damage::Store(panic),
    }
}
