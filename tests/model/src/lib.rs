//! The model of the Signalbox core: a naive reference, written from the contract and not from the core, and
//! what makes and judges random sequences for both.
//!
//! In reading order: [`step`] is what happens to the host, [`seen`] what somebody outside sees of it,
//! [`reference`] says what must be seen, [`operations`] is its own transcription of the operations.

pub mod choices;
pub mod operations;
pub mod reference;
pub mod seen;
pub mod step;
