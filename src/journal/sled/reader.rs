//! The reading side: the newest records from memory, older ones from the store by the replay index.

use std::sync::Arc;

use super::Shared;
use crate::journal::cache::Limits;
use crate::journal::frame::Class;
use crate::journal::{
    AuditRow, Damage, Error, Item, JournalReader, Keep, Missed, Page, SnapshotRef, SnapshotWriter,
    StreamInfo, snapshot,
};

/// Frames that are looked up in the index at a time.
const FRAMES: usize = 64;

/// A reader of a journal on disk.
#[derive(Debug)]
pub(super) struct Reader(pub(super) Arc<Shared>);

/// Where a supervisor's next records are.
enum Place {
    Page(Page),
    Frames(Vec<u64>),
}

impl Reader {
    /// Answers from memory, or says which frames to read.
    fn place(&self, supervisor: u32, after: u64, limits: Limits) -> Place {
        let live = self.0.read();
        let Some(stream) = live.index.stream(supervisor) else {
            return Place::Page(Page::Data {
                items: Vec::new(),
                more: false,
            });
        };
        if after < stream.floor() {
            return Place::Page(Page::Trimmed {
                up_to: stream.floor(),
            });
        }
        if after >= stream.last() {
            return Place::Page(Page::Data {
                items: Vec::new(),
                more: false,
            });
        }
        let mut limits = limits;
        if let Some(items) = live.cache.events(supervisor, after, &mut limits) {
            return Place::Page(Page::Data {
                items,
                more: limits.full,
            });
        }
        Place::Frames(stream.frames_after(after, FRAMES))
    }

    /// Reads a supervisor's records after a cursor out of frames; `None` when one of them is gone.
    fn read(
        &self,
        supervisor: u32,
        after: u64,
        frames: &[u64],
        limits: &mut Limits,
        items: &mut Vec<(u64, Arc<Item>)>,
    ) -> Result<Option<()>, Error> {
        let store = &self.0.store;
        for first in frames {
            let Some(bytes) = store.frame(Class::Events, *first)? else {
                return Ok(None);
            };
            let mut found = false;
            for record in store.parse(Class::Events, *first, &bytes)?.events() {
                let record = record.map_err(|why| store.bad_frame(Class::Events, *first, why))?;
                let routes = record
                    .routes()
                    .filter(|(number, cursor)| *number == supervisor && *cursor > after);
                for (_, cursor) in routes {
                    found = true;
                    if !limits.admit(record.bytes.len()) {
                        return Ok(Some(()));
                    }
                    items.push((cursor, record.to_item()));
                }
            }
            if !found {
                return Err(store.bad_frame(
                    Class::Events,
                    *first,
                    "records that the index names are not in it",
                ));
            }
        }
        Ok(Some(()))
    }

    fn missing(&self, first: u64) -> Error {
        self.0.store.damaged(Damage::Frame {
            what: Class::Events.word(),
            at: first,
            why: "it is missing",
        })
    }
}

impl JournalReader for Reader {
    fn events(
        &self,
        supervisor: u32,
        after: u64,
        max_items: usize,
        max_bytes: usize,
    ) -> Result<Page, Error> {
        let mut limits = Limits::new(max_items, max_bytes);
        let mut items = Vec::new();
        let mut at = after;
        loop {
            let frames = match self.place(supervisor, at, limits) {
                Place::Page(Page::Data { items: rest, more }) => {
                    items.extend(rest);
                    return Ok(Page::Data { items, more });
                }
                Place::Page(trimmed) if items.is_empty() => return Ok(trimmed),
                // Retention has overtaken this read; what was read is right, and the next call tells the rest.
                Place::Page(_) => return Ok(Page::Data { items, more: true }),
                Place::Frames(frames) => frames,
            };
            match self.read(supervisor, at, &frames, &mut limits, &mut items)? {
                Some(()) if limits.full => return Ok(Page::Data { items, more: true }),
                Some(()) => {}
                // A sweep removes only what is below the floor, so the floor must have moved since.
                None => match self.place(supervisor, at, limits) {
                    Place::Frames(again) if again == frames => {
                        return Err(self.missing(frames.first().copied().unwrap_or_default()));
                    }
                    _ if items.is_empty() => continue,
                    _ => return Ok(Page::Data { items, more: true }),
                },
            }
            match items.last() {
                Some((cursor, _)) if *cursor > at => at = *cursor,
                _ => return Err(self.missing(frames.first().copied().unwrap_or_default())),
            }
        }
    }

    fn records(&self, from_seq: u64, max_items: usize) -> Result<Vec<Arc<Item>>, Error> {
        let from_seq = from_seq.max(1);
        let last_seq = {
            let live = self.0.read();
            if from_seq > live.index.last_seq || max_items == 0 {
                return Ok(Vec::new());
            }
            if from_seq < live.first_seq {
                return Err(Error::Gone {
                    asked: from_seq,
                    first: live.first_seq,
                });
            }
            if let Some(items) = live.cache.records(from_seq, max_items) {
                return Ok(items);
            }
            live.index.last_seq
        };
        let store = &self.0.store;
        let class = Class::Events;
        let start = store
            .frame_of(class, from_seq)?
            .ok_or_else(|| self.missing(from_seq))?;
        let mut items: Vec<Arc<Item>> = Vec::new();
        let mut expected = start;
        store.walk(class, start, |first, frame, _| {
            if first != expected {
                return Err(store.damaged(Damage::Hole {
                    what: class.word(),
                    expected,
                    found: first,
                }));
            }
            expected = frame.last() + 1;
            for record in frame.events() {
                let record = record.map_err(|why| store.bad_frame(class, first, why))?;
                if record.seq > last_seq || items.len() == max_items {
                    return Ok(false);
                }
                if record.seq >= from_seq {
                    items.push(record.to_item());
                }
            }
            Ok(true)
        })?;
        let whole =
            items.len() == max_items || items.last().is_some_and(|item| item.seq == last_seq);
        match items.first() {
            Some(item) if item.seq == from_seq && whole => Ok(items),
            Some(item) if item.seq == from_seq => Err(self.missing(expected)),
            _ => match self.0.read().first_seq {
                first if from_seq < first => Err(Error::Gone {
                    asked: from_seq,
                    first,
                }),
                _ => Err(self.missing(from_seq)),
            },
        }
    }

    fn audit(&self, from_no: u64, max: usize) -> Result<Vec<AuditRow>, Error> {
        let from_no = from_no.max(1);
        let last = self.audit_len();
        if from_no > last || max == 0 {
            return Ok(Vec::new());
        }
        let store = &self.0.store;
        let class = Class::Audit;
        let hole = |expected, found| {
            store.damaged(Damage::Hole {
                what: class.word(),
                expected,
                found,
            })
        };
        let start = store
            .frame_of(class, from_no)?
            .ok_or_else(|| hole(from_no, last))?;
        let mut rows: Vec<AuditRow> = Vec::new();
        let mut expected = start;
        store.walk(class, start, |first, frame, _| {
            if first != expected {
                return Err(hole(expected, first));
            }
            expected = frame.last() + 1;
            let found = frame
                .audit()
                .map_err(|why| store.bad_frame(class, first, why))?;
            let room = max - rows.len();
            rows.extend(
                found
                    .into_iter()
                    .filter(|row| row.no >= from_no && row.no <= last)
                    .take(room),
            );
            Ok(rows.len() < max && expected <= last)
        })?;
        let whole = rows.len() == max || rows.last().is_some_and(|row| row.no == last);
        match rows.first() {
            Some(row) if row.no == from_no && whole => Ok(rows),
            _ => Err(hole(from_no + rows.len() as u64, last)),
        }
    }

    fn last_seq(&self) -> u64 {
        self.0.read().index.last_seq
    }

    fn first_seq(&self) -> u64 {
        self.0.read().first_seq
    }

    fn audit_len(&self) -> u64 {
        self.0.read().index.last_audit
    }

    fn audit_head(&self) -> [u8; 32] {
        self.0.read().index.audit_chain
    }

    fn epoch(&self) -> u64 {
        self.0.read().epoch
    }

    fn stream(&self, supervisor: u32) -> StreamInfo {
        self.0.read().index.info(supervisor)
    }

    fn floor_for(&self, supervisor: u32, keep: Keep) -> u64 {
        self.0.read().index.floor_for(supervisor, keep)
    }

    fn missed(&self, supervisor: u32, from: u64, to: u64) -> Missed {
        self.0.read().index.missed(supervisor, from, to)
    }
}

impl SnapshotWriter for Reader {
    fn write(&self, seq: u64, state: &[u8]) -> Result<SnapshotRef, Error> {
        let index = {
            let live = self.0.read();
            // The state after a record is always the same, and a committed file must not change under its digest.
            if let Some(there) = live.snapshots.iter().find(|there| there.seq == seq) {
                return Ok(*there);
            }
            if seq > live.index.last_seq {
                let what = "the number of a state snapshot".to_owned();
                return Err(Error::OutOfOrder {
                    what,
                    expected: live.index.last_seq,
                    found: seq,
                });
            }
            live.index.clone()
        };
        snapshot::write(&self.0.store.dir, seq, state, &index)
    }
}
