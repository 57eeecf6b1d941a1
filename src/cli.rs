//! The command line: a client of the operators' surface, and the ways to start a host, an engine, the demo and the
//! doctor.
//!
//! Invariants:
//! - Exit codes are those of contract C48, from the one table of codes; with several outcomes the worst counts.
//! - Results go to standard output, everything else to standard error. `-o json` prints what the host answered.
//! - What comes from data never controls the terminal: control characters are shown, not obeyed.
//! - A command whose connection breaks is sent again under the same idempotency key, so it happens once.
//!
//! Absent on purpose: any rule of the contract; the host decides.

mod args;
mod audit;
mod client;
mod command;
mod definition;
pub mod demo;
mod doctor;
mod engine;
mod failure;
mod find;
mod logs;
mod output;
pub mod pointer;
mod runs;
pub mod serve;
mod sse;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

pub use args::{Cli, Format, Globals};
pub use failure::Failure;

use args::Command;
use client::Client;
use output::Output;

/// Runs the program with the arguments of the process and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Runs the program and returns its exit code (C48).
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // A broken pipe while the help is printed hurts nobody.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        // Whoever read the output has gone: there is nobody to tell.
        Err(failure) if failure.exit == 0 => 0,
        Err(failure) => {
            failure.print();
            failure.exit
        }
    }
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        Command::Serve(args) => return serve::run(&globals, &args),
        Command::Demo => return demo::run(&globals),
        Command::Engine(args) => return engine::run(&args),
        Command::Doctor(args) => return doctor::run(&globals, &args),
        // `main` knows this way before it comes here.
        Command::Shim { dir } => {
            let message = format!(
                "`shim` takes the directory {} and nothing else",
                dir.display()
            );
            return Err(Failure::new(2, message));
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                1,
                format!("the program cannot be set up ({e}): look at the limits of the process"),
            )
        })?;
    runtime.block_on(async {
        let client = Client::new(&find::host(&globals)?)?;
        let out = Output::new(globals.output);
        match command {
            Command::Workflow(args) => definition::workflow(&client, &out, &args).await,
            Command::Supervisor(args) => definition::supervisor(&client, &out, &args).await,
            Command::Credential(args) => definition::credential(&client, &out, &args).await,
            Command::Run(args) => runs::run(&client, &out, args).await,
            Command::Node(args) => runs::node(&client, &out, args).await,
            Command::Events(args) => watch::events(&client, &out, &args).await,
            Command::Audit(args) => audit::run(&client, &out, &args).await,
            Command::Serve(_)
            | Command::Demo
            | Command::Engine(_)
            | Command::Doctor(_)
            | Command::Shim { .. } => Ok(0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_ends_with_2_and_help_with_0() {
        assert_eq!(run(["signalbox", "no-such-thing"]), 2);
        assert_eq!(run(["signalbox", "run", "stop"]), 2);
        assert_eq!(
            run(["signalbox", "run", "stop", "x1", "--mode", "softly"]),
            2
        );
        assert_eq!(run(["signalbox", "--version"]), 0);
        assert_eq!(run(["signalbox", "run", "--help"]), 0);
    }
}
