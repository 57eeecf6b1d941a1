//! The journal on disk: frames in one sled tree, a commit head beside it, state snapshots as files.
//!
//! A commit is: one batch applied and flushed, a sync of the store's file, the commit head. The head is synced at most
//! every 100 ms and at a clean end. Only this room knows that the store is sled; what has to be known about it is in
//! `store`.

mod guard;
mod open;
mod reader;
mod scan;
mod store;

pub use open::{Options, Verify};

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::store::{
    KEY_EPOCH, KEY_SNAPSHOT, KEY_TRIM, Store, encode_snapshots, encode_trim, floor_key, put_frame,
    remove_frame,
};
use super::cache::Cache;
use super::dir::{Lock, io_error};
use super::frame::{Class, Encoded, Hash, encode_audit, encode_events};
use super::head::{Head, Slots};
use super::index::{Entry, Index};
use super::{
    Batch, Error, Item, Journal, JournalReader, Opened, SnapshotRef, SnapshotWriter, check,
    snapshot,
};
use crate::clock::monotonic_ms;

/// How often the commit head is synced at most, in milliseconds.
const HEAD_SYNC_MS: u64 = 100;

/// The journal on disk.
#[derive(Debug)]
pub struct SledJournal {
    shared: Arc<Shared>,
    slots: Slots,
    /// What is applied; what is noted in a slot is what was durable at its turn.
    head: Head,
    /// Whether something applied is not durable yet.
    unsynced: bool,
    /// When the head was synced last, and whether it was written since.
    head_synced: u64,
    head_dirty: bool,
    /// Why nothing is written any more.
    broken: Option<String>,
    _lock: Lock,
}

/// What the owner and the readers share.
#[derive(Debug)]
struct Shared {
    store: Store,
    live: RwLock<Live>,
}

/// What is known of the journal without reading it.
#[derive(Debug)]
struct Live {
    index: Index,
    cache: Cache,
    /// The oldest stored record, and the chain before it.
    first_seq: u64,
    epoch: u64,
    /// The committed snapshots, the newest first, at most two.
    snapshots: Vec<SnapshotRef>,
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SledJournal {
    /// Opens the journal in `dir`, making it if the directory is empty or missing, and checks it. The caller then
    /// restores the snapshot's state and applies the records after it.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Full`], [`Error::Locked`], [`Error::Format`], [`Error::NetworkFilesystem`],
    /// [`Error::Io`]; nothing is ever dropped to get a journal open.
    pub fn open(dir: &Path, options: Options) -> Result<Opened<Self>, Error> {
        open::open(dir, options)
    }

    /// Returns the committed state snapshots, the newest first.
    pub(super) fn committed_snapshots(&self) -> Vec<SnapshotRef> {
        self.shared.read().snapshots.clone()
    }

    /// Runs a step on the store; its first error makes the journal read-only.
    fn step<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(reason) = &self.broken {
            return Err(Error::ReadOnly {
                reason: reason.clone(),
            });
        }
        let result = step(self);
        if let Err(error) = &result {
            tracing::error!(%error, "journal is read-only after a store error");
            self.broken = Some(error.to_string());
        }
        result
    }

    /// Applies a store batch, with the head that follows from it.
    fn apply(&mut self, batch: sled::Batch, head: Head) -> Result<(), Error> {
        self.step(|journal| {
            fail::fail_point!("store::before_commit", |_| Err(injected(
                "store::before_commit"
            )));
            journal.unsynced = true;
            journal.shared.store.apply(batch)?;
            journal.head = head;
            Ok(())
        })
    }

    /// Makes everything that was applied durable, then notes how far that is.
    fn settle(&mut self) -> Result<(), Error> {
        if !self.unsynced {
            return Ok(());
        }
        self.step(|journal| {
            journal.shared.store.flush()?;
            fail::fail_point!("store::after_flush", |_| Err(injected(
                "store::after_flush"
            )));
            journal.shared.store.sync()?;
            fail::fail_point!("store::after_fdatasync", |_| Err(injected(
                "store::after_fdatasync"
            )));
            journal.write_head()?;
            journal.unsynced = false;
            if monotonic_ms().saturating_sub(journal.head_synced) >= HEAD_SYNC_MS {
                journal.sync_head()?;
            }
            fail::fail_point!("store::after_head", |_| Err(injected("store::after_head")));
            Ok(())
        })
    }

    fn write_head(&mut self) -> Result<(), Error> {
        self.head.turn += 1;
        self.head_dirty = true;
        let written = self.slots.write(&self.head);
        written.map_err(|e| io_error(&self.shared.store.dir, "writing the commit head", e))
    }

    fn sync_head(&mut self) -> Result<(), Error> {
        if self.head_dirty {
            self.slots
                .sync()
                .map_err(|e| io_error(&self.shared.store.dir, "syncing the commit head", e))?;
            self.head_dirty = false;
        }
        self.head_synced = monotonic_ms();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        if self.broken.is_none() && !self.head.clean {
            result = self.settle().and_then(|()| {
                self.head.clean = true;
                self.write_head()?;
                self.sync_head()
            });
        }
        self.shared.store.close();
        result
    }

    /// Checks a batch and applies it to the store.
    fn stage(&mut self, batch: Batch) -> Result<Staged, Error> {
        if let Some(reason) = &self.broken {
            return Err(Error::ReadOnly {
                reason: reason.clone(),
            });
        }
        let mut stored = sled::Batch::default();
        let mut head = self.head;
        let (mut floors, mut snapshots) = (Vec::new(), None);
        {
            let live = self.shared.read();
            check::numbers(&batch, head.last_seq, head.last_audit, |supervisor| {
                live.index.last_cursor(supervisor)
            })?;
            for (supervisor, floor) in &batch.floors {
                let last = batch
                    .items
                    .iter()
                    .rev()
                    .find_map(|item| item.cursor_of(*supervisor));
                let last = last.unwrap_or_else(|| live.index.last_cursor(*supervisor));
                floors.push((
                    *supervisor,
                    (*floor).min(last).max(live.index.info(*supervisor).floor),
                ));
            }
            if let Some(newest) = batch.snapshot {
                snapshots = Some(check::snapshots(&live.snapshots, newest, head.last_seq)?);
            }
        }
        let (frames, chain) = encode_events(&batch.items, head.chain);
        let (audit, audit_chain) = encode_audit(&batch.audit, head.audit_chain);
        frames
            .iter()
            .for_each(|frame| put_frame(&mut stored, Class::Events, frame));
        audit
            .iter()
            .for_each(|frame| put_frame(&mut stored, Class::Audit, frame));
        for (supervisor, floor) in &floors {
            stored.insert(floor_key(*supervisor), &floor.to_le_bytes());
        }
        if let Some(snapshots) = &snapshots {
            stored.insert(KEY_SNAPSHOT, encode_snapshots(snapshots));
        }
        head.last_seq += batch.items.len() as u64;
        head.chain = chain;
        head.last_audit += batch.audit.len() as u64;
        head.audit_chain = audit_chain;
        self.apply(stored, head)?;
        Ok(Staged {
            items: batch.items,
            frames,
            floors,
            snapshots,
        })
    }

    /// Makes a staged batch visible to readers.
    fn publish(&self, staged: Staged) {
        let Staged {
            items,
            frames,
            floors,
            snapshots,
        } = staged;
        let oldest = snapshots
            .as_deref()
            .and_then(<[_]>::last)
            .map(|oldest| oldest.seq);
        {
            let live = &mut *self.shared.write();
            let mut items = items.into_iter();
            for frame in &frames {
                for item in items.by_ref().take(frame.count as usize) {
                    live.add(frame.first, Arc::new(item));
                }
                live.index.last_frame = frame.first;
            }
            live.index.last_seq = self.head.last_seq;
            live.index.chain = self.head.chain;
            live.index.last_audit = self.head.last_audit;
            live.index.audit_chain = self.head.audit_chain;
            for (supervisor, floor) in &floors {
                live.index.raise_floor(*supervisor, *floor);
            }
            if let Some(snapshots) = snapshots {
                live.snapshots = snapshots;
            }
        }
        if let Some(oldest) = oldest {
            snapshot::clean(&self.shared.store.dir, oldest);
        }
    }
}

impl Live {
    /// Adds a record that is stored in the frame that begins with `frame`.
    fn add(&mut self, frame: u64, item: Arc<Item>) {
        let bytes = item.bytes.len() as u64;
        for (supervisor, cursor) in &item.to {
            let entry = Entry {
                frame,
                cursor: *cursor,
                time: item.time,
                kind: item.kind,
                bytes,
            };
            self.index.add(*supervisor, entry);
        }
        self.cache.push(item);
    }
}

/// A batch that is in the store and that readers do not see yet.
struct Staged {
    items: Vec<Item>,
    frames: Vec<Encoded>,
    floors: Vec<(u32, u64)>,
    snapshots: Option<Vec<SnapshotRef>>,
}

impl Journal for SledJournal {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return self.settle();
        }
        let staged = self.stage(batch)?;
        self.settle()?;
        self.publish(staged);
        Ok(())
    }

    fn write(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let staged = self.stage(batch)?;
        self.publish(staged);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.settle()
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(reader::Reader(Arc::clone(&self.shared)))
    }

    fn last_seq(&self) -> u64 {
        self.head.last_seq
    }

    fn snapshots(&self) -> Arc<dyn SnapshotWriter> {
        Arc::new(reader::Reader(Arc::clone(&self.shared)))
    }

    fn sweep(&mut self, max_frames: usize) -> Result<usize, Error> {
        // A frame may go when its records are below `keep`: passed by every floor and by both snapshots. The newest
        // frame stays, since it is where the journal ends.
        let (first, keep) = {
            let live = self.shared.read();
            let [_, older] = live.snapshots.as_slice() else {
                return Ok(0);
            };
            let kept = live.index.oldest_kept().unwrap_or(u64::MAX);
            (
                live.first_seq,
                kept.min(older.seq + 1).min(live.index.last_frame),
            )
        };
        let mut batch = sled::Batch::default();
        let mut gone = 0;
        let mut next: Option<(u64, Hash)> = None;
        self.shared
            .store
            .walk(Class::Events, first, |at, frame, bytes| {
                if gone == max_frames || frame.last() >= keep {
                    next = Some((at, frame.prev));
                    return Ok(false);
                }
                remove_frame(&mut batch, Class::Events, at, bytes.len());
                gone += 1;
                Ok(true)
            })?;
        let Some((first_seq, chain)) = next.filter(|_| gone > 0) else {
            return Ok(0);
        };
        batch.insert(KEY_TRIM, encode_trim(first_seq, &chain));
        self.apply(batch, self.head)?;
        self.settle()?;
        self.shared.write().first_seq = first_seq;
        Ok(gone)
    }

    fn start_epoch(&mut self) -> Result<u64, Error> {
        let epoch = self.head.epoch + 1;
        let mut batch = sled::Batch::default();
        batch.insert(KEY_EPOCH, &epoch.to_le_bytes());
        self.apply(batch, Head { epoch, ..self.head })?;
        self.settle()?;
        self.shared.write().epoch = epoch;
        Ok(epoch)
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.finish()
    }
}

impl Drop for SledJournal {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!(%error, "journal did not end cleanly, what was committed is safe");
        }
    }
}

#[cfg_attr(
    not(feature = "failpoints"),
    expect(dead_code, reason = "the fail points compile to nothing")
)]
fn injected(point: &str) -> Error {
    Error::Io {
        what: format!("fail point {point}"),
        source: std::io::Error::other("injected"),
    }
}

/// The stored forms of the small values, for the golden files.
#[cfg(test)]
pub(super) mod golden {
    pub(in crate::journal) use super::store::{
        decode_snapshots, decode_trim, encode_snapshots, encode_trim,
    };
}
