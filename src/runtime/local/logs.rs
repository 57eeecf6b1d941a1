//! The bounded logs of an attempt: what the shim writes and what an operator reads.
//!
//! Of each stream the first half of the limit is kept in `<stream>.log`; what follows goes to
//! `<stream>.tail`, which becomes `<stream>.tail.old` when it holds a quarter of the limit, in place of the
//! one before. Nothing is lost uncounted: kept + dropped = produced, at any moment, in `logstat`.
//! Bytes stay as they came. Absent on purpose: redaction, lines and encodings, which are the reader's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::VERSION;
use super::layout::{self, Layout};
use crate::host::runtime::AttemptId;

/// Names the file with the counts.
const LOGSTAT: &str = "logstat";

/// How often a reader starts again because the log turned over while it was read.
const READ_TRIES: usize = 5;

/// One of the two output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The stream's name: `stdout` or `stderr`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    fn path(self, dir: &Path, part: &str) -> PathBuf {
        dir.join(format!("{}.{part}", self.name()))
    }
}

/// The counts of one stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    /// Bytes in the files. Exact at the end; while the process runs the files' sizes tell.
    pub(super) kept: u64,
    /// Bytes that were produced and are in no file any more.
    pub(super) dropped: u64,
    /// How often the tail was turned over.
    pub(super) turns: u64,
}

/// The content of `logstat`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogStat {
    pub(super) v: u32,
    pub(super) stdout: Count,
    pub(super) stderr: Count,
}

/// Writes `logstat` in place: one short write of a fixed length needs no space on a full disk.
pub(super) struct StatFile(File);

impl StatFile {
    /// Creates the file with all counts zero.
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        let file = Self(layout::create(&dir.join(LOGSTAT))?);
        file.write(Count::default(), Count::default())?;
        Ok(file)
    }

    /// Replaces the counts.
    pub(super) fn write(&self, stdout: Count, stderr: Count) -> io::Result<()> {
        let stat = LogStat {
            v: VERSION,
            stdout,
            stderr,
        };
        let mut text = serde_json::to_vec(&stat).map_err(io::Error::other)?;
        text.resize(text.len().max(255), b' ');
        text.push(b'\n');
        self.0.write_all_at(&text, 0)
    }
}

/// Writes one stream, within its limit.
pub(super) struct BoundedLog {
    dir: PathBuf,
    stream: Stream,
    head: File,
    head_room: u64,
    /// The file that is written now, and its length.
    tail: Option<(File, u64)>,
    old_len: u64,
    /// The length at which a tail is turned over.
    turn_at: u64,
    count: Count,
}

impl BoundedLog {
    /// Creates the stream's log, of which at most `limit` bytes are kept.
    pub(super) fn create(dir: &Path, stream: Stream, limit: u64) -> io::Result<Self> {
        Ok(Self {
            head: layout::create(&stream.path(dir, "log"))?,
            dir: dir.to_owned(),
            stream,
            head_room: limit - limit / 4 * 2,
            tail: None,
            old_len: 0,
            turn_at: limit / 4,
            count: Count::default(),
        })
    }

    /// The counts so far.
    pub(super) fn count(&self) -> Count {
        self.count
    }

    /// Follows a rename of the directory.
    pub(super) fn moved_to(&mut self, dir: &Path) {
        dir.clone_into(&mut self.dir);
    }

    /// Takes bytes. What cannot be written counts as dropped; the first error is returned when all is counted.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut first_error = Ok(());
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.count.dropped += bytes.len() as u64;
                    bytes = &[];
                    first_error = Err(error);
                }
            }
        }
        first_error
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.head_room > 0 {
            let n = self.head.write(upto(bytes, self.head_room))?;
            self.head_room -= n as u64;
            return self.wrote(n);
        }
        if self.turn_at == 0 {
            self.count.dropped += bytes.len() as u64;
            return Ok(bytes.len());
        }
        if self
            .tail
            .as_ref()
            .is_none_or(|(_, len)| *len >= self.turn_at)
        {
            self.turn()?;
        }
        let Some((file, len)) = &mut self.tail else {
            return Err(io::Error::other("the log has no tail"));
        };
        let n = file.write(upto(bytes, self.turn_at - *len))?;
        *len += n as u64;
        self.wrote(n)
    }

    fn wrote(&mut self, n: usize) -> io::Result<usize> {
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.count.kept += n as u64;
        Ok(n)
    }

    fn turn(&mut self) -> io::Result<()> {
        let path = self.stream.path(&self.dir, "tail");
        if let Some((_, len)) = &self.tail {
            fs::rename(&path, self.stream.path(&self.dir, "tail.old"))?;
            self.count.kept -= self.old_len;
            self.count.dropped += self.old_len;
            self.count.turns += 1;
            self.old_len = *len;
            self.tail = None;
        }
        self.tail = Some((layout::create(&path)?, 0));
        Ok(())
    }
}

fn upto(bytes: &[u8], room: u64) -> &[u8] {
    let n = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(..n).unwrap_or(bytes)
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// The last kept bytes, as they were produced.
    pub bytes: Vec<u8>,
    /// All bytes that the process has produced.
    pub total: u64,
    /// How many of those are kept no more.
    pub dropped: u64,
    /// Where in `bytes` the dropped ones are missing, if that place is within them.
    pub gap_at: Option<usize>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A name is not one of the contract's (C2).
    #[error("{0}")]
    BadId(String),
    /// The attempt has no directory.
    #[error(
        "attempt {attempt} of node {node} of execution {execution} has no log: check the numbers, or wait until it has started"
    )]
    NoLog {
        /// The execution's id.
        execution: String,
        /// The node's id.
        node: String,
        /// The attempt's number.
        attempt: u32,
    },
    /// The files cannot be read.
    #[error("log {path} cannot be read: check the disk and the directory's owner")]
    Io {
        /// The attempt's directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Reads the last bytes of a log, at most `tail_bytes` of them, also while the process runs.
///
/// # Errors
/// [`ReadError`]: a bad name, no such attempt, or unreadable files.
pub fn read_log(
    data_dir: &Path,
    execution: &str,
    node: &str,
    attempt: u32,
    stream: Stream,
    tail_bytes: u64,
) -> Result<LogTail, ReadError> {
    let id = AttemptId {
        execution: execution.to_owned(),
        node: node.to_owned(),
        attempt,
    };
    layout::check_id(&id).map_err(ReadError::BadId)?;
    let dir = Layout::new(data_dir).attempt(&id);
    match read_tail(&dir, stream, tail_bytes) {
        Ok(tail) => Ok(tail),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ReadError::NoLog {
            execution: id.execution,
            node: id.node,
            attempt,
        }),
        Err(source) => Err(ReadError::Io { path: dir, source }),
    }
}

fn read_stat(dir: &Path, stream: Stream) -> io::Result<Count> {
    let stat = super::files::read::<LogStat>(&dir.join(LOGSTAT))?.ok_or(io::ErrorKind::NotFound)?;
    Ok(match stream {
        Stream::Stdout => stat.stdout,
        Stream::Stderr => stat.stderr,
    })
}

fn read_tail(dir: &Path, stream: Stream, tail_bytes: u64) -> io::Result<LogTail> {
    let mut tries = 0;
    loop {
        let before = read_stat(dir, stream)?;
        let mut parts = vec![File::open(stream.path(dir, "log"))?];
        for part in ["tail.old", "tail"] {
            match File::open(stream.path(dir, part)) {
                Ok(file) => parts.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        tries += 1;
        if read_stat(dir, stream)?.turns == before.turns || tries == READ_TRIES {
            return collect(&parts, before.dropped, tail_bytes);
        }
    }
}

fn collect(parts: &[File], dropped: u64, tail_bytes: u64) -> io::Result<LogTail> {
    let mut sizes = Vec::with_capacity(parts.len());
    for part in parts {
        sizes.push(part.metadata()?.len());
    }
    let kept: u64 = sizes.iter().sum();
    let mut skip = kept.saturating_sub(tail_bytes);
    let mut bytes = Vec::new();
    let mut gap_at = None;
    for (index, (part, size)) in parts.iter().zip(&sizes).enumerate() {
        let from = skip.min(*size);
        skip -= from;
        let start = bytes.len();
        // The dropped bytes came after the head.
        if index == 1 && dropped > 0 && from == 0 {
            gap_at = Some(start);
        }
        let more = usize::try_from(size - from).map_err(io::Error::other)?;
        bytes.resize(start + more, 0);
        if let Some(room) = bytes.get_mut(start..) {
            part.read_exact_at(room, from)?;
        }
    }
    Ok(LogTail {
        bytes,
        total: kept + dropped,
        dropped,
        gap_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(limit: u64, chunks: &[&[u8]]) -> (tempfile::TempDir, Count) {
        let dir = tempfile::tempdir().expect("a directory");
        let stat = StatFile::create(dir.path()).expect("logstat");
        let mut log = BoundedLog::create(dir.path(), Stream::Stdout, limit).expect("log");
        for chunk in chunks {
            log.write(chunk).expect("writes");
        }
        stat.write(log.count(), Count::default()).expect("counts");
        (dir, log.count())
    }

    #[test]
    fn below_the_limit_everything_is_kept() {
        let (dir, count) = written(100, &[b"hello ", b"world"]);
        let tail = read_tail(dir.path(), Stream::Stdout, 1000).expect("reads");
        assert_eq!(tail.bytes, b"hello world");
        assert_eq!(
            (count.kept, count.dropped, tail.total, tail.gap_at),
            (11, 0, 11, None)
        );
    }

    #[test]
    fn above_the_limit_head_and_end_are_kept_and_the_rest_is_counted() {
        let all: Vec<u8> = (0..1003_u32).map(|n| n as u8).collect();
        for chunk in [1, 7, 64, 1003] {
            let chunks: Vec<&[u8]> = all.chunks(chunk).collect();
            let (dir, count) = written(100, &chunks);
            assert_eq!(count.kept + count.dropped, 1003);
            assert!(count.kept <= 100, "{count:?}");
            let tail = read_tail(dir.path(), Stream::Stdout, 1000).expect("reads");
            assert_eq!(tail.total, 1003);
            assert_eq!(tail.bytes.len() as u64, count.kept);
            assert_eq!(tail.gap_at, Some(50));
            assert_eq!(&tail.bytes[..50], &all[..50]);
            let end = tail.bytes.len() - 50;
            assert_eq!(&tail.bytes[50..], &all[1003 - end..]);
        }
    }

    #[test]
    fn a_short_tail_is_the_last_bytes() {
        let (dir, _) = written(100, &[b"abcdef"]);
        let tail = read_tail(dir.path(), Stream::Stdout, 2).expect("reads");
        assert_eq!((tail.bytes.as_slice(), tail.total), (b"ef".as_slice(), 6));
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing_and_counts_all() {
        let (_dir, count) = written(0, &[b"abc", b"defg"]);
        assert_eq!((count.kept, count.dropped), (0, 7));
    }

    #[test]
    fn a_name_that_is_no_id_is_refused_before_it_becomes_a_path() {
        let error = read_log(Path::new("/nowhere"), "..", "n", 1, Stream::Stdout, 1);
        assert!(matches!(error, Err(ReadError::BadId(_))));
        let error = read_log(Path::new("/nowhere"), "x1", "n", 1, Stream::Stdout, 1);
        assert!(matches!(error, Err(ReadError::NoLog { .. })));
    }
}
