//! The loop that owns the state and the journal, and the traits of what it drives.

pub mod runtime;
