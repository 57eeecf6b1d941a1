//! The promises of the project as tests: one binary, a module per promise.
//!
//! Each module stands under `#[cfg(test)]`, always true here, so that the lints know its helpers for tests too.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod session;
#[cfg(test)]
mod shim;
#[cfg(test)]
mod tidy;
