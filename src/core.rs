//! The deterministic core: it decides and keeps the state.
//!
//! `decide` takes an input with its time and gives records, audit rows and outputs. It reads no clock,
//! draws no random number, does no I/O and never waits, so the same inputs give the same trace. It
//! changes the durable state only by applying the records that it makes, so that replaying them gives
//! the same state; [`state::Durable`] has no other way in.

pub mod audit;
pub mod effect;
pub mod fault;
pub mod input;
mod interlocking;
pub mod projection;
pub mod record;
mod requests;
mod runs;
pub mod state;
mod supervisors;
mod turn;

/// Makes the effect that begins a node's newest attempt, for taking attempts up after a restart.
#[must_use]
pub fn start_effect(run: &state::run::Run, index: usize) -> Option<effect::StartEffect> {
    runs::slots::start_effect(run, index)
}

#[cfg(test)]
mod tests;
