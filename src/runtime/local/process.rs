//! What /proc says about processes, and signals that reach only the process that was meant.
//!
//! A process id alone names nobody: it is used again after its owner was reaped. Here a process is named
//! by id and start time together, and signalled through a descriptor that was compared with both.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of one boot: its id, and its start time in clock ticks since the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) pid: i32,
    pub(super) start: u64,
}

/// The part of /proc/\<pid\>/stat that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) mark: Mark,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Whether the process has ended and waits to be reaped.
    pub(super) zombie: bool,
}

/// Reads the state of a process.
///
/// # Errors
/// The process does not exist (any more), or /proc cannot be read.
pub(super) fn stat(pid: i32) -> io::Result<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(pid, &String::from_utf8_lossy(&text)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "unknown form of /proc/<pid>/stat",
        )
    })
}

/// The command name may hold spaces and brackets, so the fields are counted from the last bracket on.
fn parse_stat(pid: i32, text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        mark: Mark {
            pid,
            start: fields.get(19)?.parse().ok()?,
        },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// Reads the state of every process that can be seen.
///
/// # Errors
/// /proc cannot be read.
pub(super) fn all() -> io::Result<Vec<Stat>> {
    Ok(numbers_in("/proc")?
        .into_iter()
        // A process that ended since the listing is no error.
        .filter_map(|pid| stat(pid).ok())
        .collect())
}

/// Lists the children of the calling process, zombies included.
///
/// # Errors
/// /proc cannot be read.
pub(super) fn own_children() -> io::Result<Vec<i32>> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut children = Vec::new();
    for thread in numbers_in("/proc/self/task")? {
        match fs::read_to_string(format!("/proc/self/task/{thread}/children")) {
            Ok(text) => children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|p| p.parse::<i32>().ok()),
            ),
            // Kernels may be built without this file.
            Err(_) => {
                return Ok(all()?
                    .into_iter()
                    .filter(|p| p.parent == me)
                    .map(|p| p.mark.pid)
                    .collect());
            }
        }
    }
    Ok(children)
}

/// Tells whether a process was started with these variables; `false` when it cannot be read.
pub(super) fn has_variables(pid: i32, variables: &[(&str, &str)]) -> bool {
    let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let entries: Vec<&[u8]> = environ.split(|b| *b == 0).collect();
    variables
        .iter()
        .all(|(name, value)| entries.contains(&format!("{name}={value}").as_bytes()))
}

/// Opens a descriptor of exactly this process; `None` when it is gone. A zombie is still there.
///
/// # Errors
/// No descriptor could be opened, for instance because the process has too many.
pub(super) fn open(mark: Mark) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(mark.pid) else {
        return Ok(None);
    };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Compared after the opening: from here on the descriptor cannot come to mean another process.
    Ok(stat(mark.pid)
        .is_ok_and(|now| now.mark == mark)
        .then_some(fd))
}

/// Kills exactly this process; `false` when it was gone already.
///
/// # Errors
/// The kernel refuses, for instance because the process runs as another user.
pub(super) fn kill(mark: Mark) -> io::Result<bool> {
    let Some(fd) = open(mark)? else {
        return Ok(false);
    };
    match pidfd_send_signal(&fd, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits for the end of a process, at most this many milliseconds; tells whether it has ended.
///
/// # Errors
/// The kernel cannot wait.
pub(super) fn ended_within(process: &OwnedFd, ms: u64) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Lists the entries of a directory whose names are numbers.
fn numbers_in(dir: &str) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        if let Some(number) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b) S 1 7 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 2";
        let stat = parse_stat(7, text).expect("parses");
        assert_eq!(
            (stat.parent, stat.group, stat.session, stat.mark.start),
            (1, 7, 5, 4711)
        );
        assert!(!stat.zombie);
    }

    #[test]
    fn a_process_with_another_start_time_is_somebody_else() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let mine = stat(pid).expect("own stat").mark;
        assert!(open(mine).expect("opens").is_some());
        let other = Mark {
            start: mine.start + 1,
            ..mine
        };
        assert!(open(other).expect("answers").is_none());
        assert!(!kill(other).expect("answers"));
    }
}
