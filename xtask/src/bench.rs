//! `cargo xtask bench`: builds the benchmarks in release, runs them, and counts instructions with callgrind.
//!
//! What this asks of `examples/bench`: it takes `--only ID` and `--json FILE`, prints its table, and
//! writes a list of objects to FILE. With `--core-inputs N` it does nothing but give N inputs to the core on one
//! thread, without I/O; that is what callgrind counts for G13, below the function [`COUNTED`] only, so that making the
//! inputs does not count. The count is taken at two values of N and the difference divided, so that start-up costs do
//! not show.

use crate::command::{self, Workspace};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, ExitCode};

const FEW: u64 = 10_000;
const MANY: u64 = 60_000;
/// The function of the example that gives the inputs to the core, as a pattern.
const COUNTED: &str = "*core_speed::decide_all*";

/// Builds, runs with the same arguments, and adds G13 where it is wanted.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let mut build = workspace.cargo(["build", "--release", "--locked", "--features", "testkit"]);
    command::run(build.args(["--example", "bench"]))?;
    let bench = workspace.target.join("release/examples/bench");
    command::run(
        Command::new(&bench)
            .current_dir(&workspace.root)
            .args(arguments),
    )?;
    if value_of(arguments, "--only").is_none_or(|only| only == "G13") {
        match instructions_per_input(workspace, &bench)? {
            Some(count) => {
                println!("G13 instructions per input (callgrind): {count:.0}");
                if let Some(file) = value_of(arguments, "--json") {
                    add(&workspace.root.join(file), count)?;
                }
            }
            None => println!("G13 instructions per input: NOT RUN: valgrind is not installed"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The value of `--name VALUE` or `--name=VALUE`.
fn value_of<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == name {
            return rest.next().map(String::as_str);
        }
        if let Some(value) = argument
            .strip_prefix(name)
            .and_then(|tail| tail.strip_prefix('='))
        {
            return Some(value);
        }
    }
    None
}

fn instructions_per_input(workspace: &Workspace, bench: &Path) -> Result<Option<f64>, String> {
    if !command::works(Command::new("valgrind").arg("--version")) {
        return Ok(None);
    }
    let few = instructions(workspace, bench, FEW)?;
    let many = instructions(workspace, bench, MANY)?;
    if few == 0 {
        return Err(format!("callgrind found no function {COUNTED}"));
    }
    let spent = many
        .checked_sub(few)
        .ok_or("more inputs took fewer instructions")?;
    Ok(Some(spent as f64 / (MANY - FEW) as f64))
}

fn instructions(workspace: &Workspace, bench: &Path, inputs: u64) -> Result<u64, String> {
    let file = workspace.own().join(format!("callgrind-{inputs}.out"));
    std::fs::create_dir_all(workspace.own())
        .map_err(|error| format!("make target/xtask: {error}"))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", file.display()));
    command::capture(
        valgrind
            .arg(bench)
            .arg("--core-inputs")
            .arg(inputs.to_string()),
    )?;
    total(&command::read(&file)?).ok_or_else(|| format!("{} has no total", file.display()))
}

/// The instructions of a whole program, from a file of callgrind.
fn total(file: &str) -> Option<u64> {
    let line = file.lines().find_map(|line| {
        line.strip_prefix("summary:")
            .or_else(|| line.strip_prefix("totals:"))
    })?;
    line.split_whitespace().next()?.parse().ok()
}

fn add(file: &Path, count: f64) -> Result<(), String> {
    let mut list: Vec<Value> = serde_json::from_str(&command::read(file)?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    list.push(json!({
        "id": "G13", "case": "instructions-per-input", "ours": count, "baseline": null, "ratio": null,
        "must": null, "aim": null, "better": "lower", "ok": true, "busy": null,
    }));
    let text = serde_json::to_string_pretty(&list).map_err(|error| error.to_string())?;
    command::write(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_both_spellings() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(value_of(&words("--only G5 --json x"), "--only"), Some("G5"));
        assert_eq!(value_of(&words("--json=x --only=G6"), "--only"), Some("G6"));
        assert_eq!(value_of(&words("--json x"), "--only"), None);
        assert_eq!(value_of(&words("--only"), "--only"), None);
    }

    #[test]
    fn the_total_is_read_from_a_file_of_callgrind() {
        assert_eq!(
            total("events: Ir\nsummary: 1234\nfn=(1)\n1 5\n"),
            Some(1234)
        );
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\ntotals: 77\n"), Some(77));
        assert_eq!(total("events: Ir\n"), None);
    }
}
