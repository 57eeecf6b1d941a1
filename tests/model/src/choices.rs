//! Readings that the reference takes where its sources leave room, as switches. Each is used at one place.

/// The records of one target: its changes, what follows from them in its own run, then its `CONTROL_OUTCOME`.
/// `false` puts the `CONTROL_OUTCOME` before what follows.
pub const OUTCOME_AFTER_WHAT_FOLLOWS: bool = false;

/// Equal open requests of one actor join the open review (C29) instead of opening another.
pub const EQUAL_REQUESTS_JOIN: bool = true;

/// How many reviews one supervisor may have open; a stop is then applied as on a timeout, anything else is
/// refused `RATE_LIMITED` (C29).
pub const MOST_OPEN_REVIEWS: usize = 64;

/// What separates holders in a detail.
pub const HOLDER_SEPARATOR: &str = ", ";

/// A reviewed stop that nobody answered is applied only where the owner is still the one that was asked.
pub const TIMEOUT_RECHECKS_OWNER: bool = true;
