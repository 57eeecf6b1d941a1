//! Translates between the bytes of the engine contract and the host's own vocabulary.

pub mod proto;
