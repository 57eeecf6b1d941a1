//! Signalbox: a host for decision engines.

pub mod host;
pub mod journal;
pub mod runtime;
