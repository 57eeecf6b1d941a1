//! One attempt as the watcher sees it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ChildStdout;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::super::files::Hello;
use super::super::layout;
use super::super::process::Mark;
use crate::host::runtime::{StartAttempt, StopSignal};

/// More than any hello has.
const MAX_HELLO: u64 = 64 * 1024;

/// An attempt whose shim lives, or has ended and is not settled yet.
pub(super) struct Attempt {
    /// What was asked for; needed again when a shim comes to nothing.
    pub(super) start: StartAttempt,
    /// Readable once the shim has ended. Absent for a shim that cannot be seen from here.
    pub(super) shim_ended: Option<OwnedFd>,
    pub(super) ended_token: u64,
    /// The shim's number and start time.
    pub(super) shim: Option<Mark>,
    /// What this host's own shim still has to say.
    pub(super) hello: Option<ChildStdout>,
    pub(super) hello_token: u64,
    pub(super) heard: Vec<u8>,
    /// Why the shim could not claim the attempt.
    pub(super) failed: Option<String>,
    pub(super) started: bool,
    pub(super) said_started: bool,
    /// Whether a record knows the attempt; what no record knows is not reported.
    pub(super) listed: bool,
    /// A signal that could not be delivered yet.
    pub(super) pending: Option<StopSignal>,
    /// How many shims were started for it by this host; 0 for one that was taken up.
    pub(super) tries: u32,
}

impl Attempt {
    /// Whether the shim was caught before it had recorded its start, and nobody will tell.
    pub(super) fn start_is_unknown(&self) -> bool {
        self.tries == 0 && !self.started && self.listed
    }

    /// Reads what the shim says.
    pub(super) fn hear(&mut self) {
        let Some(hello) = &mut self.hello else {
            return;
        };
        let mut chunk = [0; 4096];
        let over = loop {
            match hello.read(&mut chunk) {
                Ok(0) => break true,
                Ok(n) => self
                    .heard
                    .extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) => {
                    tracing::warn!(id = ?self.start.id, %error, "the shim cannot be heard; its files tell instead");
                    break true;
                }
            }
            if self.heard.ends_with(b"\n") || self.heard.len() as u64 > MAX_HELLO {
                break true;
            }
        };
        if !over {
            return;
        }
        self.hello = None;
        match serde_json::from_slice(&self.heard) {
            Ok(Hello::Started) => self.started = true,
            Ok(Hello::Failed(reason)) => self.failed = Some(reason),
            // The files tell the rest when the shim has ended.
            Ok(Hello::NotStarted | Hello::Taken) => {}
            Err(error) => {
                tracing::debug!(id = ?self.start.id, %error, "the shim has said nothing; its files tell instead");
            }
        }
    }

    /// Asks the shim for a signal, or keeps that until the shim can take it.
    pub(super) fn stop(&mut self, dir: &Path, signal: StopSignal) {
        let byte = match signal {
            StopSignal::Terminate => super::super::CTL_TERMINATE,
            StopSignal::Kill => super::super::CTL_KILL,
        };
        let id = &self.start.id;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let sent = rustix::fs::open(dir.join(layout::CTL), flags, Mode::empty())
            .and_then(|ctl| rustix::io::write(File::from(ctl), &[byte]));
        match sent {
            Ok(_) => tracing::debug!(?id, ?signal, "signal asked for"),
            // The shim has not claimed the attempt yet.
            Err(Errno::NOENT) => {
                self.pending = super::stronger(self.pending, signal);
            }
            // The shim has ended; its report is on the way.
            Err(Errno::NXIO | Errno::PIPE) => {
                tracing::debug!(?id, ?signal, "an attempt that has ended is not signalled")
            }
            Err(errno) => {
                tracing::warn!(?id, ?signal, %errno, "signal could not be asked for; ask again")
            }
        }
    }

    /// Delivers a signal that was kept.
    pub(super) fn stop_if_pending(&mut self, dir: &Path) {
        if let Some(signal) = self.pending.take() {
            self.stop(dir, signal);
        }
    }

    /// Reaps the shim if it is a child of this process; says how it ended if so.
    pub(super) fn reap(&self) -> Option<String> {
        use std::os::fd::AsFd;
        let fd = self.shim_ended.as_ref()?;
        match waitid(
            WaitId::PidFd(fd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        ) {
            Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => format!("code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "an unknown end".to_owned(),
            }),
            // CHILD: started by a former host, and reaped by whoever adopted it.
            Ok(None) | Err(_) => None,
        }
    }
}
