//! Carries output and signals while the program runs, and settles what is left when it has ended.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

use super::super::files::Ending;
use super::super::logs::BoundedLog;
use super::child::Child;
use super::claim::Claim;
use super::reap;

/// How long output may still come after the program's end while somebody else holds its streams,
/// in milliseconds.
const DRAIN_MS: u64 = 200;

/// As much as a pipe holds by default; one read takes it all.
const CHUNK: usize = 64 * 1024;

/// Follows the program to its end and says how it ended. All its output is in the logs then.
pub(super) fn until_end(child: Child, claim: &mut Claim) -> Ending {
    if let Err(error) = reap::as_they_end(child.pid) {
        claim.note("leftover processes are reaped late", &error);
    }
    let mut watch = Watch {
        out: Some(child.stdout),
        err: Some(child.stderr),
        chunk: vec![0; CHUNK],
        stopping: false,
        pid: child.pid,
        turns: 0,
        log_failed: false,
    };
    if let Err(error) = watch.run(&child.ended, claim) {
        // Without poll nothing can be carried; the end can still be waited for.
        claim.note("the program's output could not be followed", &error);
    }
    watch.settle(claim)
}

struct Watch {
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    chunk: Vec<u8>,
    /// The attempt was told to stop.
    stopping: bool,
    pid: rustix::process::Pid,
    /// Turn-overs of the logs that `logstat` knows.
    turns: u64,
    log_failed: bool,
}

#[derive(Default)]
struct Ready {
    ended: bool,
    ctl: bool,
    out: bool,
    err: bool,
}

impl Watch {
    fn run(&mut self, ended: &OwnedFd, claim: &mut Claim) -> io::Result<()> {
        loop {
            let ready = self.wait(Some(ended), claim, None)?;
            self.serve(&ready, claim);
            if ready.ended {
                return Ok(());
            }
        }
    }

    /// Waits for the next thing to do, at most this many milliseconds.
    fn wait(&self, ended: Option<&OwnedFd>, claim: &Claim, ms: Option<u64>) -> io::Result<Ready> {
        let timeout = ms.map(|ms| Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(ms.min(999)).unwrap_or(0) * 1_000_000,
        });
        let sources = [
            Some(&claim.ctl),
            ended,
            self.out.as_ref(),
            self.err.as_ref(),
        ];
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .flatten()
            .map(|fd| PollFd::new(*fd, PollFlags::IN))
            .collect();
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut results = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut of = |source: Option<&OwnedFd>| source.is_some() && results.next().unwrap_or(false);
        Ok(Ready {
            ctl: of(sources[0]),
            ended: of(sources[1]),
            out: of(sources[2]),
            err: of(sources[3]),
        })
    }

    fn serve(&mut self, ready: &Ready, claim: &mut Claim) {
        if ready.ctl {
            self.obey(claim);
        }
        if ready.out {
            let r = pump(&mut self.out, &mut claim.stdout, &mut self.chunk);
            self.logged(r, claim);
        }
        if ready.err {
            let r = pump(&mut self.err, &mut claim.stderr, &mut self.chunk);
            self.logged(r, claim);
        }
    }

    /// Passes on the signals that the host has asked for.
    fn obey(&mut self, claim: &Claim) {
        let mut asked = [0; 64];
        while let Ok(n @ 1..) = rustix::io::read(&claim.ctl, &mut asked) {
            for byte in asked.iter().take(n) {
                let signal = match *byte {
                    super::super::CTL_TERMINATE => Signal::TERM,
                    super::super::CTL_KILL => Signal::KILL,
                    // A newer host may ask for more than this shim knows.
                    other => {
                        let text = format!("byte {other} on ctl");
                        claim.note("unknown request", &io::Error::other(text));
                        continue;
                    }
                };
                self.stopping = true;
                if let Err(error) = reap::signal_group(self.pid, signal) {
                    claim.note("the process group could not be signalled", &error);
                }
            }
        }
    }

    /// Notes the first failure of the logs, and keeps `logstat` true while the tails turn over.
    fn logged(&mut self, result: io::Result<usize>, claim: &Claim) {
        if let Err(error) = result
            && !self.log_failed
        {
            self.log_failed = true;
            claim.note("output was dropped", &error);
        }
        let turns = claim.stdout.count().turns + claim.stderr.count().turns;
        if turns != self.turns {
            self.turns = turns;
            claim.record_counts();
        }
    }

    /// Takes the output that is left, ends what has to end, and reaps the program.
    fn settle(&mut self, claim: &mut Claim) -> Ending {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let ending = loop {
            match waitid(WaitId::Pid(self.pid), peek) {
                Ok(Some(status)) => {
                    break match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ending::Code(code),
                        (None, Some(signal)) => Ending::Signal(signal),
                        // Only ended processes were asked for.
                        (None, None) => Ending::Signal(0),
                    };
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(errno) => {
                    claim.note("the program's end could not be read", &errno.into());
                    return Ending::Signal(0);
                }
            }
        };
        // A program that was killed has not cleaned up after itself, whoever killed it.
        self.obey(claim);
        let mut clear = self.stopping || matches!(ending, Ending::Signal(_));
        if clear {
            self.kill_group(claim);
        }
        if let Err(error) = self.drain(claim) {
            claim.note("the last output could not be taken", &error);
        }
        if self.stopping && !clear {
            clear = true;
            self.kill_group(claim);
        }
        // Only now does the number of the program, and so that of its group, become free.
        if let Err(errno) = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED) {
            claim.note("the program could not be reaped", &errno.into());
        }
        if clear && let Err(error) = reap::sweep() {
            claim.note("leftover processes could not be ended", &error);
        }
        ending
    }

    fn kill_group(&self, claim: &Claim) {
        if let Err(error) = reap::signal_group(self.pid, Signal::KILL) {
            claim.note("the process group could not be killed", &error);
        }
    }

    /// All that was in the pipes when the program ended is taken, however long the disk needs. What others
    /// who hold the pipes write later is waited for until the limit.
    fn drain(&mut self, claim: &mut Claim) -> io::Result<()> {
        let mut owed = [owed(self.out.as_ref()), owed(self.err.as_ref())];
        let deadline = crate::clock::monotonic_ms() + DRAIN_MS;
        while self.out.is_some() || self.err.is_some() {
            let left = deadline.saturating_sub(crate::clock::monotonic_ms());
            if left == 0 && owed == [0, 0] {
                break;
            }
            let mut ready = self.wait(None, claim, Some(left))?;
            if left == 0 {
                ready.out &= owed[0] > 0;
                ready.err &= owed[1] > 0;
                if !(ready.out || ready.err) {
                    break;
                }
            }
            let before = [produced(&claim.stdout), produced(&claim.stderr)];
            self.serve(&ready, claim);
            owed[0] = owed[0].saturating_sub(produced(&claim.stdout) - before[0]);
            owed[1] = owed[1].saturating_sub(produced(&claim.stderr) - before[1]);
        }
        Ok(())
    }
}

fn produced(log: &BoundedLog) -> u64 {
    log.count().kept + log.count().dropped
}

/// How many bytes lie in a pipe.
fn owed(pipe: Option<&OwnedFd>) -> u64 {
    pipe.and_then(|fd| rustix::io::ioctl_fionread(fd).ok())
        .unwrap_or(0)
}

/// Takes what a stream has to give; forgets the stream at its end.
fn pump(from: &mut Option<OwnedFd>, log: &mut BoundedLog, chunk: &mut [u8]) -> io::Result<usize> {
    let Some(fd) = from else {
        return Ok(0);
    };
    match rustix::io::read(&*fd, &mut *chunk) {
        Ok(0) => {
            *from = None;
            Ok(0)
        }
        Ok(n) => {
            log.write(chunk.get(..n).unwrap_or_default())?;
            Ok(n)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(errno) => {
            *from = None;
            Err(errno.into())
        }
    }
}
