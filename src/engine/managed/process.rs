//! One process of a managed engine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, Command};

use crate::contract::definition::SupervisorDef;
use crate::contract::id::SupervisorId;
use crate::host::credentials::Token;

use super::output;

/// What a process takes over from the host's own environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
/// The command word that means the host's own program.
const OWN: &str = "signalbox";

/// How to start an engine.
pub(super) struct Recipe {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    env: BTreeMap<String, OsString>,
}

impl Recipe {
    /// Takes it from a definition.
    pub fn new(def: &SupervisorDef, addr: &str, data_dir: &Path, own: &Path) -> Self {
        let mut words = def.engine.command.iter().cloned();
        let word = words.next().unwrap_or_default();
        let program = if word == OWN {
            own.to_owned()
        } else if word.contains('/') {
            // Said here, since a relative path could also be meant from the host's own directory.
            data_dir.join(&word)
        } else {
            PathBuf::from(&word)
        };
        let inherited = INHERITED
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
        let mut env: BTreeMap<String, OsString> = inherited.collect();
        env.extend(def.engine.env.iter().map(|(k, v)| (k.clone(), v.into())));
        env.insert("SIGNALBOX_ENGINE_ADDR".into(), addr.into());
        env.insert("SIGNALBOX_SUPERVISOR".into(), def.id.as_str().into());
        env.insert("SIGNALBOX_MANAGED".into(), "1".into());
        Self {
            program,
            arguments: words.collect(),
            directory: data_dir.to_owned(),
            env,
        }
    }

    /// Returns the program, for messages.
    pub fn name(&self) -> std::path::Display<'_> {
        self.program.display()
    }
}

/// A process that runs. Dropping it kills its whole group.
pub(super) struct Process {
    child: Child,
    group: Group,
    /// Open as long as the host lives: its end tells the engine that the host has gone.
    stdin: Option<ChildStdin>,
}

/// A process group that is killed when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        // A group that has ended needs no signal.
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Process {
    /// Starts an engine.
    pub fn start(
        supervisor: &SupervisorId,
        recipe: &Recipe,
        token: &Token,
    ) -> std::io::Result<Self> {
        let mut child = Command::new(&recipe.program)
            .args(&recipe.arguments)
            .current_dir(&recipe.directory)
            .env_clear()
            .envs(&recipe.env)
            .env("SIGNALBOX_ENGINE_TOKEN", token.reveal())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Group(pid.and_then(Pid::from_raw));
        tracing::info!(%supervisor, program = %recipe.name(), pid, "managed engine started");
        // The readers end with the process's output, and so with its whole group.
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(output::log(supervisor.clone(), "stdout", stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(output::log(supervisor.clone(), "stderr", stderr));
        }
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            group,
            stdin,
        })
    }

    /// Waits until the process has ended, kills what it left behind, and says how it ended.
    pub async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        self.group.signal(Signal::KILL);
        self.group.0 = None;
        match status {
            Ok(status) => describe(status),
            Err(error) => format!("its end cannot be seen: {error}"),
        }
    }

    /// Ends the process: end of input and SIGTERM, then after the grace SIGKILL.
    pub async fn stop(mut self, grace: Duration) {
        drop(self.stdin.take());
        self.group.signal(Signal::TERM);
        if tokio::time::timeout(grace, self.ended()).await.is_err() {
            tracing::warn!(
                grace_ms = u64::try_from(grace.as_millis()).ok(),
                "managed engine does not end; killed"
            );
            self.group.signal(Signal::KILL);
            self.ended().await;
        }
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit code {code}"),
        (None, Some(signal)) => format!("its process was ended by signal {signal}"),
        (None, None) => format!("its process ended: {status}"),
    }
}

#[cfg(test)]
mod tests;
