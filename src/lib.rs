//! Signalbox: a host for decision engines.

pub mod cli;
pub mod clock;
pub mod config;
pub mod contract;
pub mod core;
pub mod definitions;
pub mod demo;
pub mod engine;
pub mod host;
pub mod journal;
pub mod operators;
pub mod runtime;
pub mod server;
pub mod telemetry;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod wire;
