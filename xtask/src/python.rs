//! The virtual environment under `target/xtask/venv`: buf, and what the Python engine needs with its generated stubs.
//!
//! An install is done again only when what is asked for has changed. A machine without python3, or without a registry
//! to install from, is a reason not to run; a stub generator that fails is a failure.

use crate::command::{self, Workspace};
use crate::report::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why something Python is not there.
#[derive(Debug)]
pub enum Trouble {
    /// The machine lacks something.
    Missing(String),
    /// The project has a fault.
    Broken(String),
}

impl From<Trouble> for Outcome {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Missing(why) => Self::Skipped(why),
            Trouble::Broken(why) => Self::Failed(why),
        }
    }
}

/// A virtual environment that exists.
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Opens the environment, or makes it.
    pub fn open(workspace: &Workspace) -> Result<Self, Trouble> {
        let folder = workspace.own().join("venv");
        let venv = Self { folder };
        if command::works(Command::new(venv.program("python")).args(["-m", "pip", "--version"])) {
            return Ok(venv);
        }
        if !command::works(Command::new("python3").arg("--version")) {
            return Err(Trouble::Missing(
                "there is no python3 on this machine; install it".to_owned(),
            ));
        }
        let made = command::capture(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&venv.folder),
        );
        match made {
            Ok(_) => Ok(venv),
            Err(why) => Err(Trouble::Missing(format!(
                "python3 cannot make a virtual environment (Debian has it in the package python3-venv): {why}"
            ))),
        }
    }

    /// Where a program of the environment lies.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Installs what `arguments` of pip name; `stamp` and `wanted` say when that has been done already.
    pub fn install(&self, stamp: &str, wanted: &str, arguments: &[&str]) -> Result<(), Trouble> {
        let stamp = self.folder.join(format!("{stamp}.installed"));
        if std::fs::read_to_string(&stamp).is_ok_and(|done| done == wanted) {
            return Ok(());
        }
        let mut pip = Command::new(self.program("python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(arguments);
        command::capture(&mut pip).map_err(|why| {
            Trouble::Missing(format!("pip could not install what is needed: {why}"))
        })?;
        command::write(&stamp, wanted).map_err(Trouble::Broken)
    }
}

/// What the tests of the Python engine need.
pub struct PythonEngine {
    /// The interpreter that has grpcio.
    pub interpreter: PathBuf,
    /// The folder that holds the generated stubs.
    pub stubs: PathBuf,
}

impl PythonEngine {
    /// Installs the requirements of `engines/python` and generates the stubs from `proto/`.
    pub fn prepare(workspace: &Workspace) -> Result<Self, Trouble> {
        let requirements = workspace.root.join("engines/python/requirements.txt");
        let wanted = command::read(&requirements).map_err(Trouble::Broken)?;
        let venv = Venv::open(workspace)?;
        venv.install("engine", &wanted, &["-r", &requirements.to_string_lossy()])?;
        let interpreter = venv.program("python");
        if !command::works(Command::new(&interpreter).args(["-c", "import grpc_tools.protoc"])) {
            let version = command::capture(
                Command::new(&interpreter).args(["-c", "import grpc; print(grpc.__version__)"]),
            )
            .map_err(Trouble::Broken)?;
            let tools = format!("grpcio-tools=={}", version.trim());
            venv.install("tools", &tools, &[&tools])?;
        }
        let stubs = workspace.own().join("python");
        generate(workspace, &interpreter, &stubs).map_err(Trouble::Broken)?;
        Ok(Self { interpreter, stubs })
    }
}

fn generate(workspace: &Workspace, interpreter: &Path, stubs: &Path) -> Result<(), String> {
    let proto = workspace.root.join("proto");
    let files = files_below(&proto, "proto")?;
    if files.is_empty() {
        return Err(format!("no .proto file below {}", proto.display()));
    }
    if stubs.exists() {
        std::fs::remove_dir_all(stubs)
            .map_err(|error| format!("empty {}: {error}", stubs.display()))?;
    }
    std::fs::create_dir_all(stubs).map_err(|error| format!("make {}: {error}", stubs.display()))?;
    let mut protoc = Command::new(interpreter);
    protoc.args(["-m", "grpc_tools.protoc", "-I"]).arg(&proto);
    for kind in ["--python_out", "--pyi_out", "--grpc_python_out"] {
        protoc.arg(format!("{kind}={}", stubs.display()));
    }
    command::capture(protoc.args(files)).map(|_| ())
}

/// Every file with this ending below a folder, sorted.
fn files_below(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let list = std::fs::read_dir(&folder)
            .map_err(|error| format!("list {}: {error}", folder.display()))?;
        for entry in list {
            let path = entry
                .map_err(|error| format!("list {}: {error}", folder.display()))?
                .path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
