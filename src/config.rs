//! The host's configuration: defaults, then the file of `--config` (TOML), then the environment, then flags;
//! what comes later wins, key by key.
//!
//! | key | default | what it is |
//! | - | - | - |
//! | `data-dir` | `signalbox-data` | where the host keeps everything |
//! | `grpc.listen` | `127.0.0.1:7420` | where engines connect |
//! | `http.listen` | `127.0.0.1:7421` | where operators connect |
//! | `http.allowed-hosts` | none | names that a request may address besides loopback names and the listener's own address |
//! | `supervisor.review-timeout` | `5s` | how long an engine has to answer a review, where its supervisor names no time |
//! | `supervisor.default.enabled` | `true` | whether operators may command what nobody owns |
//! | `scheduler.max-running-runs` | 16 | runs that are RUNNING, PAUSING or STOPPING at once |
//! | `scheduler.max-running-nodes` | 32 | nodes that run at once, over all runs |
//! | `scheduler.max-queued-runs` | 10000 | runs that wait at once; a start past it is refused `UNAVAILABLE` |
//! | `operators.max-commands-per-second` | 200 | commands of one operator in any second |
//! | `logs.max-bytes` | 16777216 | bytes kept of each output stream of an attempt |
//! | `shutdown.grace` | `10s` | how long requests may go on after the host was told to stop |
//!
//! In the environment a key is `SIGNALBOX_HOST__` and its parts joined by `__`, with `_` for `-`, for instance
//! `SIGNALBOX_HOST__SUPERVISOR__REVIEW_TIMEOUT=3s`. `yukta.supervisor.review-timeout` and
//! `yukta.supervisor.default.enabled` are other names of the keys without `yukta.` (contract §2).
//!
//! `SIGNALBOX_DATA_DIR` and `SIGNALBOX_CONFIG` stand for the flags `--data-dir` and `--config`, and win as those do.
//! `SIGNALBOX_LOG` (a filter, `info`) and `SIGNALBOX_LOG_FORMAT` (`plain` or `json`) are for the logs.
//!
//! A key that nobody knows is an error that names the key and where it stands, never ignored.

mod layer;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::Serialized;
use serde::{Deserialize, Serialize};

use crate::contract::duration::Millis;
use layer::Layer;

/// The beginning of the names of variables that are configuration.
pub const ENV_PREFIX: &str = "SIGNALBOX_HOST__";

/// The host's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    /// Where the host keeps everything: journal, logs, definitions, the admin key. Default `signalbox-data`.
    pub data_dir: PathBuf,
    /// The listener for engines.
    pub grpc: Grpc,
    /// The listener for operators.
    pub http: Http,
    /// What holds for supervisors that say nothing else.
    pub supervisor: Supervisor,
    /// How much runs at once.
    pub scheduler: Scheduler,
    /// Limits of operators.
    pub operators: Operators,
    /// Limits of logs.
    pub logs: Logs,
    /// How the host stops.
    pub shutdown: Shutdown,
}

/// The listener for engines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Grpc {
    /// Its address; port 0 takes a free one. Default `127.0.0.1:7420`.
    pub listen: SocketAddr,
}

/// The listener for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Http {
    /// Its address; port 0 takes a free one. Default `127.0.0.1:7421`.
    pub listen: SocketAddr,
    /// Host names that requests may address besides loopback names and the listener's own address. Default none.
    pub allowed_hosts: Vec<String>,
}

/// What holds for supervisors that say nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Supervisor {
    /// How long an engine has to answer a review, 1 ms to 1 day. Default `5s` (C29).
    pub review_timeout: Millis,
    /// The supervisor of everything that nobody owns.
    pub default: DefaultSupervisor,
}

/// The supervisor of everything that nobody owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DefaultSupervisor {
    /// Whether operators may command what nobody owns. Default true (C3).
    pub enabled: bool,
}

/// How much runs at once; each from 0 to 1,000,000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scheduler {
    /// Runs that are RUNNING, PAUSING or STOPPING. Default 16.
    pub max_running_runs: u32,
    /// Nodes that run, over all runs. Default 32.
    pub max_running_nodes: u32,
    /// Runs that are QUEUED. Default 10,000.
    pub max_queued_runs: u32,
}

/// Limits of operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Operators {
    /// Commands of one operator in any second, at least 1. Default 200.
    pub max_commands_per_second: u32,
}

/// Limits of logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Logs {
    /// Bytes kept of each output stream of an attempt, head and tail. Default 16 MiB.
    pub max_bytes: u64,
}

/// How the host stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests and streams may go on after the host was told to stop, at most 1 hour. Default `10s`.
    pub grace: Millis,
}

impl Default for Config {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data_dir: PathBuf::from("signalbox-data"),
            grpc: Grpc {
                listen: local(7420),
            },
            http: Http {
                listen: local(7421),
                allowed_hosts: Vec::new(),
            },
            supervisor: Supervisor {
                review_timeout: Millis(5_000),
                default: DefaultSupervisor { enabled: true },
            },
            scheduler: Scheduler {
                max_running_runs: 16,
                max_running_nodes: 32,
                max_queued_runs: 10_000,
            },
            operators: Operators {
                max_commands_per_second: 200,
            },
            logs: Logs {
                max_bytes: 16 * 1024 * 1024,
            },
            shutdown: Shutdown {
                grace: Millis(10_000),
            },
        }
    }
}

/// What flags set; absent ones leave what the other sources say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--grpc`.
    pub grpc: Option<String>,
    /// `--http`.
    pub http: Option<String>,
}

/// Why there is no configuration. Ends `serve` with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("configuration file {} cannot be read ({source}): check its name and rights", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Values that are wrong, each with its key and where it stands.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

/// Puts the configuration together.
///
/// # Errors
/// An unreadable file, and every key that is unknown or has a wrong value, with where it stands.
pub fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Flags,
) -> Result<Config, Error> {
    let mut wrong = Vec::new();
    let mut layers = Vec::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        layers.push(Layer::file(path, &text).map_err(|m| Error::Wrong(vec![m]))?);
    }
    layers.push(Layer::env(env, &mut wrong));
    layers.push(Layer::flags(flags));
    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    for layer in layers {
        figment = figment.merge(layer.settled(&mut wrong));
    }
    if !wrong.is_empty() {
        return Err(Error::Wrong(wrong));
    }
    let config: Config = figment
        .extract()
        .map_err(|error| Error::Wrong(error.into_iter().map(|e| layer::describe(&e)).collect()))?;
    let wrong = config.problems();
    if wrong.is_empty() {
        Ok(config)
    } else {
        Err(Error::Wrong(wrong))
    }
}

impl Config {
    fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut check = |fits: bool, key: &str, hint: &str| {
            if !fits {
                out.push(format!("`{key}`: give {hint}"));
            }
        };
        let Scheduler {
            max_running_runs,
            max_running_nodes,
            max_queued_runs,
        } = self.scheduler;
        for (key, value) in [
            ("scheduler.max-running-runs", max_running_runs),
            ("scheduler.max-running-nodes", max_running_nodes),
            ("scheduler.max-queued-runs", max_queued_runs),
        ] {
            check(value <= 1_000_000, key, "a number from 0 to 1000000");
        }
        let review = self.supervisor.review_timeout.0;
        check(
            (1..=86_400_000).contains(&review),
            "supervisor.review-timeout",
            "a duration from 1ms to 1d",
        );
        let rate = self.operators.max_commands_per_second;
        check(
            (1..=100_000).contains(&rate),
            "operators.max-commands-per-second",
            "a number from 1 to 100000",
        );
        check(
            self.logs.max_bytes <= 1 << 40,
            "logs.max-bytes",
            "at most 1099511627776",
        );
        check(
            self.shutdown.grace.0 <= 3_600_000,
            "shutdown.grace",
            "a duration of at most 1h",
        );
        check(
            !self.data_dir.as_os_str().is_empty(),
            "data-dir",
            "a directory",
        );
        out
    }
}

#[cfg(test)]
mod tests;
