//! What can go wrong in the journal, and what to do about it.

use std::path::PathBuf;

/// Why the journal refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes do not fit together. Nothing was dropped.
    #[error(
        "the journal in {} is damaged: {what}; nothing was dropped: stop the host, run `signalbox doctor check`, then \
         `signalbox doctor repair`, and restore a backup if that does not help", .dir.display()
    )]
    Damaged {
        /// The journal's directory.
        dir: PathBuf,
        /// What does not fit.
        what: Damage,
    },
    /// The disk is full.
    #[error("the disk of the journal in {} is full: free some space, then start the host again", .dir.display())]
    Full {
        /// The journal's directory.
        dir: PathBuf,
    },
    /// Another process has the journal.
    #[error(
        "another host holds the journal directory {} ({by}): stop that host, or give this one a directory of its own",
        .dir.display()
    )]
    Locked {
        /// The journal's directory.
        dir: PathBuf,
        /// Who holds it, as far as it is known.
        by: String,
    },
    /// A newer version wrote the journal.
    #[error(
        "the journal in {} has format {found}, and this version reads up to {known}: use the version that wrote it, or \
         a newer one", .dir.display()
    )]
    Format {
        /// The journal's directory.
        dir: PathBuf,
        /// The stored format.
        found: u64,
        /// The newest format that this version reads.
        known: u64,
    },
    /// File locks and syncs cannot be trusted there.
    #[error("the journal directory {} is on a network filesystem ({kind}): put it on a local disk", .dir.display())]
    NetworkFilesystem {
        /// The journal's directory.
        dir: PathBuf,
        /// The filesystem.
        kind: &'static str,
    },
    /// An earlier store error made the journal read-only.
    #[error(
        "the journal is read-only after an earlier store error: {reason}; repair the cause and start the host again"
    )]
    ReadOnly {
        /// The first store error.
        reason: String,
    },
    /// A record or an audit row is longer than [`super::MAX_RECORD`].
    #[error("{what} has {size} bytes with its routing, and the journal takes {limit}: make it smaller", limit = super::MAX_RECORD)]
    TooLarge {
        /// The record or row.
        what: String,
        /// Its size.
        size: usize,
    },
    /// A number does not follow the last one; the caller has a fault.
    #[error(
        "{what} should be {expected} and is {found}: the batch does not continue this journal; open it again"
    )]
    OutOfOrder {
        /// Which number.
        what: String,
        /// What would have been right (at least).
        expected: u64,
        /// What came.
        found: u64,
    },
    /// Retention removed what was asked for.
    #[error("record {asked} is no longer stored: the oldest one is {first}, read from there")]
    Gone {
        /// What was asked for.
        asked: u64,
        /// The oldest record.
        first: u64,
    },
    /// The journal was closed.
    #[error("the journal is closed: open it again")]
    Closed,
    /// Any other failure of the filesystem.
    #[error("{what} failed: {source}; check the disk and the rights on the journal directory")]
    Io {
        /// What was tried.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the exit code of `serve` for this error (C48): 70 damaged, 75 full, 78 configuration, 1 anything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Damaged { .. } => 70,
            Self::Full { .. } => 75,
            Self::Format { .. } | Self::NetworkFilesystem { .. } => 78,
            _ => 1,
        }
    }
}

/// What does not fit together in a damaged journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The embedded store cannot be read.
    #[error("the store cannot be read ({0})")]
    Store(String),
    /// The journal ends before the commit head.
    #[error("it ends at {found}, and the commit head says {head}: the newest part is missing")]
    Short {
        /// Where it ends.
        found: u64,
        /// Where it must end at least.
        head: u64,
    },
    /// The audit ends before the commit head.
    #[error(
        "its audit ends at row {found}, and the commit head says {head}: the newest rows are missing"
    )]
    AuditShort {
        /// Where it ends.
        found: u64,
        /// Where it must end at least.
        head: u64,
    },
    /// There are records and no readable commit head.
    #[error("both commit heads are missing or unreadable")]
    NoHead,
    /// A number is missing.
    #[error("{what} {expected} is missing (the next one is {found})")]
    Hole {
        /// Record or audit row.
        what: &'static str,
        /// What should come.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// The hash chain is broken.
    #[error("the hash chain of {what} breaks at {at}")]
    Chain {
        /// Records or audit.
        what: &'static str,
        /// The first number behind the break.
        at: u64,
    },
    /// One frame is unreadable.
    #[error("the frame of {what} {at} is unreadable ({why})")]
    Frame {
        /// Record or audit row.
        what: &'static str,
        /// The frame's first number.
        at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A small key of the store is unreadable.
    #[error("the stored value {0} is unreadable")]
    Meta(String),
    /// Neither state snapshot is usable and the records from the first on are gone.
    #[error(
        "no state snapshot is usable ({0}), and the records from the first on are no longer stored"
    )]
    NoSnapshot(String),
}
