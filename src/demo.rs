//! The demo: a real run on real input, governed by an engine in another process.
//!
//! Its files are part of the program, so it works from any directory. It starts a whole host in this process, starts
//! the run, tries to stop it at a bad moment, and tells what happened and why. Everything it does stands in the
//! journal below its data directory, so a host that is started on it later goes on where this one ended.

pub mod data;
mod show;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::contract::code::Code;
use crate::contract::directive::{Actor, Args, Command};
use crate::contract::id::{BadId, ExecutionId, SupervisorId};
use crate::contract::operation::Op;
use crate::contract::outcome::{Answer, Outcome};
use crate::contract::signal::{Event, EventKind};
use crate::contract::status::RunStatus;
use crate::core::audit::AuditEntry;
use crate::core::effect::Refusal;
use crate::core::projection;
use crate::core::record::{self, Entry};
use crate::host::HostHandle;
use crate::journal;
use crate::server::{self, Running};
use show::Show;

/// How long the engine may take to connect.
const ENGINE_TIME: Duration = Duration::from_secs(30);
/// How long the whole run may take; the workflow's own timeout is shorter.
const RUN_TIME: Duration = Duration::from_secs(15 * 60);
/// How many records are read at once.
const READ: usize = 256;

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be written or read.
    #[error("{} cannot be written or read ({source}): check the directory's rights and space, or give another with --data-dir", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The host.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A stored record.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A name of the demo's own.
    #[error(transparent)]
    Id(#[from] BadId),
    /// The host refused something.
    #[error("the host refused: {}; try again with another --data-dir", .0.message)]
    Refused(Refusal),
    /// A command was refused.
    #[error("{0}")]
    Command(String),
    /// Something did not happen in time.
    #[error("{0} did not happen in time; the host's log above says more")]
    Late(&'static str),
    /// The run ended otherwise than it should.
    #[error(
        "the run ended {0}; look at `signalbox run show` and `signalbox run logs` with the serve command below"
    )]
    Ended(RunStatus),
    /// The report is not the one that it must be.
    #[error("the report's checksum is {found}, it must be {wanted}; please report it")]
    Checksum {
        /// What it is.
        found: String,
        /// What it must be.
        wanted: &'static str,
    },
}

impl Error {
    /// Returns the exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Server(error) => error.exit_code(),
            Self::Journal(error) => error.exit_code(),
            _ => 1,
        }
    }
}

/// Runs the demo in this data directory, or in one of the machine's temporary directory that is always the same.
///
/// # Errors
/// See [`Error`]: anything that keeps the report from being made, and being the right one.
pub async fn run(data_dir: Option<PathBuf>) -> Result<(), Error> {
    let uid = rustix::process::getuid().as_raw();
    let dir =
        data_dir.unwrap_or_else(|| std::env::temp_dir().join(format!("signalbox-demo-{uid}")));
    let dir = write_files(&dir)?;
    let mut config = Config {
        data_dir: dir.clone(),
        ..Config::default()
    };
    config.grpc.listen.set_port(0);
    config.http.listen.set_port(0);
    let running = server::start(&config).await?;
    let result = play(&running, &dir).await;
    // Whatever happened, the host ends cleanly.
    let stopped = running.until(std::future::ready(())).await;
    let program = program_text();
    println!(
        "\nTo look further: {program} serve --data-dir {}",
        dir.display()
    );
    println!("then `{program} run list`, `… run show ID`, `… audit`, from any other terminal.");
    result?;
    Ok(stopped?)
}

/// Returns how this program is called.
fn program_text() -> String {
    std::env::current_exe().map_or_else(|_| "signalbox".to_owned(), |p| p.display().to_string())
}

/// Writes the definitions, the tools and the log; returns the directory's whole path.
fn write_files(dir: &Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed(dir))?;
    let dir = dir.canonicalize().map_err(failed(dir))?;
    let program = std::env::current_exe().map_err(failed(Path::new("the program itself")))?;
    let (dir_text, program_text) = (dir.to_string_lossy(), program.to_string_lossy());
    for (name, text) in data::FILES {
        let text = data::filled(text, &dir_text, &program_text);
        write(&dir.join(name), |out| out.write_all(text.as_bytes()))?;
    }
    write(&dir.join(data::LOG_PATH), |out| {
        data::write_access_log(out, data::SEED).map(|_| ())
    })?;
    Ok(dir)
}

/// Writes a file whole or not at all.
fn write(
    path: &Path,
    fill: impl FnOnce(&mut std::io::BufWriter<std::fs::File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let new = path.with_extension("new");
    let work = || {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut out = std::io::BufWriter::new(std::fs::File::create(&new)?);
        fill(&mut out)?;
        out.flush()?;
        std::fs::rename(&new, path)
    };
    work().map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// Starts the run, follows it to its end, and checks what came of it.
async fn play(running: &Running, dir: &Path) -> Result<(), Error> {
    let host = &running.host;
    let report = dir.join(data::REPORT_PATH);
    match std::fs::remove_file(&report) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::File {
                path: report,
                source,
            });
        }
        _ => {}
    }
    let mut show = Show::new();
    show.line(&format!(
        "host: engines at {}, operators at {}",
        running.grpc, running.http
    ));
    let (program, data) = (program_text(), dir.display());
    show.line(&format!(
        "if it is killed, this goes on: {program} serve --data-dir {data}"
    ));
    let supervisor: SupervisorId = "report".parse()?;
    engine_is_there(host, &supervisor).await?;
    show.line("engine: `signalbox engine rules` is connected, in a process of its own");
    let answer = command(
        host,
        Op::RunStart,
        &format!("workflow:{}", data::WORKFLOW),
        "show what Signalbox does",
    )
    .await?;
    let id = started(&answer)?;
    show.line(&format!("run {id} of workflow {} started", data::WORKFLOW));
    let status = tokio::time::timeout(RUN_TIME, follow(host, id, &mut show))
        .await
        .map_err(|_| Error::Late("the end of the run"))??;
    show.done();
    decisions(host, id)?;
    if status != RunStatus::Succeeded {
        return Err(Error::Ended(status));
    }
    let bytes = std::fs::read(&report).map_err(|source| Error::File {
        path: report.clone(),
        source,
    })?;
    let found: String = Sha256::digest(&bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    if found != data::REPORT_SHA256 {
        return Err(Error::Checksum {
            found,
            wanted: data::REPORT_SHA256,
        });
    }
    println!(
        "\nThe report is right (sha256 {}…): {}",
        &found[..16],
        report.display()
    );
    Ok(())
}

/// Waits until the engine has a session in this host.
async fn engine_is_there(host: &HostHandle, id: &SupervisorId) -> Result<(), Error> {
    let newest = |view: &crate::host::View| {
        view.supervisor(id)
            .and_then(|s| s.newest_session)
            .map(|(_, at)| at)
    };
    let opened = host
        .view()
        .await
        .map_err(Error::Refused)?
        .opened
        .as_ref()
        .map(|(_, _, at)| *at);
    let mut changes = host.last_seq();
    let wait = async {
        loop {
            let view = host.view().await.map_err(Error::Refused)?;
            if newest(&view) >= opened && newest(&view).is_some() {
                return Ok(());
            }
            if changes.changed().await.is_err() {
                return Err(Error::Late("the engine's connection"));
            }
        }
    };
    tokio::time::timeout(ENGINE_TIME, wait)
        .await
        .map_err(|_| Error::Late("the engine's connection"))?
}

async fn command(host: &HostHandle, op: Op, target: &str, reason: &str) -> Result<Answer, Error> {
    let actor = Actor {
        kind: "USER".into(),
        id: "demo".into(),
    };
    let command = Command {
        op: op.as_str().into(),
        target: target.into(),
        args: Args::new(),
        if_status: None,
    };
    host.command(actor, command, Some(reason.into()), None)
        .await
        .map_err(Error::Refused)
}

fn started(answer: &Answer) -> Result<ExecutionId, Error> {
    match answer.targets.first() {
        Some(target) if target.outcome == Outcome::Applied => {
            Ok(target.target.trim_start_matches("execution:").parse()?)
        }
        _ => Err(Error::Command(
            answer
                .message
                .clone()
                .unwrap_or_else(|| "the run was not started".into()),
        )),
    }
}

/// Shows every event of the run until it has ended; tries to stop it once, while the report is written.
async fn follow(host: &HostHandle, id: ExecutionId, show: &mut Show) -> Result<RunStatus, Error> {
    let (mut next, mut changes) = (host.journal().first_seq(), host.last_seq());
    let mut tried = false;
    loop {
        for item in host.journal().records(next, READ)? {
            next = item.seq + 1;
            let entry = Entry::decode(&item.bytes)?;
            let Some(event) = projection::event(&entry.record).filter(|e| e.execution == Some(id))
            else {
                continue;
            };
            show.event(&event);
            // The engine holds the run while the report is written: that is the moment to be impatient.
            if event.kind == EventKind::WorkflowStatus
                && event.status.as_deref() == Some("PAUSING")
                && !tried
            {
                tried = true;
                impatient(host, id, show).await?;
            }
            if let Some(status) = ended(&event) {
                return Ok(status);
            }
        }
        if *changes.borrow_and_update() < next && changes.changed().await.is_err() {
            return Err(Error::Late("the end of the run"));
        }
    }
}

async fn impatient(host: &HostHandle, id: ExecutionId, show: &mut Show) -> Result<(), Error> {
    show.line("operator: run.stop, in the middle of the report …");
    let answer = command(
        host,
        Op::RunStop,
        &format!("execution:{id}"),
        "somebody is impatient",
    )
    .await?;
    match (answer.code, answer.message) {
        (Some(Code::ControlRejected), Some(message)) => {
            show.line(&format!("operator: refused, {message}"))
        }
        (code, message) => {
            let what = code.map_or("applied", Code::as_str);
            show.line(&format!("operator: {what} {}", message.unwrap_or_default()));
        }
    }
    Ok(())
}

fn ended(event: &Event) -> Option<RunStatus> {
    let status = event
        .status
        .as_deref()
        .filter(|_| event.kind == EventKind::WorkflowStatus)?;
    RunStatus::ALL
        .iter()
        .copied()
        .find(|s| s.is_terminal() && s.as_str() == status)
}

/// Prints who decided what about the run, and why.
fn decisions(host: &HostHandle, id: ExecutionId) -> Result<(), Error> {
    let mut rows = Vec::new();
    let mut next = 1;
    loop {
        let page = host.journal().audit(next, READ)?;
        let Some(last) = page.last().map(|row| row.no) else {
            break;
        };
        for row in page {
            rows.push(AuditEntry::from_bytes(&row.bytes)?);
        }
        next = last + 1;
    }
    show::decisions(&rows, &id.to_string());
    Ok(())
}
