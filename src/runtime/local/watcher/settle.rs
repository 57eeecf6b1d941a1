//! Settles attempts whose shim has ended, by what lies in their directories.

use std::io;
use std::path::Path;

use super::super::files::{self, Ending, ExitFile, LockFile};
use super::super::{layout, remains};
use super::Watcher;
use crate::host::runtime::{AttemptId, Exit, Report, StartAttempt, StopSignal};

/// How many shims are started for an attempt before it counts as one that cannot be started. A shim that
/// has claimed nothing has run nothing, so another one is safe.
const MAX_TRIES: u32 = 3;

impl Watcher {
    /// The shim of an attempt has ended.
    pub(super) fn on_ended(&mut self, id: &AttemptId) {
        // What it said last may have come with its end.
        self.on_hello(id);
        let Some(attempt) = self.attempts.remove(id) else {
            return;
        };
        self.sources.remove(&attempt.ended_token);
        self.sources.remove(&attempt.hello_token);
        let how = attempt.reap();
        let dir = self.layout.attempt(id);
        if attempt.tries == 0 {
            let said = attempt.said_started;
            self.settle_dir(attempt.start, attempt.listed, said);
            return;
        }
        let owner = files::read::<LockFile>(&dir.join(layout::LOCK))
            .ok()
            .flatten()
            .map(|lock| lock.shim);
        if owner.is_some() && owner == attempt.shim {
            self.settle_dir(attempt.start, attempt.listed, attempt.said_started);
        } else if dir.exists() {
            // Another shim was first: a former host's, still on its way when this host began.
            self.take_up(attempt.start, attempt.listed, attempt.pending);
        } else {
            if let Some(staging) = attempt
                .shim
                .and_then(|shim| u32::try_from(shim.pid).ok())
                .and_then(|pid| layout::staging(&dir, pid))
                && staging.exists()
                && let Err(error) = std::fs::remove_dir_all(&staging)
            {
                tracing::warn!(?id, %error, "leftover of a shim cannot be removed; check the data directory");
            }
            self.retry(attempt, how);
        }
    }

    /// Tries again with another shim, unless that is hopeless.
    fn retry(&mut self, attempt: super::Attempt, how: Option<String>) {
        let id = attempt.start.id.clone();
        let reason = if attempt.pending.is_some() {
            "told to stop before it had begun: retry the node if it is wanted after all".to_owned()
        } else if let Some(failed) = attempt.failed {
            failed
        } else if attempt.tries >= MAX_TRIES {
            format!(
                "the shim `{} shim` ended with {} before it had begun, {} times: check that this program runs",
                self.config.program.display(),
                how.unwrap_or_else(|| "an unknown end".to_owned()),
                attempt.tries
            )
        } else {
            tracing::warn!(?id, ?how, "shim ended before it had begun; trying again");
            return self.launch(attempt.start, attempt.tries + 1, None);
        };
        self.forget_live(&id);
        self.report(Report::NotStarted(id, reason));
    }

    /// Settles an attempt that is not watched.
    pub(super) fn settle(
        &mut self,
        start: StartAttempt,
        listed: bool,
        pending: Option<StopSignal>,
        failed: Option<String>,
    ) {
        if self.layout.attempt(&start.id).exists() {
            self.settle_dir(start, listed, false);
            return;
        }
        tracing::debug!(id = ?start.id, ?pending, "nothing has begun");
        self.forget_live(&start.id);
        if listed {
            let reason = failed.unwrap_or_else(|| "nothing has begun: retry the node".to_owned());
            self.report(Report::NotStarted(start.id, reason));
        }
    }

    /// Says how an attempt ended whose shim is gone, and ends what it has left behind if nobody can say.
    fn settle_dir(&mut self, start: StartAttempt, listed: bool, said_started: bool) {
        let id = start.id;
        let dir = self.layout.attempt(&id);
        let report = match read_exit(&dir) {
            Ok(Some(exit)) => {
                let ending = match exit.end {
                    Ending::Code(code) => Some(Exit::Code(code)),
                    Ending::Signal(signal) => Some(Exit::Signal(signal)),
                    Ending::NotStarted(_) => None,
                };
                if ending.is_some() && listed && !said_started {
                    self.report(Report::Started(id.clone()));
                }
                match (ending, exit.end) {
                    (Some(exit), _) => Report::Exited(id.clone(), exit),
                    (None, Ending::NotStarted(reason)) => Report::NotStarted(id.clone(), reason),
                    (None, other) => {
                        Report::Lost(id.clone(), format!("host_lost: unknown end {other:?}"))
                    }
                }
            }
            Ok(None) => lost(&dir, &id, "it left no exit"),
            Err(error) => lost(&dir, &id, &format!("its exit cannot be read: {error}")),
        };
        fail::fail_point!("proc::after_exit_before_report");
        if listed {
            self.report(report);
        } else {
            tracing::warn!(?id, end = ?report, "an attempt that no record knows has ended");
        }
        // Only now: until the report is delivered a restart must find the attempt again.
        self.forget_live(&id);
    }
}

/// Reads how an attempt ended. A machine that went down may have kept the file but not its new name.
fn read_exit(dir: &Path) -> io::Result<Option<ExitFile>> {
    match files::read(&dir.join(layout::EXIT))? {
        Some(exit) => Ok(Some(exit)),
        // Blank, half written or absent: the program had not ended, as far as the disk knows.
        None => Ok(files::read(&dir.join(layout::EXIT_TMP)).unwrap_or_default()),
    }
}

fn lost(dir: &Path, id: &AttemptId, why: &str) -> Report {
    let killed = match remains::kill(dir, id) {
        Ok(0) => "nothing of it was left running".to_owned(),
        Ok(n) => format!("{n} of its processes were killed"),
        Err(error) => {
            tracing::error!(?id, %error, "remains of a lost attempt could not be ended; look for its processes");
            format!("its processes could not be ended ({error}), look for them")
        }
    };
    Report::Lost(
        id.clone(),
        format!(
            "host_lost: the shim is gone and {why}; {killed}; look for a kill, an out-of-memory or a reboot in the system's log, then retry the node"
        ),
    )
}
