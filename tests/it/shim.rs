//! Attempts run as real processes under real shims, and what is reported of them is the truth.

mod ends;
mod output;
mod restarts;
mod stops;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use signalbox::host::runtime::{AttemptId, Exit, Report, Runtime, StartAttempt, StopSignal};
use signalbox::runtime::local::{LocalConfig, LocalRuntime, LogTail, Stream, read_log};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A data directory, and the runtime that works on it now.
struct Bed {
    dir: tempfile::TempDir,
    max_log_bytes: u64,
    program: PathBuf,
    running: Option<(LocalRuntime, mpsc::Receiver<Report>)>,
}

impl Bed {
    fn new() -> Self {
        Self::with_log_limit(1024 * 1024)
    }

    fn with_log_limit(max_log_bytes: u64) -> Self {
        let mut bed = Self {
            dir: tempfile::tempdir().expect("a directory"),
            max_log_bytes,
            program: env!("CARGO_BIN_EXE_signalbox").into(),
            running: None,
        };
        bed.host_begins();
        bed
    }

    /// A new host on the same data; it has taken up nothing yet.
    fn host_begins(&mut self) {
        let (say, hear) = mpsc::channel();
        let mut config = LocalConfig::new(self.program.clone(), self.dir.path().to_owned());
        config.max_log_bytes = self.max_log_bytes;
        let sink = Arc::new(move |report| {
            // A test that has heard enough hangs up.
            let _ = say.send(report);
        });
        self.running = Some((LocalRuntime::new(config, sink).expect("a runtime"), hear));
    }

    /// The host is gone; what it has started is not.
    fn host_ends(&mut self) {
        self.running = None;
    }

    fn runtime(&self) -> &LocalRuntime {
        &self.running.as_ref().expect("a host").0
    }

    fn start(&self, start: &StartAttempt) {
        self.runtime().start(start.clone());
    }

    fn stop(&self, start: &StartAttempt, signal: StopSignal) {
        self.runtime().stop(&start.id, signal);
    }

    fn next(&self) -> Report {
        let (_, hear) = self.running.as_ref().expect("a host");
        hear.recv_timeout(PATIENCE).expect("a report in time")
    }

    /// Expects the start of this attempt as the next report.
    fn started(&self, start: &StartAttempt) {
        assert_eq!(self.next(), Report::Started(start.id.clone()));
    }

    /// Runs an attempt alone, and says how it ended.
    fn run(&self, start: &StartAttempt) -> Exit {
        self.start(start);
        self.started(start);
        self.exit(start)
    }

    /// Expects the exit of this attempt as the next report.
    fn exit(&self, start: &StartAttempt) -> Exit {
        match self.next() {
            Report::Exited(id, exit) if id == start.id => exit,
            other => panic!("{other:?} is not the exit of {:?}", start.id),
        }
    }

    /// Nothing more is reported, as far as one can tell by another attempt that runs through.
    fn quiet(&self) {
        let probe = sh("quiet", "exit 0");
        assert_eq!(self.run(&probe), Exit::Code(0));
    }

    fn log(&self, start: &StartAttempt, stream: Stream) -> LogTail {
        let id = &start.id;
        read_log(
            self.dir.path(),
            &id.execution,
            &id.node,
            id.attempt,
            stream,
            u64::MAX,
        )
        .expect("a log")
    }

    fn stdout(&self, start: &StartAttempt) -> String {
        String::from_utf8(self.log(start, Stream::Stdout).bytes).expect("text")
    }

    fn attempt_dir(&self, start: &StartAttempt) -> PathBuf {
        let id = &start.id;
        self.dir
            .path()
            .join("runs")
            .join(&id.execution)
            .join(&id.node)
            .join(id.attempt.to_string())
    }

    fn shim_pid(&self, start: &StartAttempt) -> i32 {
        pid_in(&self.attempt_dir(start).join("lock"), "shim")
    }

    fn child_pid(&self, start: &StartAttempt) -> i32 {
        pid_in(&self.attempt_dir(start).join("pid"), "child")
    }

    /// A FIFO below the data directory: what a program waits on, or says something with.
    fn fifo(&self, name: &str) -> PathBuf {
        use rustix::fs::{CWD, Mode, mkfifoat};
        let path = self.dir.path().join(name);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a fifo");
        path
    }
}

impl Drop for Bed {
    /// A test that failed leaves nothing running.
    fn drop(&mut self) {
        self.host_ends();
        let live = std::fs::read_dir(self.dir.path().join("live"));
        for entry in live.into_iter().flatten().flatten() {
            let mut ctl = self.dir.path().join("runs");
            ctl.extend(entry.file_name().to_string_lossy().split('~'));
            ctl.push("ctl");
            use rustix::fs::{Mode, OFlags, open};
            // Without a shim there is nobody to tell.
            if let Ok(fd) = open(&ctl, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
                let _ = rustix::io::write(fd, b"K");
            }
        }
    }
}

fn pid_in(path: &Path, field: &str) -> i32 {
    let text = std::fs::read_to_string(path).expect("a file of the shim");
    let value: serde_json::Value = serde_json::from_str(&text).expect("json");
    let pid = value[field]["pid"].as_i64().expect("a pid");
    i32::try_from(pid).expect("a pid")
}

/// The first attempt of this node of execution x1, with these words.
fn node(name: &str, argv: &[&str]) -> StartAttempt {
    StartAttempt {
        id: AttemptId {
            execution: "x1".into(),
            node: name.into(),
            attempt: 1,
        },
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
    }
}

fn sh(name: &str, script: &str) -> StartAttempt {
    node(name, &["sh", "-c", script])
}

/// Waits until the other side of a FIFO says a line.
fn said(fifo: &Path) -> String {
    let path = fifo.to_owned();
    let text = in_time(move || std::fs::read_to_string(path)).expect("the fifo");
    text.trim().to_owned()
}

/// Lets whoever waits on this FIFO go on.
fn let_go(fifo: &Path) {
    let path = fifo.to_owned();
    in_time(move || std::fs::write(path, b"go\n")).expect("the fifo");
}

/// Opening a FIFO waits for the other side, which must not be for ever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || say.send(work()));
    hear.recv_timeout(PATIENCE)
        .expect("somebody on the other side")
}

/// The state letter of a process, or none when it is gone.
fn state(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

fn kill9(pid: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("it lives");
}

/// Waits for the end of a process that somebody else reaps: its descriptor becomes readable.
fn gone(pid: i32) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Ok(fd) = pidfd_open(Pid::from_raw(pid).expect("a pid"), PidfdFlags::empty()) else {
        return;
    };
    let patience = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    let n = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).expect("polls");
    assert_eq!(n, 1, "process {pid} goes on");
}
