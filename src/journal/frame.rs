//! Frames: how records and audit rows are stored.
//!
//! A frame is a run of records (or audit rows) of one commit, up to [`FRAME`] bytes; a longer record has a frame of its
//! own. All numbers are little-endian:
//!
//! ```text
//! 0  magic "SJ"   2  version   3  class ('e' records, 'a' audit)   4  crc32 of everything from 8 on
//! 8  length u32 (all of the frame)   12 count u32   16 first number u64   24 hash before it, 32 bytes   56 body
//! record:     time u64, kind u8, recipients u32, length u32, (supervisor u32, cursor u64) × recipients, bytes
//! audit row:  length u32, bytes
//! ```
//!
//! The chain of records goes from frame to frame: SHA-256 over a whole frame, which holds the hash before it. The chain
//! of audit rows goes from row to row: SHA-256 over the hash before it and the row; the frame holds the hash before its
//! first row. The layout is fixed by golden files; a change is a new version, and version 1 stays readable.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{AuditItem, AuditRow, Batch, Error, Item, MAX_RECORD};

/// A link of a hash chain.
pub(super) type Hash = [u8; 32];

/// The hash before the first frame or row.
pub(super) const GENESIS: Hash = [0; 32];

/// Frames are cut at this size; values in the store are never longer.
pub(super) const FRAME: usize = 16 * 1024;

const VERSION: u8 = 1;
const HEADER: usize = 56;
const RECORD: usize = 17;
const ROUTE: usize = 12;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Records.
    Events,
    /// Audit rows.
    Audit,
}

impl Class {
    /// Returns the byte in the frame and in the key.
    pub(super) fn tag(self) -> u8 {
        match self {
            Self::Events => b'e',
            Self::Audit => b'a',
        }
    }

    /// Returns the word for messages.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Events => "record",
            Self::Audit => "audit row",
        }
    }
}

/// An encoded frame, ready to be stored.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) bytes: Vec<u8>,
}

/// Checks that every record and row of a batch fits into a frame.
pub(super) fn check_sizes(batch: &Batch) -> Result<(), Error> {
    let records = batch
        .items
        .iter()
        .map(|item| (record_size(item), item.seq, Class::Events));
    let rows = batch
        .audit
        .iter()
        .map(|row| (row_size(row), row.no, Class::Audit));
    match records.chain(rows).find(|(size, ..)| *size > MAX_RECORD) {
        Some((size, number, class)) => Err(Error::TooLarge {
            what: format!("{} {number}", class.word()),
            size,
        }),
        None => Ok(()),
    }
}

fn record_size(item: &Item) -> usize {
    RECORD + item.to.len() * ROUTE + item.bytes.len()
}

fn row_size(row: &AuditItem) -> usize {
    4 + row.bytes.len()
}

/// Encodes records into frames that continue the chain at `prev`; returns the frames and the chain after them. The
/// sizes are checked before (`check_sizes`).
pub(super) fn encode_events(items: &[Item], prev: Hash) -> (Vec<Encoded>, Hash) {
    let mut frames = Frames {
        class: Class::Events,
        prev,
        open: None,
        done: Vec::new(),
    };
    for item in items {
        let size = record_size(item);
        if frames.is_full(size) {
            frames.prev = frames.seal();
        }
        let out = frames.room(item.seq, size);
        out.extend_from_slice(&item.time.to_le_bytes());
        out.push(item.kind);
        out.extend_from_slice(&small(item.to.len()));
        out.extend_from_slice(&small(item.bytes.len()));
        for (supervisor, cursor) in &item.to {
            out.extend_from_slice(&supervisor.to_le_bytes());
            out.extend_from_slice(&cursor.to_le_bytes());
        }
        out.extend_from_slice(&item.bytes);
    }
    let chain = frames.seal();
    (frames.done, chain)
}

/// Encodes audit rows into frames that continue the chain at `chain`; returns the frames and the chain after them. The
/// sizes are checked before (`check_sizes`).
pub(super) fn encode_audit(rows: &[AuditItem], mut chain: Hash) -> (Vec<Encoded>, Hash) {
    let mut frames = Frames {
        class: Class::Audit,
        prev: chain,
        open: None,
        done: Vec::new(),
    };
    for row in rows {
        let size = row_size(row);
        if frames.is_full(size) {
            frames.seal();
            frames.prev = chain;
        }
        let out = frames.room(row.no, size);
        out.extend_from_slice(&small(row.bytes.len()));
        out.extend_from_slice(&row.bytes);
        chain = link(&chain, &row.bytes);
    }
    frames.seal();
    (frames.done, chain)
}

/// Returns a length as it is stored; the sizes are checked, so it fits.
fn small(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}

/// Frames that are being encoded.
struct Frames {
    class: Class,
    prev: Hash,
    open: Option<Encoded>,
    done: Vec<Encoded>,
}

impl Frames {
    /// Says whether the open frame has no room for `size` more bytes.
    fn is_full(&self, size: usize) -> bool {
        self.open
            .as_ref()
            .is_some_and(|frame| frame.bytes.len() + size > FRAME)
    }

    /// Counts one more into the open frame, opening one at `number` if there is none, and returns where to write.
    fn room(&mut self, number: u64, size: usize) -> &mut Vec<u8> {
        let frame = self.open.get_or_insert_with(|| {
            let mut bytes = Vec::with_capacity(FRAME.max(HEADER + size));
            bytes.resize(HEADER, 0);
            Encoded {
                first: number,
                count: 0,
                bytes,
            }
        });
        frame.count += 1;
        &mut frame.bytes
    }

    /// Fills in the header of the open frame and returns the hash of the whole frame; without one, the chain as it is.
    fn seal(&mut self) -> Hash {
        let Some(mut frame) = self.open.take() else {
            return self.prev;
        };
        let length = small(frame.bytes.len());
        let head = &mut frame.bytes;
        head[0..2].copy_from_slice(b"SJ");
        head[2] = VERSION;
        head[3] = self.class.tag();
        head[8..12].copy_from_slice(&length);
        head[12..16].copy_from_slice(&frame.count.to_le_bytes());
        head[16..24].copy_from_slice(&frame.first.to_le_bytes());
        head[24..56].copy_from_slice(&self.prev);
        let crc = crc32fast::hash(&head[8..]);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        let hash = match self.class {
            Class::Events => digest(head),
            Class::Audit => self.prev,
        };
        self.done.push(frame);
        hash
    }
}

/// Returns SHA-256 of `bytes`.
pub(super) fn digest(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Returns the next link of the audit chain.
pub(super) fn link(prev: &Hash, bytes: &[u8]) -> Hash {
    let mut sha = Sha256::new();
    sha.update(prev);
    sha.update(bytes);
    sha.finalize().into()
}

/// Reads numbers off the front of bytes; `None` where they end too early.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut<'a>(pub(super) &'a [u8]);

impl<'a> Cut<'a> {
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a length or count as `usize`.
    pub(super) fn size(&mut self) -> Option<usize> {
        self.u32().and_then(|n| usize::try_from(n).ok())
    }
}

/// How long the frame is whose first bytes these are; `None` when they are no frame of a known version.
pub(super) fn length(start: &[u8]) -> Option<usize> {
    if start.get(0..3)? != [b'S', b'J', VERSION] {
        return None;
    }
    Cut(start.get(8..)?).size()
}

/// A checked frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) prev: Hash,
    class: Class,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Checks magic, version, length, checksum and class of a stored frame.
    pub(super) fn parse(bytes: &'a [u8], class: Class) -> Result<Self, &'static str> {
        let mut cut = Cut(bytes);
        let magic: [u8; 2] = cut.array().ok_or("it is too short")?;
        if magic != *b"SJ" {
            return Err("it does not begin like a frame");
        }
        if cut.u8() != Some(VERSION) {
            return Err("its version is unknown");
        }
        if cut.u8() != Some(class.tag()) {
            return Err("it is of another class");
        }
        let crc = cut.u32().ok_or("it is too short")?;
        if crc32fast::hash(cut.0) != crc {
            return Err("its checksum is wrong");
        }
        if cut.size() != Some(bytes.len()) {
            return Err("its length is wrong");
        }
        let header = || Some((cut.u32()?, cut.u64()?, cut.array()?));
        let (count, first, prev) = { header }().ok_or("it is too short")?;
        if count == 0 || first == 0 || first.checked_add(u64::from(count)).is_none() {
            return Err("its count is wrong");
        }
        Ok(Self {
            first,
            count,
            prev,
            class,
            body: bytes.get(HEADER..).unwrap_or_default(),
        })
    }

    /// Returns the last number in the frame.
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Returns the records, in order.
    pub(super) fn events(&self) -> Records<'a> {
        debug_assert_eq!(self.class, Class::Events);
        Records {
            rest: Cut(self.body),
            next: self.first,
            left: self.count,
        }
    }

    /// Returns the audit rows with their links, in order.
    pub(super) fn audit(&self) -> Result<Vec<AuditRow>, &'static str> {
        debug_assert_eq!(self.class, Class::Audit);
        let mut rest = Cut(self.body);
        let mut hash = self.prev;
        let mut rows = Vec::new();
        for no in self.first..=self.last() {
            let bytes = rest
                .size()
                .and_then(|n| rest.take(n))
                .ok_or("a row is cut off")?;
            hash = link(&hash, bytes);
            rows.push(AuditRow {
                no,
                bytes: bytes.to_vec(),
                hash,
            });
        }
        if rest.0.is_empty() {
            Ok(rows)
        } else {
            Err("bytes are left over")
        }
    }
}

/// A stored record that is not copied yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) seq: u64,
    pub(super) time: u64,
    pub(super) kind: u8,
    routes: &'a [u8],
    pub(super) bytes: &'a [u8],
}

impl Record<'_> {
    /// Returns the recipients with their cursors.
    pub(super) fn routes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.routes.chunks_exact(ROUTE).filter_map(|route| {
            let mut cut = Cut(route);
            Some((cut.u32()?, cut.u64()?))
        })
    }

    /// Copies the record out of the frame.
    pub(super) fn to_item(self) -> Arc<Item> {
        Arc::new(Item {
            seq: self.seq,
            time: self.time,
            kind: self.kind,
            to: self.routes().collect(),
            bytes: self.bytes.to_vec(),
        })
    }
}

/// The records of a frame.
#[derive(Debug)]
pub(super) struct Records<'a> {
    rest: Cut<'a>,
    next: u64,
    left: u32,
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Option<Record<'a>> {
        let cut = &mut self.rest;
        let (time, kind, recipients, length) = (cut.u64()?, cut.u8()?, cut.size()?, cut.size()?);
        let routes = cut.take(recipients.checked_mul(ROUTE)?)?;
        let bytes = cut.take(length)?;
        Some(Record {
            seq: self.next,
            time,
            kind,
            routes,
            bytes,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let left_over = !self.rest.0.is_empty();
            self.rest = Cut(&[]);
            return left_over.then_some(Err("bytes are left over"));
        }
        let Some(record) = self.record() else {
            (self.left, self.rest) = (0, Cut(&[]));
            return Some(Err("a record is cut off"));
        };
        self.left -= 1;
        self.next += 1;
        Some(Ok(record))
    }
}
