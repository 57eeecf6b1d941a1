//! Signalbox.
fn main() {}
