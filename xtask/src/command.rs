//! Starting programs: cargo with the environment of a fresh call, and others with their output kept or shown.

use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the sources are and where built things go.
#[derive(Debug)]
pub struct Workspace {
    /// The folder of the workspace's Cargo.toml.
    pub root: PathBuf,
    /// Cargo's target folder, wherever the environment puts it.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo where the workspace lies.
    pub fn find() -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Metadata {
            workspace_root: PathBuf,
            target_directory: PathBuf,
        }
        let mut ask = bare_cargo();
        ask.args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ]);
        let text = capture(&mut ask)?;
        let Metadata {
            workspace_root,
            target_directory,
        } = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self {
            root: workspace_root,
            target: target_directory,
        })
    }

    /// The folder for what the tasks make themselves.
    pub fn own(&self) -> PathBuf {
        self.target.join("xtask")
    }

    /// Cargo, called in the workspace's root.
    pub fn cargo<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = bare_cargo();
        command.current_dir(&self.root).args(arguments);
        command
    }
}

/// Cargo without what `cargo run` put into the environment: build scripts would take it for their own and run again.
fn bare_cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO"
        {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a program with its output on the terminal.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| unstartable(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)))
    }
}

/// Runs a program and gives back what it printed on stdout; the error has the end of what it printed on stderr.
pub fn capture(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unstartable(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    Err(format!(
        "{} ended with {}: {}",
        shown(command),
        output.status,
        last_lines(&String::from_utf8_lossy(complaint), 12)
    ))
}

/// Whether a program starts and says that all is well.
pub fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Reads a text file; the error names it.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))
}

/// Writes a text file with the folders above it; the error names it.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("make {}: {error}", folder.display()))?;
    }
    std::fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))
}

fn unstartable(command: &Command, error: &std::io::Error) -> String {
    format!(
        "{} could not be started: {error}",
        command.get_program().to_string_lossy()
    )
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
