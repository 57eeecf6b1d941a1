//! What a stream holds, what it lost, and what it should keep.

/// What a supervisor's stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamInfo {
    /// The highest cursor that retention removed, 0 if none.
    pub floor: u64,
    /// The last cursor, 0 before the first.
    pub last: u64,
    /// How many records the stream keeps; exact to the stored block, never too low.
    pub events: u64,
    /// How many record bytes it keeps; exact to the stored block, never too low.
    pub bytes: u64,
}

/// What a range of cursors held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missed {
    /// Counts by kind class, ascending; kind 0 is not counted.
    pub kinds: Vec<(u8, u64)>,
    /// Whether the counts are exact. They are not where a border of the range is inside a stored block; then they are
    /// the counts of all blocks that the range touches.
    pub exact: bool,
}

/// What retention keeps of one stream (C40); the tightest limit decides, `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Keep what was recorded at this host time (milliseconds) or later; to the stored block.
    pub since: Option<u64>,
    /// Keep this many records, exactly.
    pub events: Option<u64>,
    /// Keep this many record bytes at least; to the stored block.
    pub bytes: Option<u64>,
}
