//! The project's own tasks: `cargo xtask test`, `cargo xtask test --long` and `cargo xtask bench`.
//!
//! Everything a check needs beyond a Rust toolchain is fetched from the package registries into `target/xtask`.
//! What cannot run on this machine is named with the reason, never passed over; with `CI` set it is a failure.

mod bench;
mod buf;
mod command;
mod deny;
mod long;
mod python;
mod report;
mod spdx;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every check and test, in order, and goes on after a failure.
    Test {
        /// Run the long counts instead; they go on where the last call stopped.
        #[arg(long)]
        long: bool,
        /// Only this step, or with --long only this row.
        #[arg(long, value_name = "ID")]
        only: Option<String>,
        /// With --long: how many minutes a row may take in this call.
        #[arg(long, requires = "long")]
        minutes: Option<u64>,
        /// With --long: forget what earlier calls counted.
        #[arg(long, requires = "long")]
        fresh: bool,
    },
    /// Builds the benchmarks in release and runs them with the arguments that follow.
    Bench {
        /// Passed on as they are: `--only ID`, `--json FILE`, `--rounds N`, `--patience SECONDS`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let Arguments { task } = Arguments::parse();
    let done = command::Workspace::find().and_then(|workspace| match task {
        Task::Test {
            long: false, only, ..
        } => test::run(&workspace, only.as_deref()),
        Task::Test {
            long: true,
            only,
            minutes,
            fresh,
        } => long::run(&workspace, only.as_deref(), minutes, fresh),
        Task::Bench { arguments } => bench::run(&workspace, &arguments),
    });
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
