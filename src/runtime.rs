//! Implements the host's `Runtime`: what starts, signals and watches the attempts of nodes.
//!
//! There is one implementation, [`local`]: processes of this machine.

pub mod local;
