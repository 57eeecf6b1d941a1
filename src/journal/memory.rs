//! The journal in memory: for tests, simulators and the model, with the behaviour of the one on disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::Limits;
use super::frame::{GENESIS, Hash, digest, link};
use super::{
    AuditRow, Batch, Error, Item, Journal, JournalReader, Keep, Missed, Opened, Page, SnapshotRef,
    SnapshotWriter, StreamInfo, check,
};

/// What a journal in memory stores; it outlives the journal, so that a test can open it again.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Inner>>);

/// The journal in memory. Everything is durable at once, and every record is a frame of its own.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    store: MemoryStore,
}

#[derive(Debug, Default)]
struct Inner {
    items: Vec<Arc<Item>>,
    /// How many records a sweep removed.
    swept: u64,
    streams: BTreeMap<u32, Stream>,
    audit: Vec<AuditRow>,
    /// The newest first, at most two.
    snapshots: Vec<SnapshotRef>,
    states: BTreeMap<u64, Vec<u8>>,
    /// Epochs started after the first.
    epochs: u64,
    unclean: bool,
}

/// A supervisor's stream. Entries stay when records are swept, so that a gap can still be told by kind.
#[derive(Debug, Default)]
struct Stream {
    floor: u64,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    cursor: u64,
    seq: u64,
    kind: u8,
    time: u64,
    bytes: u64,
}

impl Stream {
    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.cursor)
    }

    fn kept(&self) -> &[Entry] {
        &self.entries[self
            .entries
            .partition_point(|entry| entry.cursor <= self.floor)..]
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn last_seq(&self) -> u64 {
        self.swept + self.items.len() as u64
    }

    fn audit_chain(&self) -> Hash {
        self.audit.last().map_or(GENESIS, |row| row.hash)
    }

    fn item(&self, seq: u64) -> Option<&Arc<Item>> {
        self.items
            .get(usize::try_from(seq.checked_sub(self.swept + 1)?).ok()?)
    }
}

impl MemoryJournal {
    /// Opens what `store` holds.
    #[must_use]
    pub fn open(store: &MemoryStore) -> Opened<Self> {
        let mut inner = store.lock();
        let snapshot = inner
            .snapshots
            .first()
            .and_then(|newest| Some((newest.seq, inner.states.get(&newest.seq)?.clone())));
        let clean = !std::mem::replace(&mut inner.unclean, true);
        Opened {
            journal: Self {
                store: store.clone(),
            },
            snapshot,
            epoch: inner.epochs + 1,
            clean,
        }
    }
}

impl Drop for MemoryJournal {
    fn drop(&mut self) {
        self.store.lock().unclean = false;
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        let inner = &mut *self.store.lock();
        let cursor = |supervisor| inner.streams.get(&supervisor).map_or(0, Stream::last);
        check::numbers(&batch, inner.last_seq(), inner.audit.len() as u64, cursor)?;
        if let Some(newest) = batch.snapshot {
            inner.snapshots = check::snapshots(&inner.snapshots, newest, inner.last_seq())?;
            let oldest = inner.snapshots.last().map_or(0, |oldest| oldest.seq);
            inner.states.retain(|seq, _| *seq >= oldest);
        }
        for item in batch.items {
            let (seq, kind, time, bytes) =
                (item.seq, item.kind, item.time, item.bytes.len() as u64);
            for (supervisor, cursor) in &item.to {
                let entry = Entry {
                    cursor: *cursor,
                    seq,
                    kind,
                    time,
                    bytes,
                };
                inner
                    .streams
                    .entry(*supervisor)
                    .or_default()
                    .entries
                    .push(entry);
            }
            inner.items.push(Arc::new(item));
        }
        for row in batch.audit {
            let hash = link(&inner.audit_chain(), &row.bytes);
            inner.audit.push(AuditRow {
                no: row.no,
                bytes: row.bytes,
                hash,
            });
        }
        for (supervisor, floor) in batch.floors {
            if let Some(stream) = inner.streams.get_mut(&supervisor) {
                stream.floor = stream.floor.max(floor.min(stream.last()));
            }
        }
        Ok(())
    }

    fn write(&mut self, batch: Batch) -> Result<(), Error> {
        self.append(batch)
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(self.store.clone())
    }

    fn last_seq(&self) -> u64 {
        self.store.lock().last_seq()
    }

    fn snapshots(&self) -> Arc<dyn SnapshotWriter> {
        Arc::new(self.store.clone())
    }

    fn sweep(&mut self, max_frames: usize) -> Result<usize, Error> {
        let inner = &mut *self.store.lock();
        let [_, older] = inner.snapshots.as_slice() else {
            return Ok(0);
        };
        let kept = inner
            .streams
            .values()
            .filter_map(|stream| stream.kept().first())
            .map(|entry| entry.seq);
        let keep = kept
            .min()
            .unwrap_or(u64::MAX)
            .min(older.seq + 1)
            .min(inner.last_seq());
        let gone = inner
            .items
            .iter()
            .take_while(|item| item.seq < keep)
            .take(max_frames)
            .count();
        inner.items.drain(..gone);
        inner.swept += gone as u64;
        Ok(gone)
    }

    fn start_epoch(&mut self) -> Result<u64, Error> {
        let inner = &mut *self.store.lock();
        inner.epochs += 1;
        Ok(inner.epochs + 1)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

impl JournalReader for MemoryStore {
    fn events(
        &self,
        supervisor: u32,
        after: u64,
        max_items: usize,
        max_bytes: usize,
    ) -> Result<Page, Error> {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(&supervisor) else {
            return Ok(Page::Data {
                items: Vec::new(),
                more: false,
            });
        };
        if after < stream.floor {
            return Ok(Page::Trimmed {
                up_to: stream.floor,
            });
        }
        let start = stream
            .entries
            .partition_point(|entry| entry.cursor <= after);
        let mut limits = Limits::new(max_items, max_bytes);
        let mut items = Vec::new();
        for entry in &stream.entries[start..] {
            let Some(item) = inner.item(entry.seq) else {
                continue;
            };
            if !limits.admit(item.bytes.len()) {
                break;
            }
            items.push((entry.cursor, Arc::clone(item)));
        }
        Ok(Page::Data {
            items,
            more: limits.full,
        })
    }

    fn records(&self, from_seq: u64, max_items: usize) -> Result<Vec<Arc<Item>>, Error> {
        let inner = self.lock();
        let skip = from_seq.max(1).checked_sub(inner.swept + 1);
        let skip = skip.ok_or(Error::Gone {
            asked: from_seq,
            first: inner.swept + 1,
        })?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Ok(inner
            .items
            .iter()
            .skip(skip)
            .take(max_items)
            .cloned()
            .collect())
    }

    fn audit(&self, from_no: u64, max: usize) -> Result<Vec<AuditRow>, Error> {
        let skip = usize::try_from(from_no.max(1) - 1).unwrap_or(usize::MAX);
        Ok(self
            .lock()
            .audit
            .iter()
            .skip(skip)
            .take(max)
            .cloned()
            .collect())
    }

    fn last_seq(&self) -> u64 {
        self.lock().last_seq()
    }

    fn first_seq(&self) -> u64 {
        self.lock().swept + 1
    }

    fn audit_len(&self) -> u64 {
        self.lock().audit.len() as u64
    }

    fn audit_head(&self) -> [u8; 32] {
        self.lock().audit_chain()
    }

    fn epoch(&self) -> u64 {
        self.lock().epochs + 1
    }

    fn stream(&self, supervisor: u32) -> StreamInfo {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(&supervisor) else {
            return StreamInfo::default();
        };
        StreamInfo {
            floor: stream.floor,
            last: stream.last(),
            events: stream.kept().len() as u64,
            bytes: stream.kept().iter().map(|entry| entry.bytes).sum(),
        }
    }

    fn floor_for(&self, supervisor: u32, keep: Keep) -> u64 {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(&supervisor) else {
            return 0;
        };
        let (mut events, mut bytes) = (0, 0);
        for entry in stream.kept().iter().rev() {
            let too_old = keep.since.is_some_and(|since| entry.time < since);
            let too_many = keep.events.is_some_and(|limit| events >= limit);
            let too_big = keep.bytes.is_some_and(|limit| bytes >= limit && bytes > 0);
            if too_old || too_many || too_big {
                return entry.cursor;
            }
            events += 1;
            bytes += entry.bytes;
        }
        stream.floor
    }

    fn missed(&self, supervisor: u32, from: u64, to: u64) -> Missed {
        let inner = self.lock();
        let entries = inner
            .streams
            .get(&supervisor)
            .map(|stream| stream.entries.as_slice())
            .unwrap_or_default();
        let mut kinds: BTreeMap<u8, u64> = BTreeMap::new();
        for entry in entries
            .iter()
            .filter(|entry| (from..=to).contains(&entry.cursor) && entry.kind != 0)
        {
            *kinds.entry(entry.kind).or_default() += 1;
        }
        Missed {
            kinds: kinds.into_iter().collect(),
            exact: true,
        }
    }
}

impl SnapshotWriter for MemoryStore {
    fn write(&self, seq: u64, state: &[u8]) -> Result<SnapshotRef, Error> {
        let mut inner = self.lock();
        if seq > inner.last_seq() {
            let what = "the number of a state snapshot".to_owned();
            return Err(Error::OutOfOrder {
                what,
                expected: inner.last_seq(),
                found: seq,
            });
        }
        inner.states.insert(seq, state.to_vec());
        Ok(SnapshotRef {
            seq,
            digest: digest(state),
        })
    }
}
