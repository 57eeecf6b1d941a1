//! Reaps and, when told to, kills the processes that a shim has adopted.

use std::io;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper,
    waitid, waitpid,
};

use super::super::process;

/// How long killed processes may take to end, in milliseconds. Longer only where the kernel holds them.
const SWEEP_MS: u64 = 2000;

/// Makes the shim the parent of what its program will leave behind. Before the program starts, so that
/// nothing can slip away.
pub(super) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Reaps adopted processes as they end, until the program itself has ended. Where a thread cannot be had
/// they are reaped at the shim's end instead.
pub(super) fn as_they_end(leader: Pid) -> io::Result<()> {
    std::thread::Builder::new()
        .name("reaper".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || reap_until(leader))
        .map(drop)
}

fn reap_until(leader: Pid) {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    // Any error means that there is no child at all.
    while waitid(WaitId::All, peek).is_ok() {
        let leader_ended = !matches!(
            waitid(WaitId::Pid(leader), peek | WaitIdOptions::NOHANG),
            Ok(None)
        );
        // Without progress this would be a busy loop; what is left is reaped at the end.
        if leader_ended || reap_all_but(leader) == 0 {
            return;
        }
    }
}

fn reap_all_but(leader: Pid) -> usize {
    let children = process::own_children().unwrap_or_default();
    children
        .into_iter()
        .filter_map(Pid::from_raw)
        .filter(|pid| *pid != leader)
        .filter(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))))
        .count()
}

/// Kills every process that the shim has adopted, and what these leave behind in turn, until none is left.
/// The program itself must have been reaped.
pub(super) fn sweep() -> io::Result<()> {
    let deadline = crate::clock::monotonic_ms() + SWEEP_MS;
    loop {
        let children = process::own_children()?;
        if children.is_empty() {
            return Ok(());
        }
        let mut refused = Ok(());
        let mut progress = false;
        let marks: Vec<_> = children
            .into_iter()
            .filter_map(|pid| process::stat(pid).ok())
            .collect();
        for child in &marks {
            match process::kill(child.mark) {
                Ok(_) => {}
                Err(error) => refused = Err(error),
            }
        }
        for child in &marks {
            if let Some(fd) = process::open(child.mark)? {
                let left = deadline.saturating_sub(crate::clock::monotonic_ms());
                progress |= process::ended_within(&fd, left)?;
            }
            if let Some(pid) = Pid::from_raw(child.mark.pid) {
                progress |= matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)));
            }
        }
        refused?;
        if !progress && crate::clock::monotonic_ms() >= deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "killed processes do not end; see their state D in ps",
            ));
        }
    }
}

/// Signals the program's group. The program must not have been reaped: its number keeps the group's.
pub(super) fn signal_group(leader: Pid, signal: Signal) -> io::Result<()> {
    match rustix::process::kill_process_group(leader, signal) {
        // A group of zombies takes no signal.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        // One member that may not be signalled hides whether the others were: make sure of the leader.
        Err(errno) => match kill_process(leader, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(_) => Err(errno.into()),
        },
    }
}
