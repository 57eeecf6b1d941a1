//! The event log: what the core decided becomes durable here, in one total order.
//!
//! A record is opaque here. The journal knows its number (`seq`, dense from 1), its time, a kind class for counting, and
//! to which supervisors it goes under which cursors. A signal is a projection of a record, so nothing is stored twice.
//! Audit rows have a numbering and a hash chain of their own, since they outlive events.
//!
//! Invariants:
//! - One [`Batch`] is one atomic step. After [`Journal::append`] returned, a crash cannot undo it; readers see it from
//!   then on and never before. Only [`Journal::write`], for the modes that do not wait (C37), shows it earlier.
//! - History is never silently shorter: numbers are dense, frames are chained by hash, and a commit head outside the
//!   store says how far the journal went. What does not fit together is refused with [`Error::Damaged`].
//! - After the first store error the journal only reads ([`Error::ReadOnly`]) until it is opened again.
//! - One owner writes; any number of threads read through [`JournalReader`], and live readers never touch the store.
//!
//! Two implementations pass the same tests: [`SledJournal`] and [`MemoryJournal`]. Absent on purpose: the meaning of a
//! record, timers, threads of its own, and a watch interface (whoever appends also wakes the readers).

mod cache;
mod check;
mod dir;
pub mod doctor;
mod error;
mod frame;
mod head;
mod index;
mod memory;
mod retention;
mod sled;
mod snapshot;
#[cfg(test)]
mod tests;

pub use error::{Damage, Error};
pub use memory::{MemoryJournal, MemoryStore};
pub use retention::{Keep, Missed, StreamInfo};
pub use sled::{Options, SledJournal, Verify};
pub use snapshot::{SnapshotRef, SnapshotWriter};

use std::sync::Arc;

/// The longest record or audit row, in bytes with its routing; a longer one is refused with [`Error::TooLarge`].
pub const MAX_RECORD: usize = 1 << 20;

/// One record as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Item {
    /// The record's number, dense from 1.
    pub seq: u64,
    /// When it was decided, in milliseconds of host time.
    pub time: u64,
    /// A class of event kinds for the counts of `EventsMissed` (C39); 0 where nothing is to be counted.
    pub kind: u8,
    /// The supervisors that it goes to, each with its cursor there. Cursors rise strictly within a supervisor.
    pub to: Vec<(u32, u64)>,
    /// The versioned record, opaque here.
    pub bytes: Vec<u8>,
}

impl Item {
    /// Returns the record's cursor in the stream of `supervisor`, if it goes there.
    #[must_use]
    pub fn cursor_of(&self, supervisor: u32) -> Option<u64> {
        self.to
            .iter()
            .find(|(number, _)| *number == supervisor)
            .map(|(_, cursor)| *cursor)
    }

    /// Returns about how much memory the record takes.
    fn weight(&self) -> usize {
        self.bytes.len() + self.to.len() * 40 + 120
    }
}

/// One audit row to append (C49).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditItem {
    /// The row's number, dense from 1.
    pub no: u64,
    /// The versioned row, opaque here.
    pub bytes: Vec<u8>,
}

/// One audit row as stored, with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The row's number, dense from 1.
    pub no: u64,
    /// The versioned row.
    pub bytes: Vec<u8>,
    /// SHA-256 over the hash before it (32 zero bytes before the first row) and `bytes`.
    pub hash: [u8; 32],
}

/// What becomes durable in one step.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Records, numbered on from [`JournalReader::last_seq`].
    pub items: Vec<Item>,
    /// Audit rows, numbered on from [`JournalReader::audit_len`].
    pub audit: Vec<AuditItem>,
    /// Retention: (supervisor, highest cursor that it no longer keeps). A floor never goes back.
    pub floors: Vec<(u32, u64)>,
    /// A state snapshot whose file is written (see [`SnapshotWriter`]) and that recovery may use from now on.
    pub snapshot: Option<SnapshotRef>,
}

impl Batch {
    /// Says whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.audit.is_empty()
            && self.floors.is_empty()
            && self.snapshot.is_none()
    }
}

/// What a supervisor's stream holds after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// Records in order, each with its cursor.
    Data {
        /// At least one if there is any, then up to the limits of the call.
        items: Vec<(u64, Arc<Item>)>,
        /// Whether more was there at the time of the call.
        more: bool,
    },
    /// Retention removed what comes next: continue after `up_to`, and report the range (C38, C39).
    Trimmed {
        /// The highest cursor that is gone.
        up_to: u64,
    },
}

/// A journal that was just opened and checked.
#[derive(Debug)]
pub struct Opened<J> {
    /// The journal.
    pub journal: J,
    /// The newest usable state snapshot: the last record that it holds, and the state's bytes. Recovery goes on with
    /// the records after it; without one, with record 1.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The epoch that cursors carry (C37).
    pub epoch: u64,
    /// Whether the journal ended cleanly, or is new. After an unclean end numbers may have been seen that were not
    /// durable yet, if the mode allows that.
    pub clean: bool,
}

/// The writing side, owned by one thread.
pub trait Journal: Send {
    /// Makes `batch` durable as one step and returns when it is on the disk.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] and [`Error::TooLarge`] refuse the batch and leave the journal as it was. Any other error
    /// makes it read-only; whether the batch became durable is then known only after the next open.
    fn append(&mut self, batch: Batch) -> Result<(), Error>;

    /// Writes `batch` as one step and shows it to readers at once; a crash before the next [`Journal::sync`] or
    /// [`Journal::append`] may take it back, with everything after it.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn write(&mut self, batch: Batch) -> Result<(), Error>;

    /// Returns when everything written is on the disk.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn sync(&mut self) -> Result<(), Error>;

    /// Returns the reading side; cheap, and usable from any thread until the journal is closed or dropped. After that
    /// what is not in memory is [`Error::Closed`].
    fn reader(&self) -> Arc<dyn JournalReader>;

    /// Returns the number of the last record, 0 before the first.
    fn last_seq(&self) -> u64;

    /// Returns the writer of state snapshots; another thread than the owner's should use it.
    fn snapshots(&self) -> Arc<dyn SnapshotWriter>;

    /// Deletes up to `max_frames` stored frames that every floor and both state snapshots have passed, and returns how
    /// many it deleted; fewer than `max_frames` means that nothing is left to do. Audit rows stay.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn sweep(&mut self, max_frames: usize) -> Result<usize, Error>;

    /// Starts a new epoch of cursors, as after a restore from a backup (C37), and returns it.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn start_epoch(&mut self) -> Result<u64, Error>;

    /// Ends the journal cleanly: everything, the commit head included, is synced. Dropping does the same, but can only
    /// log an error.
    ///
    /// # Errors
    /// Any store error.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// The reading side.
pub trait JournalReader: Send + Sync {
    /// Returns the records of a supervisor's stream after a cursor (0 for the beginning): at most `max_items`, and no
    /// more than the first one past `max_bytes` of record bytes. A cursor at or past the end gives an empty page.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the stored bytes do not fit together, or [`Error::Io`].
    fn events(
        &self,
        supervisor: u32,
        after: u64,
        max_items: usize,
        max_bytes: usize,
    ) -> Result<Page, Error>;

    /// Returns up to `max_items` records from `from_seq` on, for recovery and for operators.
    ///
    /// # Errors
    /// [`Error::Gone`] when `from_seq` is older than the log, else as [`JournalReader::events`].
    fn records(&self, from_seq: u64, max_items: usize) -> Result<Vec<Arc<Item>>, Error>;

    /// Returns up to `max` audit rows from `from_no` on.
    ///
    /// # Errors
    /// As [`JournalReader::events`].
    fn audit(&self, from_no: u64, max: usize) -> Result<Vec<AuditRow>, Error>;

    /// Returns the number of the last record, 0 before the first.
    fn last_seq(&self) -> u64;

    /// Returns the number of the oldest record that is still stored (1 in an empty journal).
    fn first_seq(&self) -> u64;

    /// Returns the number of the last audit row, 0 before the first.
    fn audit_len(&self) -> u64;

    /// Returns the hash of the last audit row (32 zero bytes before the first), to be published outside (C49).
    fn audit_head(&self) -> [u8; 32];

    /// Returns the epoch that cursors carry (C37).
    fn epoch(&self) -> u64;

    /// Returns what a supervisor's stream holds now.
    fn stream(&self, supervisor: u32) -> StreamInfo;

    /// Returns the floor that keeps of a stream what `keep` says, for [`Batch::floors`]. It never takes too much.
    fn floor_for(&self, supervisor: u32, keep: Keep) -> u64;

    /// Sums up the cursors `from..=to` of a supervisor's stream, also where they are already trimmed (C39).
    fn missed(&self, supervisor: u32, from: u64, to: u64) -> Missed;
}
