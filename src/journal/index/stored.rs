//! The replay index as bytes, saved with every state snapshot.
//!
//! ```text
//! magic "SI", version, zero, last record u64, chain 32, newest frame u64, last audit row u64, audit chain 32, streams u32
//! stream: supervisor u32, floor u64, last u64, past u32, blocks u32
//! past:   first cursor u64, last cursor u64, kinds
//! block:  first cursor, events, first time, last time, bytes, first frame, newest frame, its events,
//!         the frame before it (all u64), frames u32, deltas u32, kinds, deltas
//! kinds:  n u8, (kind u8, count u64) × n
//! ```

use std::sync::Arc;

use super::stream::{Block, Past};
use super::{Index, Stream};
use crate::journal::frame::Cut;

const MAGIC: [u8; 4] = [b'S', b'I', 1, 0];

impl Index {
    /// Returns the stored form.
    pub(in crate::journal) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.last_seq.to_le_bytes());
        out.extend_from_slice(&self.chain);
        out.extend_from_slice(&self.last_frame.to_le_bytes());
        out.extend_from_slice(&self.last_audit.to_le_bytes());
        out.extend_from_slice(&self.audit_chain);
        size(&mut out, self.streams.len());
        for (supervisor, stream) in &self.streams {
            out.extend_from_slice(&supervisor.to_le_bytes());
            out.extend_from_slice(&stream.floor.to_le_bytes());
            out.extend_from_slice(&stream.last.to_le_bytes());
            size(&mut out, stream.past.len());
            size(&mut out, stream.blocks.len());
            for past in &stream.past {
                out.extend_from_slice(&past.first_cursor.to_le_bytes());
                out.extend_from_slice(&past.last_cursor.to_le_bytes());
                put_kinds(&mut out, &past.kinds);
            }
            for block in &stream.blocks {
                put_block(&mut out, block);
            }
        }
        out
    }

    /// Reads the stored form; `None` when it is not whole.
    pub(in crate::journal) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cut = Cut(bytes);
        if cut.array::<4>()? != MAGIC {
            return None;
        }
        let mut index = Self {
            last_seq: cut.u64()?,
            chain: cut.array()?,
            last_frame: cut.u64()?,
            last_audit: cut.u64()?,
            audit_chain: cut.array()?,
            ..Self::default()
        };
        for _ in 0..cut.u32()? {
            let supervisor = cut.u32()?;
            let mut stream = Stream {
                floor: cut.u64()?,
                last: cut.u64()?,
                ..Stream::default()
            };
            let (past, blocks) = (cut.u32()?, cut.u32()?);
            for _ in 0..past {
                let (first_cursor, last_cursor) = (cut.u64()?, cut.u64()?);
                stream.past.push(Past {
                    first_cursor,
                    last_cursor,
                    kinds: kinds(&mut cut)?,
                });
            }
            for _ in 0..blocks {
                stream.blocks.push(Arc::new(block(&mut cut)?));
            }
            index.streams.insert(supervisor, Arc::new(stream));
        }
        cut.0.is_empty().then_some(index)
    }
}

fn put_block(out: &mut Vec<u8>, block: &Block) {
    let numbers = [
        block.first_cursor,
        block.events,
        block.first_time,
        block.last_time,
        block.bytes,
        block.first_frame,
        block.last_frame,
        block.last_events,
        block.before_last,
    ];
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&block.frames.to_le_bytes());
    size(out, block.deltas.len());
    put_kinds(out, &block.kinds);
    out.extend_from_slice(&block.deltas);
}

fn block(cut: &mut Cut<'_>) -> Option<Block> {
    let mut block = Block {
        first_cursor: cut.u64()?,
        events: cut.u64()?,
        first_time: cut.u64()?,
        last_time: cut.u64()?,
        bytes: cut.u64()?,
        first_frame: cut.u64()?,
        last_frame: cut.u64()?,
        last_events: cut.u64()?,
        before_last: cut.u64()?,
        frames: cut.u32()?,
        ..Block::default()
    };
    let deltas = cut.size()?;
    block.kinds = kinds(cut)?;
    block.deltas = cut.take(deltas)?.to_vec();
    // A stream subtracts one from this sum, and adds to it.
    let end = block.first_cursor.checked_add(block.events)?;
    (block.first_cursor > 0 && block.events > 0 && end < u64::MAX).then_some(block)
}

fn put_kinds(out: &mut Vec<u8>, kinds: &[(u8, u64)]) {
    // There are 255 kinds that count.
    out.push(u8::try_from(kinds.len()).unwrap_or(u8::MAX));
    for (kind, n) in kinds {
        out.push(*kind);
        out.extend_from_slice(&n.to_le_bytes());
    }
}

fn kinds(cut: &mut Cut<'_>) -> Option<Vec<(u8, u64)>> {
    let n = cut.u8()?;
    (0..n).map(|_| Some((cut.u8()?, cut.u64()?))).collect()
}

/// Appends a count; what is counted here is in memory and far below the limit.
fn size(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}
