//! G13: the core alone, on one thread, without any I/O.

use super::Outcome;
use super::args::Args;
use super::machine::thread_time;
use super::table::{Better, Row};
use super::{mix, rounds};
use signalbox::core::input::{Input, Stamp};
use signalbox::core::state::State;

/// How many inputs one round gives.
const INPUTS: usize = 200_000;

/// Measures the core. How many instructions an input takes is counted by whoever runs this under callgrind.
pub fn rows(args: &Args) -> Outcome<Vec<Row>> {
    let inputs = mix::make(INPUTS)?;
    let medians = rounds::alone(args, || {
        let inputs = inputs.clone();
        let start = thread_time();
        let (records, _state) = decide_all(inputs);
        let elapsed = thread_time() - start;
        if records < INPUTS / 2 {
            return Err(format!("{INPUTS} inputs made only {records} records").into());
        }
        Ok(INPUTS as f64 / elapsed.as_secs_f64())
    })?;
    Ok(vec![Row {
        id: "G13",
        case: "inputs-per-second",
        measure: "inputs/s of processor time, the core alone",
        medians,
        must: Some(300_000.0),
        aim: Some(1_000_000.0),
        better: Better::Higher,
    }])
}

/// Gives that many inputs to the core once.
pub fn once(count: usize) -> Outcome<()> {
    let (records, _) = decide_all(mix::make(count)?);
    println!("{records} records");
    Ok(())
}

/// Gives the inputs to a new core; returns how many records they made, and the core. A name of its own, so that
/// callgrind counts nothing but what is below it.
#[inline(never)]
fn decide_all(inputs: Vec<(Input, Stamp)>) -> (usize, State) {
    let mut state = State::default();
    let mut records = 0;
    for (input, stamp) in inputs {
        records += state.decide(input, stamp).entries.len();
    }
    (records, state)
}
