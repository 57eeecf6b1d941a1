//! Starts shims, and attaches to those that live already.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, MemfdFlags};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::super::files::{self, LockFile, Spec, VERSION};
use super::super::process::{self, Mark};
use super::super::{ENV_ATTEMPT, ENV_EXECUTION, ENV_NODE, layout};
use super::attempt::Attempt;
use super::{Later, Source, Watcher};
use crate::host::runtime::{AttemptId, Report, StartAttempt, StopSignal};

/// How long a process may take from the release of its locks to its end, in milliseconds.
const LAST_STEPS_MS: u64 = 1000;

impl Watcher {
    /// Starts a shim for an attempt that has no directory.
    pub(super) fn launch(&mut self, start: StartAttempt, tries: u32, pending: Option<StopSignal>) {
        fail::fail_point!("proc::before_spawn");
        let mut child = match self.spawn(&start) {
            Ok(child) => child,
            Err(error) => {
                self.forget_live(&start.id);
                let program = self.config.program.display();
                let reason = format!(
                    "the shim `{program} shim` could not be started: {error}; check that the program is there and the limits of processes, memory and open files"
                );
                self.report(Report::NotStarted(start.id, reason));
                return;
            }
        };
        fail::fail_point!("proc::after_spawn_before_record");
        match self.watch_shim(&mut child, &start.id) {
            Ok((shim, shim_ended, ended_token, hello, hello_token)) => {
                self.attempts.insert(
                    start.id.clone(),
                    Attempt {
                        start,
                        shim_ended: Some(shim_ended),
                        ended_token,
                        shim: Some(shim),
                        hello: Some(hello),
                        hello_token,
                        heard: Vec::new(),
                        failed: None,
                        started: false,
                        said_started: false,
                        listed: true,
                        pending,
                        tries,
                    },
                );
            }
            Err(error) => {
                // Whoever cannot be watched must not run; what it has begun meanwhile counts as lost.
                let ended = child.kill().and_then(|()| child.wait());
                tracing::error!(id = ?start.id, %error, ?ended, "shim cannot be watched and was ended; check the limit of open files");
                let failed = Some(format!(
                    "its shim could not be watched: {error}; check the limit of open files"
                ));
                self.settle(start, true, pending, failed);
            }
        }
    }

    fn spawn(&self, start: &StartAttempt) -> io::Result<Child> {
        layout::create(&self.layout.live(&start.id))?;
        let spec = self.spec(start)?;
        Command::new(&self.config.program)
            .arg("shim")
            .arg(self.layout.attempt(&start.id))
            .env_clear()
            .stdin(Stdio::from(spec))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Writes the spec to memory that has no name: a shim finds all of it or none, also if the host dies now.
    fn spec(&self, start: &StartAttempt) -> io::Result<File> {
        let attempt = start.id.attempt.to_string();
        let own = [
            (ENV_EXECUTION, start.id.execution.as_str()),
            (ENV_NODE, start.id.node.as_str()),
            (ENV_ATTEMPT, attempt.as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut env: BTreeMap<String, String> = self.base_env.clone();
        env.extend(start.env.clone());
        env.extend(own);
        let work = self.layout.work(&start.id.execution);
        let spec = Spec {
            v: VERSION,
            argv: start.argv.clone(),
            env,
            cwd: start
                .cwd
                .as_ref()
                .map_or_else(|| work.clone(), |cwd| work.join(cwd)),
            make_cwd: start
                .cwd
                .as_ref()
                .is_none_or(|cwd| !PathBuf::from(cwd).is_absolute()),
            max_log_bytes: self.config.max_log_bytes,
        };
        let mut file = File::from(rustix::fs::memfd_create("spec", MemfdFlags::CLOEXEC)?);
        file.write_all(&files::line(&spec)?)?;
        file.rewind()?;
        Ok(file)
    }

    fn watch_shim(
        &mut self,
        child: &mut Child,
        id: &AttemptId,
    ) -> io::Result<(Mark, OwnedFd, u64, std::process::ChildStdout, u64)> {
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let hello = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe"))?;
        rustix::io::ioctl_fionbio(&hello, true)?;
        let mark = process::stat(pid)?.mark;
        let ended = process::open(mark)?.ok_or_else(|| io::Error::other("no such process"))?;
        let ended_token = self.watch(&ended, Source::Ended(id.clone()))?;
        let hello_token = self.watch(&hello, Source::Hello(id.clone()))?;
        Ok((mark, ended, ended_token, hello, hello_token))
    }

    /// Takes up an attempt that has a directory: attaches if its shim lives, else settles it.
    pub(super) fn take_up(
        &mut self,
        start: StartAttempt,
        listed: bool,
        pending: Option<StopSignal>,
    ) {
        match self.living_shim(&start.id) {
            Ok(Living::Gone) => self.settle(start, listed, pending, None),
            Ok(Living::Shim(mark, fd)) => self.attach(start, listed, pending, Some((mark, fd))),
            Ok(Living::Unseen) => self.attach(start, listed, pending, None),
            Err(error) => self.take_up_later(start, listed, pending, &error),
        }
    }

    /// Nothing may be said about an attempt that cannot be looked at: it may well run.
    fn take_up_later(
        &mut self,
        start: StartAttempt,
        listed: bool,
        pending: Option<StopSignal>,
        error: &io::Error,
    ) {
        tracing::error!(id = ?start.id, %error, "attempt cannot be taken up and is tried again; check disk, owner and the limit of open files");
        let later = Later {
            start,
            listed,
            pending,
        };
        self.later.insert(later.start.id.clone(), later);
    }

    /// Finds out whether somebody holds the attempt's lock, and who.
    fn living_shim(&self, id: &AttemptId) -> io::Result<Living> {
        let path = self.layout.attempt(id).join(layout::LOCK);
        let Some(lock) = files::read::<LockFile>(&path)? else {
            return Ok(Living::Gone);
        };
        let same_boot = lock.boot == crate::clock::boot_id()?;
        // A child of this process that has ended must be reaped as well, so it is opened before the lock is
        // tried.
        let shim = if same_boot {
            process::open(lock.shim)?
        } else {
            None
        };
        let file = File::open(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                reap_own(shim.as_ref());
                Ok(Living::Gone)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Ok(shim.map_or(Living::Unseen, |fd| Living::Shim(lock.shim, fd)))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn attach(
        &mut self,
        start: StartAttempt,
        listed: bool,
        pending: Option<StopSignal>,
        shim: Option<(Mark, OwnedFd)>,
    ) {
        let id = start.id.clone();
        let (mark, shim_ended) = shim.unzip();
        let watched = match &shim_ended {
            Some(fd) => self.watch(fd, Source::Ended(id.clone())),
            None => self.wait_for_lock(&id).map(|()| u64::MAX),
        };
        let ended_token = match watched {
            Ok(token) => token,
            Err(error) => return self.take_up_later(start, listed, pending, &error),
        };
        let mut attempt = Attempt {
            started: self.has_pid(&id),
            start,
            shim_ended,
            ended_token,
            shim: mark,
            hello: None,
            hello_token: u64::MAX,
            heard: Vec::new(),
            failed: None,
            said_started: false,
            listed,
            pending,
            tries: 0,
        };
        attempt.stop_if_pending(&self.layout.attempt(&id));
        self.attempts.insert(id.clone(), attempt);
        tracing::info!(?id, "attached to a running attempt");
        self.say_started(&id);
    }

    /// Waits for a shim that lives in another process namespace: only its lock can be seen from here.
    fn wait_for_lock(&self, id: &AttemptId) -> io::Result<()> {
        let file = File::open(self.layout.attempt(id).join(layout::LOCK))?;
        let (inbox, id) = (self.inbox.clone(), id.clone());
        std::thread::Builder::new()
            .name("shim-lock".to_owned())
            .spawn(move || {
                while rustix::fs::flock(&file, FlockOperation::LockShared)
                    == Err(rustix::io::Errno::INTR)
                {}
                inbox.push(super::Command::Released(id));
            })
            .map(drop)
    }
}

/// Who holds the lock of an attempt.
enum Living {
    /// Nobody.
    Gone,
    /// This shim.
    Shim(Mark, OwnedFd),
    /// Somebody who cannot be seen from here.
    Unseen,
}

/// Reaps a shim that this very process had started under a former runtime. It has released its lock, so it
/// is at its last steps or over.
fn reap_own(shim: Option<&OwnedFd>) {
    let Some(fd) = shim else {
        return;
    };
    if let Err(error) = process::ended_within(fd, LAST_STEPS_MS) {
        tracing::warn!(%error, "a former shim cannot be waited for");
    }
    // Not a child of this process: nothing to reap.
    let _ = waitid(
        WaitId::PidFd(fd.as_fd()),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    );
}
