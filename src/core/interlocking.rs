//! The interlocking: an ordered list of small checks. What passes them all gets a permit, and nothing
//! can be applied without one (C22, C29).
//!
//! Engines: [`flood`] → [`shape`] → [`session`] → [`key`] → [`cause`] → [`initiative`] → [`allowed`], then
//! for each target [`exists`] → [`owner`] → [`if_status`] → the state ([`super::runs::act::judge`]). Risk, dry
//! run and approval are refused by name at the shape until they are served.
//! Operators: shape → key → flood → target exists → owner → `ifStatus` → state → review.

pub(super) mod engine;
pub(super) mod operator;
pub(super) mod permit;

mod allowed;
mod cause;
mod exists;
mod expand;
mod flood;
mod if_status;
mod initiative;
mod key;
mod owner;
pub(super) mod passage;
mod session;
mod shape;

/// Returns the number of the owner of a target (C3).
pub(super) fn owner_of(
    durable: &super::state::Durable,
    one: &super::runs::act::One,
) -> Option<u32> {
    owner::of(durable, one)
}
