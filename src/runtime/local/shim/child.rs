//! Starts the program of an attempt.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Access;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::files::Spec;
use super::super::layout;
use super::super::process::{self, Mark};

/// Where programs are sought when the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A started program.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) mark: Mark,
    /// Readable once the process has ended.
    pub(super) ended: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts the program; the error says what was wrong and what to do.
pub(super) fn spawn(spec: &Spec) -> Result<Child, String> {
    let Some((name, args)) = spec.argv.split_first() else {
        return Err("the node runs no program: give it at least one word in `run`".to_owned());
    };
    if spec.make_cwd {
        layout::make_dirs(&spec.cwd).map_err(|error| {
            format!(
                "working directory {} could not be made: {error}; check space, mode and owner",
                spec.cwd.display()
            )
        })?;
    }
    match fs::metadata(&spec.cwd) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => {
            return Err(format!(
                "working directory {} is no directory; correct the node's `cwd`",
                spec.cwd.display()
            ));
        }
        Err(error) => {
            return Err(format!(
                "working directory {} cannot be used: {error}; make it or correct the node's `cwd`",
                spec.cwd.display()
            ));
        }
    }
    let program = find(name, spec)?;
    let mut child = Command::new(&program)
        .arg0(name)
        .args(args)
        .env_clear()
        .envs(&spec.env)
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| refused(name, &program, &error))?;
    watched(&mut child).map_err(|error| {
        // Nothing could tell when it ends, so it must not go on. Its own number is safe: it is not reaped.
        let _ = child.kill().and_then(|()| child.wait().map(drop));
        format!("program `{name}` was started but cannot be watched: {error}; check the limit of open files")
    })
}

fn watched(child: &mut std::process::Child) -> io::Result<Child> {
    let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
    let pid = Pid::from_raw(raw).ok_or_else(|| io::Error::other("no process id"))?;
    let missing = || io::Error::other("no pipe");
    let stdout: OwnedFd = child.stdout.take().ok_or_else(missing)?.into();
    let stderr: OwnedFd = child.stderr.take().ok_or_else(missing)?.into();
    rustix::io::ioctl_fionbio(&stdout, true)?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    Ok(Child {
        pid,
        mark: process::stat(raw)?.mark,
        ended: pidfd_open(pid, PidfdFlags::empty())?,
        stdout,
        stderr,
    })
}

/// Finds the program as the node would: by the path it declares, from its working directory.
fn find(name: &str, spec: &Spec) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(spec.cwd.join(name));
    }
    let path = spec.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let mut not_executable = None;
    for dir in path.split(':') {
        let candidate = spec.cwd.join(dir).join(name);
        if !candidate.is_file() {
            continue;
        }
        if may_execute(&candidate) {
            return Ok(candidate);
        }
        not_executable.get_or_insert(candidate);
    }
    match not_executable {
        Some(file) => Err(refused(
            name,
            &file,
            &io::ErrorKind::PermissionDenied.into(),
        )),
        None => Err(format!(
            "program `{name}` was not found in PATH={path}; install it, correct PATH, or give its full path in the node's `run`"
        )),
    }
}

fn may_execute(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn refused(name: &str, program: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::NotFound if program.exists() => {
            "the interpreter in its first line, or its loader, does not exist: install that"
        }
        io::ErrorKind::NotFound => "install it or correct the path in the node's `run`",
        io::ErrorKind::PermissionDenied => {
            "check its mode (chmod +x) and that its file system is not mounted noexec"
        }
        io::ErrorKind::ArgumentListTooLong => "pass large values in a file instead",
        io::ErrorKind::InvalidInput => "arguments and variables must not hold NUL bytes",
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => {
            "check memory and the limit of processes (ulimit -u)"
        }
        _ => "check that it is a program for this machine, or begins with #! and an interpreter",
    };
    format!(
        "program `{name}` ({}) could not be started: {error}; {hint}",
        program.display()
    )
}
