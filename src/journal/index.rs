//! The replay index: which frames hold the events of which supervisor.
//!
//! Per supervisor, the first numbers of those frames are kept delta-coded (about 3 bytes a frame) in blocks of 1,024,
//! each with its first cursor, times, bytes and counts by kind. Inside a block cursors are dense; a jump of the
//! numbering begins a new block. Blocks that retention removed leave a short summary, so that a gap can still be told
//! by kind. The map and its blocks are shared on clone, so a copy for a snapshot costs nothing to speak of.

mod stored;
mod stream;

pub(super) use stream::Stream;

use std::sync::Arc;

use super::frame::{GENESIS, Hash};
use super::{Keep, Missed, StreamInfo};

/// What one record adds to a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The first number of the record's frame.
    pub(super) frame: u64,
    pub(super) cursor: u64,
    pub(super) time: u64,
    pub(super) kind: u8,
    pub(super) bytes: u64,
}

/// The streams of all supervisors, and how far of the journal they cover.
#[derive(Debug, Clone)]
pub(super) struct Index {
    streams: imbl::OrdMap<u32, Arc<Stream>>,
    /// The last record that is covered, and the chain there.
    pub(super) last_seq: u64,
    pub(super) chain: Hash,
    /// The first number of the newest frame, 0 if there is none.
    pub(super) last_frame: u64,
    /// The last audit row that is covered, and the chain there.
    pub(super) last_audit: u64,
    pub(super) audit_chain: Hash,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            streams: imbl::OrdMap::new(),
            last_seq: 0,
            chain: GENESIS,
            last_frame: 0,
            last_audit: 0,
            audit_chain: GENESIS,
        }
    }
}

impl Index {
    /// Returns an index that knows nothing but where the journal goes on.
    pub(super) fn after(last_seq: u64, chain: Hash) -> Self {
        Self {
            last_seq,
            chain,
            ..Self::default()
        }
    }

    /// Adds a record to a supervisor's stream.
    pub(super) fn add(&mut self, supervisor: u32, entry: Entry) {
        let stream = self.streams.entry(supervisor).or_default();
        Arc::make_mut(stream).add(entry);
    }

    /// Raises a floor; returns the floor that holds now (never past the last cursor).
    pub(super) fn raise_floor(&mut self, supervisor: u32, floor: u64) -> u64 {
        let Some(stream) = self.streams.get_mut(&supervisor) else {
            return 0;
        };
        Arc::make_mut(stream).raise_floor(floor)
    }

    /// Returns a supervisor's stream.
    pub(super) fn stream(&self, supervisor: u32) -> Option<&Arc<Stream>> {
        self.streams.get(&supervisor)
    }

    /// Returns the last cursor of a supervisor, 0 before the first.
    pub(super) fn last_cursor(&self, supervisor: u32) -> u64 {
        self.stream(supervisor).map_or(0, |stream| stream.last())
    }

    /// Returns the first number of the oldest frame that some stream still keeps.
    pub(super) fn oldest_kept(&self) -> Option<u64> {
        self.streams
            .values()
            .filter_map(|stream| stream.first_frame())
            .min()
    }

    /// Returns what a stream holds.
    pub(super) fn info(&self, supervisor: u32) -> StreamInfo {
        self.stream(supervisor)
            .map(|stream| stream.info())
            .unwrap_or_default()
    }

    /// Sums up a range of cursors by kind.
    pub(super) fn missed(&self, supervisor: u32, from: u64, to: u64) -> Missed {
        match self.stream(supervisor) {
            Some(stream) => stream.missed(from, to),
            None => Missed {
                kinds: Vec::new(),
                exact: true,
            },
        }
    }

    /// Returns the floor that `keep` asks for.
    pub(super) fn floor_for(&self, supervisor: u32, keep: Keep) -> u64 {
        self.stream(supervisor)
            .map_or(0, |stream| stream.floor_for(keep))
    }
}
