//! The shim: a small process that owns one attempt, so that the attempt outlives the host.
//!
//! It claims the attempt's directory, starts the program in a process group of its own, copies its output
//! to the logs, passes on signals, and leaves the end in `exit`. Its lock on `lock` is held until then.
//!
//! Invariants
//! - One shim at most gets past the claim, so the program runs at most once an attempt.
//! - Only children that were not reaped, and the group of one, are signalled: no number can mean a stranger.
//! - `exit` is complete or absent, and durable before the shim ends.
//! - The program is never stalled by a full log or disk: what cannot be written is counted as dropped.
//!
//! The shim adopts what its program leaves behind (it is a subreaper): such processes are reaped when they
//! end, and are killed with the program when the attempt was told to stop or its program died by a signal,
//! even from sessions of their own. After a program's ordinary end they are left alone; what they write
//! once the end is reported goes nowhere.
//!
//! Absent on purpose: a clock (but for the drain's limit), threads that carry data, tokio, and any retry.

mod child;
mod claim;
mod reap;
mod watch;

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use super::files::{self, Ending, ExitFile, Hello, Spec, VERSION};
use super::layout;
use claim::Claim;

/// More than any system lets a program have as arguments and environment.
const MAX_SPEC_BYTES: u64 = 64 * 1024 * 1024;

/// Runs one attempt to its end: `signalbox shim DIR`, with the spec on standard input.
///
/// The directory is the attempt's, absolute; it must not exist. Returns 0 once the attempt's end is
/// recorded or another shim has the attempt, else 1.
#[must_use]
pub fn main(dir: &Path) -> ExitCode {
    match run(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            hello(&Hello::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// What stopped a shim before the attempt had begun.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the shim got no usable spec ({0}): it is started by the host, not by hand")]
    Spec(String),
    #[error(
        "the attempt's directory {dir} could not be made ({source}): check space, mode and owner of the data directory"
    )]
    Claim { dir: String, source: io::Error },
    #[error(
        "the end of the attempt could not be written to {dir} ({source}): check space on the disk"
    )]
    Exit { dir: String, source: io::Error },
}

fn run(dir: &Path) -> Result<(), Error> {
    // A session of its own: what ends the host's terminal or group does not end the attempt. It fails only
    // for a group leader, which a hand-started shim may be and whose group is its own as well.
    let _ = rustix::process::setsid();
    let spec = read_spec()?;
    let claimed = Claim::stage(dir, &spec)
        .and_then(Claim::take)
        .map_err(|source| Error::Claim {
            dir: dir.display().to_string(),
            source,
        })?;
    let Some(mut claim) = claimed else {
        hello(&Hello::Taken);
        return Ok(());
    };
    if let Err(error) = reap::adopt() {
        claim.note("leftover processes cannot be adopted", &error);
    }
    let ending = match child::spawn(&spec) {
        Ok(child) => {
            claim.record_child(child.mark);
            hello(&Hello::Started);
            // Nothing needs the secrets from here on.
            drop(spec);
            watch::until_end(child, &mut claim)
        }
        Err(reason) => {
            hello(&Hello::NotStarted);
            Ending::NotStarted(reason)
        }
    };
    let exit = ExitFile {
        v: VERSION,
        end: ending,
        wall_ms: crate::clock::wall_ms(),
    };
    claim.finish(&exit).map_err(|source| Error::Exit {
        dir: dir.display().to_string(),
        source,
    })
}

fn read_spec() -> Result<Spec, Error> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_SPEC_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::Spec(error.to_string()))?;
    let spec: Spec =
        serde_json::from_slice(&bytes).map_err(|error| Error::Spec(error.to_string()))?;
    if spec.v != VERSION {
        return Err(Error::Spec(format!("version {} is not {VERSION}", spec.v)));
    }
    Ok(spec)
}

/// Tells the host what has become of the start. A host that is gone meanwhile finds it in the files.
fn hello(hello: &Hello) {
    if let Ok(line) = files::line(hello) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Adds a line to the file with the shim's troubles; where even that fails, nobody can be told.
fn note(dir: &Path, what: &str, error: &io::Error) {
    use std::os::unix::fs::OpenOptionsExt;
    let line = format!("{} {what}: {error}\n", crate::clock::wall_ms());
    let _ = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(dir.join(layout::TROUBLES))
        .and_then(|mut file| file.write_all(line.as_bytes()));
}
