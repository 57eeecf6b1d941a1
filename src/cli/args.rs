//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::operators::Role;

/// Signalbox: workflows that decision engines govern.
#[derive(Debug, Parser)]
#[command(
    name = "signalbox",
    version,
    arg_required_else_help = true,
    subcommand_required = true
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// How results are printed.
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Where the host's operators' surface is; absent: the host that runs on this machine, else
    /// http://127.0.0.1:7421.
    #[arg(long, global = true, env = "SIGNALBOX_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// The key of an operator; absent: the admin key of the host on this machine.
    #[arg(long, global = true, env = "SIGNALBOX_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// The directory where the host keeps everything.
    #[arg(long, global = true, env = "SIGNALBOX_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// As the host answered.
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Runs a host until it is told to stop.
    Serve(ServeArgs),
    /// Shows a real workflow that an engine governs, from start to end.
    Demo,
    /// Runs a decision engine; the environment says which host it connects to.
    Engine(EngineArgs),
    /// Owns one attempt of a node; started by the host.
    #[command(hide = true)]
    Shim {
        /// The attempt's directory.
        dir: PathBuf,
    },
    /// Saves and shows workflows.
    Workflow(DefinitionArgs),
    /// Saves and shows supervisors, and how their engines are connected.
    Supervisor(DefinitionArgs),
    /// Issues credentials.
    Credential(CredentialArgs),
    /// Starts, shows and commands executions.
    Run(RunArgs),
    /// Commands nodes of executions.
    Node(NodeArgs),
    /// Shows what happens.
    Events(EventsArgs),
    /// Shows who did what, and what came of it.
    Audit(AuditArgs),
    /// Checks or repairs the journal of a host that does not run.
    Doctor(DoctorArgs),
}

/// The arguments of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Where operators connect; 127.0.0.1:7421 when nothing is said, port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Where engines connect; 127.0.0.1:7420 when nothing is said, port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<String>,
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "SIGNALBOX_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    #[command(subcommand)]
    pub engine: Engine,
}

#[derive(Debug, Subcommand)]
pub(super) enum Engine {
    /// Follows the rules of a YAML file.
    Rules {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct DefinitionArgs {
    #[command(subcommand)]
    pub action: DefinitionAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum DefinitionAction {
    /// Saves the definition of a file (YAML, or JSON where its name ends so; `-` for standard input).
    Apply {
        /// The file.
        file: PathBuf,
    },
    /// Lists all.
    List,
    /// Shows one with its definition.
    Show {
        /// Its id.
        id: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct CredentialArgs {
    #[command(subcommand)]
    pub action: CredentialAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum CredentialAction {
    /// Issues a credential for the engine of a supervisor, or with --role the key of an operator. It is shown this once.
    Issue {
        /// The supervisor, or with --role the name of the operator.
        name: String,
        /// Issues an operator's key with this role instead.
        #[arg(long, value_parser = role)]
        role: Option<Role>,
    },
}

fn role(text: &str) -> Result<Role, String> {
    match text {
        "viewer" => Ok(Role::Viewer),
        "admin" => Ok(Role::Admin),
        _ => Err("the roles are viewer and admin".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(subcommand)]
    pub action: RunAction,
}

/// What every command on executions and nodes takes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Commanding {
    /// Why; stands in the audit and reaches the owner's engine.
    #[arg(long)]
    pub reason: Option<String>,
    /// Only if the execution or node has this status, for instance RUNNING.
    #[arg(long, value_name = "STATUS")]
    pub if_status: Option<String>,
    /// The same key again gives the first answer and happens once; absent: a new one.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunAction {
    /// Starts a workflow.
    Start(StartArgs),
    /// Lists executions, the newest first.
    List(ListArgs),
    /// Shows an execution with its nodes.
    Show {
        /// The execution.
        id: String,
    },
    /// Holds executions: running nodes finish, none starts.
    Pause {
        #[command(flatten)]
        targets: Targets,
        #[command(flatten)]
        how: Commanding,
    },
    /// Clears holds, so that executions go on.
    Resume {
        #[command(flatten)]
        targets: Targets,
        #[command(flatten)]
        how: Commanding,
    },
    /// Stops executions.
    Stop(StopArgs),
    /// Shows the output of an execution's nodes.
    Logs(LogsArgs),
}

/// What a command is for.
#[derive(Debug, Clone, Args)]
pub(super) struct Targets {
    /// Executions such as x1, or targets such as workflow:build.
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// The workflow.
    pub workflow: String,
    /// A parameter; may be given often.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub params: Vec<(String, String)>,
    /// The priority, -100 to 100; 0 when nothing is said.
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i64>,
    /// Waits until the execution has ended; the exit code is 0 only if it SUCCEEDED.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub how: Commanding,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only those of this workflow.
    #[arg(long)]
    pub workflow: Option<String>,
    /// Only those with one of these statuses, separated by commas.
    #[arg(long)]
    pub status: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub targets: Targets,
    /// Whether running nodes finish (drain) or are told to end (immediate).
    #[arg(long, value_parser = ["drain", "immediate"])]
    pub mode: Option<String>,
    /// Milliseconds between SIGTERM and SIGKILL; 10000 when nothing is said.
    #[arg(long, value_name = "N")]
    pub grace_ms: Option<u64>,
    /// Milliseconds after which a drain becomes immediate; no limit when nothing is said.
    #[arg(long, value_name = "N")]
    pub drain_timeout_ms: Option<u64>,
    #[command(flatten)]
    pub how: Commanding,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The execution.
    pub id: String,
    /// Only this node.
    #[arg(long)]
    pub node: Option<String>,
    /// This attempt instead of the newest; needs --node.
    #[arg(long, requires = "node")]
    pub attempt: Option<u32>,
    /// How many bytes of the end of each output at most.
    #[arg(long, default_value_t = 64 * 1024)]
    pub tail: u64,
    /// Goes on until the execution has ended.
    #[arg(long, short = 'f')]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(subcommand)]
    pub action: NodeAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum NodeAction {
    /// Runs nodes that failed, were stopped or were skipped again.
    Retry {
        #[command(flatten)]
        nodes: Nodes,
        #[command(flatten)]
        how: Commanding,
    },
    /// Skips nodes, as if they had succeeded.
    Skip {
        #[command(flatten)]
        nodes: Nodes,
        #[command(flatten)]
        how: Commanding,
    },
}

#[derive(Debug, Clone, Args)]
pub(super) struct Nodes {
    /// Nodes such as x1/build.
    #[arg(required = true, value_name = "EXECUTION/NODE")]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// Goes on until it is interrupted.
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Begins after this place in the journal.
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// Only events about this execution.
    #[arg(long)]
    pub execution: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Begins after this row; absent: the newest rows.
    #[arg(long, value_name = "NO")]
    pub after: Option<u64>,
    /// How many rows at most.
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Only rows about this execution.
    #[arg(long)]
    pub execution: Option<String>,
    /// Only rows of this kind, for instance command or refusal.
    #[arg(long)]
    pub kind: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(subcommand)]
    pub action: DoctorAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum DoctorAction {
    /// Verifies everything and changes nothing.
    Check {
        /// The data directory, or the journal in it.
        dir: PathBuf,
    },
    /// Takes away leftovers that keep the journal from opening; never drops a record.
    Repair {
        /// The data directory, or the journal in it.
        dir: PathBuf,
    },
}
