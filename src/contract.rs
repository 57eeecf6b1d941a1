//! The vocabulary of the supervisor contract: ids, units, targets, operations, states, signals,
//! directives, outcomes, refusal codes and definitions, with their JSON forms.
//!
//! Everything here is plain data. It knows no rule that needs a state: those live in [`crate::core`].
//! Parsing is strict (an unknown field of a directive or definition is refused by name, since an
//! ignored guard would be dangerous); printing is the seed's form.

pub mod code;
pub mod definition;
pub mod directive;
pub mod duration;
pub mod id;
pub mod operation;
pub mod outcome;
pub mod signal;
pub mod status;
pub mod target;
pub mod time;
pub mod unit;

/// The version of the contract that this host serves.
pub const CONTRACT_VERSION: u32 = 1;

#[cfg(test)]
mod tests;
