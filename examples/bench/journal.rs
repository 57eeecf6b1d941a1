//! G6: events a second that are on the disk, in commits of 100, against the same bytes in a plain file.

use super::Outcome;
use super::args::Args;
use super::machine::instant;
use super::rounds;
use super::table::{Better, Row};
use signalbox::journal::{Batch, Item, Journal, Options, SledJournal};
use std::io::Write as _;

/// How many commits one side of a round makes.
const COMMITS: u64 = 2_000;
/// How many events one commit has, and how long each is.
const EVENTS: u64 = 100;
const BYTES: usize = 256;

/// Measures the journal.
pub fn rows(args: &Args) -> Outcome<Vec<Row>> {
    let medians = rounds::pair(args, journal, plain)?;
    Ok(vec![Row {
        id: "G6",
        case: "100-a-commit",
        measure: "durable events/s, 256 bytes, 100 a commit / plain file",
        medians,
        must: Some(0.4),
        aim: Some(0.6),
        better: Better::Higher,
    }])
}

/// The bytes of one event; no two are equal, so that nothing can be folded together.
fn event(seq: u64) -> Vec<u8> {
    let mut state = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..BYTES / 8)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect()
}

fn batch(commit: u64) -> Batch {
    let items = (commit * EVENTS..(commit + 1) * EVENTS)
        .map(|n| Item {
            seq: n + 1,
            time: commit,
            kind: 1,
            to: vec![(1, n + 1)],
            bytes: event(n),
        })
        .collect();
    Batch {
        items,
        ..Batch::default()
    }
}

fn rate(elapsed: std::time::Duration) -> f64 {
    (COMMITS * EVENTS) as f64 / elapsed.as_secs_f64()
}

fn journal() -> Outcome<f64> {
    let dir = tempfile::tempdir()?;
    let mut journal = SledJournal::open(&dir.path().join("journal"), Options::default())?.journal;
    let batches: Vec<Batch> = (0..COMMITS).map(batch).collect();
    let start = instant();
    for batch in batches {
        journal.append(batch)?;
    }
    let elapsed = start.elapsed();
    Box::new(journal).close()?;
    Ok(rate(elapsed))
}

fn plain() -> Outcome<f64> {
    let dir = tempfile::tempdir()?;
    let mut file = std::fs::File::create(dir.path().join("events"))?;
    let commits: Vec<Vec<u8>> = (0..COMMITS)
        .map(|commit| {
            batch(commit)
                .items
                .into_iter()
                .flat_map(|item| item.bytes)
                .collect()
        })
        .collect();
    let start = instant();
    for commit in &commits {
        file.write_all(commit)?;
        file.sync_data()?;
    }
    Ok(rate(start.elapsed()))
}
