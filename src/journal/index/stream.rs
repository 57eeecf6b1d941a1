//! One supervisor's stream in the replay index.

use std::sync::Arc;

use super::Entry;
use crate::journal::{Keep, Missed, StreamInfo};

/// Frames in a block.
const BLOCK: u32 = 1024;

/// Summaries of removed blocks that a stream keeps; beyond it neighbours are merged.
const PAST: usize = 1024;

/// A run of dense cursors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first_cursor: u64,
    pub(super) events: u64,
    pub(super) first_time: u64,
    pub(super) last_time: u64,
    pub(super) bytes: u64,
    pub(super) kinds: Vec<(u8, u64)>,
    pub(super) first_frame: u64,
    /// The newest frame, not yet in `deltas`, and how many of the stream's events it holds.
    pub(super) last_frame: u64,
    pub(super) last_events: u64,
    /// Frames, the newest included.
    pub(super) frames: u32,
    /// For each frame but the newest: distance from the frame before it, and events; both as LEB128.
    pub(super) deltas: Vec<u8>,
    /// The frame before the newest, from which its distance is taken.
    pub(super) before_last: u64,
}

impl Block {
    fn begin(entry: Entry) -> Self {
        Self {
            first_cursor: entry.cursor,
            first_time: entry.time,
            first_frame: entry.frame,
            last_frame: entry.frame,
            before_last: entry.frame,
            frames: 1,
            ..Self::default()
        }
    }

    /// The highest cursor in the block.
    pub(super) fn end(&self) -> u64 {
        self.first_cursor + self.events - 1
    }

    fn add(&mut self, entry: Entry) {
        if entry.frame != self.last_frame {
            put(&mut self.deltas, self.last_frame - self.before_last);
            put(&mut self.deltas, self.last_events);
            self.before_last = self.last_frame;
            self.last_frame = entry.frame;
            self.last_events = 0;
            self.frames += 1;
        }
        self.last_events += 1;
        self.events += 1;
        self.last_time = entry.time;
        self.bytes += entry.bytes;
        count(&mut self.kinds, entry.kind, 1);
    }

    /// Returns (frame, its first cursor here, its last cursor here) of every frame, in order.
    fn each(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut rest = self.deltas.as_slice();
        let mut frame = self.first_frame;
        let mut cursor = self.first_cursor;
        let mut ended = false;
        std::iter::from_fn(move || {
            let (here, events) = match (get(&mut rest), get(&mut rest)) {
                (Some(distance), Some(events)) => (frame + distance, events),
                _ if ended => return None,
                _ => {
                    ended = true;
                    (self.last_frame, self.last_events)
                }
            };
            frame = here;
            let first = cursor;
            cursor += events;
            Some((here, first, cursor - 1))
        })
    }
}

/// What is left of removed blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) first_cursor: u64,
    pub(super) last_cursor: u64,
    pub(super) kinds: Vec<(u8, u64)>,
}

/// A supervisor's stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::journal) struct Stream {
    pub(super) floor: u64,
    pub(super) last: u64,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) past: Vec<Past>,
}

impl Stream {
    pub(super) fn add(&mut self, entry: Entry) {
        let open = self.blocks.last_mut().filter(|block| {
            block.end() + 1 == entry.cursor
                && (block.frames < BLOCK || block.last_frame == entry.frame)
        });
        match open {
            Some(block) => Arc::make_mut(block).add(entry),
            None => {
                let mut block = Block::begin(entry);
                block.add(entry);
                self.blocks.push(Arc::new(block));
            }
        }
        self.last = entry.cursor;
    }

    pub(super) fn raise_floor(&mut self, floor: u64) -> u64 {
        self.floor = self.floor.max(floor.min(self.last));
        let gone = self
            .blocks
            .partition_point(|block| block.end() <= self.floor);
        for block in self.blocks.drain(..gone) {
            self.past.push(Past {
                first_cursor: block.first_cursor,
                last_cursor: block.end(),
                kinds: block.kinds.clone(),
            });
        }
        if self.past.len() > PAST {
            self.past = self.past.chunks(2).map(merge).collect();
        }
        self.floor
    }

    /// Returns the highest cursor that retention removed.
    pub(in crate::journal) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the last cursor.
    pub(in crate::journal) fn last(&self) -> u64 {
        self.last
    }

    /// Returns up to `max` frames that hold the events after a cursor, in order.
    pub(in crate::journal) fn frames_after(&self, after: u64, max: usize) -> Vec<u64> {
        let start = self.blocks.partition_point(|block| block.end() <= after);
        let mut frames: Vec<u64> = Vec::new();
        for (frame, _, last) in self.blocks[start..].iter().flat_map(|block| block.each()) {
            // Blocks meet inside a frame when cursors jump, so a frame may come twice.
            if last > after && frames.last() != Some(&frame) {
                if frames.len() == max {
                    break;
                }
                frames.push(frame);
            }
        }
        frames
    }

    pub(super) fn first_frame(&self) -> Option<u64> {
        self.frames_after(self.floor, 1).first().copied()
    }

    pub(super) fn info(&self) -> StreamInfo {
        StreamInfo {
            floor: self.floor,
            last: self.last,
            events: self.blocks.iter().map(|block| block.events).sum(),
            bytes: self.blocks.iter().map(|block| block.bytes).sum(),
        }
    }

    pub(super) fn missed(&self, from: u64, to: u64) -> Missed {
        let past = self
            .past
            .iter()
            .map(|past| (past.first_cursor, past.last_cursor, &past.kinds));
        let kept = self
            .blocks
            .iter()
            .map(|block| (block.first_cursor, block.end(), &block.kinds));
        let mut missed = Missed {
            kinds: Vec::new(),
            exact: true,
        };
        for (first, last, kinds) in past.chain(kept) {
            if last < from || first > to {
                continue;
            }
            missed.exact &= first >= from && last <= to;
            for (kind, n) in kinds {
                count(&mut missed.kinds, *kind, *n);
            }
        }
        missed
    }

    pub(super) fn floor_for(&self, keep: Keep) -> u64 {
        let (mut events, mut bytes) = (0_u64, 0_u64);
        for block in self.blocks.iter().rev() {
            let too_old = keep.since.is_some_and(|since| block.last_time < since);
            let too_big = keep.bytes.is_some_and(|limit| bytes >= limit && bytes > 0);
            if too_old || too_big {
                return block.end();
            }
            events = events.saturating_add(block.events);
            bytes = bytes.saturating_add(block.bytes);
            if let Some(limit) = keep.events
                && events >= limit
            {
                return block.first_cursor - 1 + (events - limit);
            }
        }
        self.floor
    }
}

fn merge(pair: &[Past]) -> Past {
    let mut merged = pair.first().cloned().unwrap_or_default();
    for past in &pair[1..] {
        merged.last_cursor = past.last_cursor;
        for (kind, n) in &past.kinds {
            count(&mut merged.kinds, *kind, *n);
        }
    }
    merged
}

/// Adds to the count of a kind; kind 0 is not counted.
fn count(kinds: &mut Vec<(u8, u64)>, kind: u8, n: u64) {
    if kind == 0 {
        return;
    }
    match kinds.binary_search_by_key(&kind, |(k, _)| *k) {
        Ok(at) => kinds[at].1 += n,
        Err(at) => kinds.insert(at, (kind, n)),
    }
}

/// Appends a number as LEB128.
fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7F) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7F) as u8);
}

/// Reads a number as LEB128; `None` at the end.
fn get(rest: &mut &[u8]) -> Option<u64> {
    let mut n = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        n |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of `events` in frames of `per` records each, and what it was made from.
    fn made(events: u64, per: u64, seed: u64) -> (Stream, Vec<Entry>) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut stream = Stream::default();
        let mut entries = Vec::new();
        let (mut cursor, mut frame) = (0, 1);
        for n in 0..events {
            if n.is_multiple_of(per) {
                frame += rng.u64(1..500);
            }
            cursor += if rng.u16(..) < 60 {
                rng.u64(2..100_000)
            } else {
                1
            };
            let entry = Entry {
                frame,
                cursor,
                time: n,
                kind: rng.u8(0..4),
                bytes: rng.u64(0..1000),
            };
            stream.add(entry);
            entries.push(entry);
        }
        (stream, entries)
    }

    #[test]
    fn the_frames_after_a_cursor_are_those_that_hold_later_events() {
        for (per, seed) in [(1, 1), (3, 2), (40, 3)] {
            let (stream, entries) = made(9000, per, seed);
            for at in (0..entries.len()).step_by(307) {
                for after in [entries[at].cursor - 1, entries[at].cursor] {
                    let mut frames: Vec<u64> = entries
                        .iter()
                        .filter(|entry| entry.cursor > after)
                        .map(|entry| entry.frame)
                        .collect();
                    frames.dedup();
                    frames.truncate(50);
                    assert_eq!(stream.frames_after(after, 50), frames, "after {after}");
                }
            }
        }
    }

    #[test]
    fn counts_are_exact_at_block_borders_and_never_too_low_elsewhere() {
        let (mut stream, entries) = made(9000, 2, 4);
        let borders: Vec<(u64, u64)> = stream
            .blocks
            .iter()
            .map(|block| (block.first_cursor, block.end()))
            .collect();
        assert!(borders.len() > 4);
        stream.raise_floor(entries[6000].cursor);
        let naive = |from, to| {
            let mut kinds = Vec::new();
            for entry in entries
                .iter()
                .filter(|entry| (from..=to).contains(&entry.cursor))
            {
                count(&mut kinds, entry.kind, 1);
            }
            kinds
        };
        let (from, to) = (borders[1].0, borders[borders.len() - 2].1);
        assert_eq!(
            stream.missed(from, to),
            Missed {
                kinds: naive(from, to),
                exact: true
            }
        );
        let inside = stream.missed(from + 1, to);
        assert!(!inside.exact);
        assert_eq!(inside.kinds, naive(from, to));
    }

    #[test]
    fn many_removed_blocks_are_merged_and_still_count() {
        let mut stream = Stream::default();
        for n in 1..=5000_u64 {
            // Every jump begins a block.
            stream.add(Entry {
                frame: n,
                cursor: n * 10,
                time: n,
                kind: 1,
                bytes: 1,
            });
            stream.raise_floor(n * 10);
        }
        assert!(stream.past.len() <= PAST && stream.blocks.is_empty());
        assert_eq!(
            stream.missed(1, u64::MAX),
            Missed {
                kinds: vec![(1, 5000)],
                exact: true
            }
        );
        assert_eq!(stream.first_frame(), None);
    }

    #[test]
    fn retention_by_age_and_size_never_takes_too_much() {
        let (stream, entries) = made(9000, 1, 5);
        for at in [0, 1500, 4500, 8999] {
            let floor = stream.floor_for(Keep {
                since: Some(entries[at].time),
                ..Keep::default()
            });
            assert!(floor < entries[at].cursor);
            let kept: u64 = entries[at..].iter().map(|entry| entry.bytes).sum();
            let floor = stream.floor_for(Keep {
                bytes: Some(kept),
                ..Keep::default()
            });
            assert!(floor < entries[at].cursor || kept == 0);
        }
        let oldest = stream.floor_for(Keep {
            since: Some(8000),
            ..Keep::default()
        });
        assert!(
            oldest > entries[5000].cursor,
            "what is old enough goes, to the block"
        );
    }
}
