//! The benchmarks behind `cargo xtask bench`: each goal as a ratio of two things, measured in turn in one run.
//!
//! A round measures ours, then the baseline, after waiting a while for a quiet machine; what counts is the median
//! over the rounds. Host, engine and baseline server are processes of their own, which are this program again with a
//! hidden `--role`. Every figure of ours comes from the same code as in a host: nothing is left out for speed.
//!
//! Absent on purpose: a harness that guesses how often to repeat. Rounds are fixed, so that runs can be compared.

mod args;
mod bare;
mod channel;
mod core_speed;
mod engine;
mod hand;
mod host;
mod journal;
mod loops;
mod machine;
mod mix;
mod process;
mod rounds;
mod signals;
mod table;

use args::Args;
use std::path::Path;
use std::process::ExitCode;
use table::Row;

/// What goes wrong is told in full and ends the run: a benchmark never leaves a row out in silence.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A goal that this program measures: its number, and what makes its rows.
type Goal = (&'static str, fn(&Args) -> Outcome<Vec<Row>>);

/// In the order in which they run.
const GOALS: &[Goal] = &[
    ("G5", loops::rows),
    ("G6", journal::rows),
    ("G7", signals::rows),
    ("G13", core_speed::rows),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let args = args::parse(std::env::args().skip(1))?;
    if let Some(inputs) = args.core_inputs {
        return core_speed::once(inputs);
    }
    if let Some(role) = &args.role {
        return serve(role, &args.dir);
    }
    let wanted = |id: &str| args.only.as_deref().is_none_or(|only| only == id);
    if let Some(only) = &args.only
        && !GOALS.iter().any(|(id, _)| id == only)
    {
        let known: Vec<&str> = GOALS.iter().map(|(id, _)| *id).collect();
        return Err(format!(
            "{only} is not measured here; there are {}",
            known.join(", ")
        )
        .into());
    }
    let mut rows = Vec::new();
    for (id, measure) in GOALS.iter().filter(|(id, _)| wanted(id)) {
        eprintln!("measuring {id}");
        rows.extend(measure(&args)?);
    }
    println!("{}", table::print(&rows));
    if let Some(file) = &args.json {
        std::fs::write(file, table::json(&rows)?)?;
    }
    Ok(())
}

/// Is one of the servers of a round.
fn serve(role: &str, dir: &Path) -> Outcome<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match role {
            "host" => host::serve(dir, "bench").await,
            "host-watched" => host::serve(dir, "watch").await,
            "hand" => hand::serve(dir, false).await,
            "hand-once" => hand::serve(dir, true).await,
            "channel" => channel::serve().await,
            _ => Err(format!("there is no role {role}").into()),
        }
    })
}
