//! The one time that the core sees.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Milliseconds of host time: monotonic, never backwards, not wall time.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct HostTime(#[n(0)] pub u64);

impl HostTime {
    /// Returns the time `ms` milliseconds later; stays at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this time, or 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
