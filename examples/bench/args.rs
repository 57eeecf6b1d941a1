//! The arguments, which `cargo xtask bench` passes on.

use super::Outcome;
use std::path::PathBuf;
use std::time::Duration;

/// What was asked for.
pub struct Args {
    /// Only this goal, for instance `G6`.
    pub only: Option<String>,
    /// Where the list goes that machines read.
    pub json: Option<PathBuf>,
    /// How many rounds each row has; 5 at least, but for a first look.
    pub rounds: usize,
    /// How long one round waits for a quiet machine at most.
    pub patience: Duration,
    /// Be this server of a round.
    pub role: Option<String>,
    /// The directory of that server.
    pub dir: PathBuf,
    /// Give this many inputs to the core and do nothing else.
    pub core_inputs: Option<usize>,
}

/// Reads `--name VALUE` and `--name=VALUE`.
pub fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Args> {
    let mut args = Args {
        only: None,
        json: None,
        rounds: 5,
        patience: Duration::from_secs(10),
        role: None,
        dir: PathBuf::new(),
        core_inputs: None,
    };
    while let Some(word) = words.next() {
        let (name, given) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let value = given
            .or_else(|| words.next())
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--only" => args.only = Some(value),
            "--json" => args.json = Some(value.into()),
            "--rounds" => args.rounds = value.parse::<usize>()?.max(1),
            "--patience" => args.patience = Duration::from_secs(value.parse()?),
            "--role" => args.role = Some(value),
            "--dir" => args.dir = value.into(),
            "--core-inputs" => args.core_inputs = Some(value.parse()?),
            _ => return Err(format!("{name} is not an argument; there are --only ID, --json FILE, --rounds N, --patience SECONDS and --core-inputs N").into()),
        }
    }
    Ok(args)
}
