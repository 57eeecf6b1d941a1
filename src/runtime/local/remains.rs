//! Ends what an attempt has left behind when its shim is gone.
//!
//! A process belongs to an attempt if it is the very process that the shim has recorded, if it is in the
//! group which that process still leads, or if it is in the shim's session and was started with the three
//! variables that name the attempt. Everything else is left alone. Processes that have left the shim's
//! session after the shim was gone cannot be told from strangers and stay.

use std::io;
use std::path::Path;

use super::files::{self, LockFile, PidFile};
use super::layout;
use super::process::{self, Mark};
use crate::host::runtime::AttemptId;

/// A process may fork while the list is read; each round finds what the one before could not see.
const ROUNDS: usize = 16;

/// Kills what is left of an attempt whose shim is gone; tells how many processes were killed.
///
/// # Errors
/// The attempt's files or /proc cannot be read, or a process could not be killed.
pub(super) fn kill(dir: &Path, id: &AttemptId) -> io::Result<usize> {
    let Some(lock) = files::read::<LockFile>(&dir.join(layout::LOCK))? else {
        return Ok(0);
    };
    if lock.boot != crate::clock::boot_id()? {
        return Ok(0);
    }
    // Absent or half written when the shim was killed between start and record; the session still tells.
    let child = files::read::<PidFile>(&dir.join(layout::PID))
        .ok()
        .flatten()
        .map(|file| file.child);
    let attempt = id.attempt.to_string();
    let variables = [
        (super::ENV_EXECUTION, id.execution.as_str()),
        (super::ENV_NODE, id.node.as_str()),
        (super::ENV_ATTEMPT, attempt.as_str()),
    ];
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = find(lock.shim, child, &variables)?;
        if found.is_empty() {
            break;
        }
        for mark in found {
            killed += usize::from(process::kill(mark)?);
        }
    }
    Ok(killed)
}

/// Lists the live processes that are provably the attempt's.
fn find(shim: Mark, child: Option<Mark>, variables: &[(&str, &str)]) -> io::Result<Vec<Mark>> {
    let all = process::all()?;
    // While the leader is there, even as a zombie, its group's number can mean no other group.
    let group = child.filter(|c| all.iter().any(|p| p.mark == *c));
    Ok(all
        .into_iter()
        .filter(|p| !p.zombie && p.mark != shim)
        .filter(|p| {
            Some(p.mark) == child
                || group.is_some_and(|g| g.pid == p.group)
                || (p.session == shim.pid
                    && p.mark.start >= shim.start
                    && process::has_variables(p.mark.pid, variables))
        })
        .map(|p| p.mark)
        .collect())
}
