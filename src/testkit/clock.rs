//! The clocks of a test: one that only the test moves, and the machine's own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::SystemClock;
use crate::host::time::Clock;

/// The wall time at which a manual clock begins, Unix milliseconds: some moment of 2023.
pub const WALL_BEGIN: u64 = 1_700_000_000_000;

/// A clock that stands still until a test moves it. Clones share it.
///
/// A host does not see by itself that the clock was moved: [`super::Host::advance`] moves it and tells the host.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Times>>);

#[derive(Debug)]
struct Times {
    monotonic: u64,
    wall: u64,
    boots: u64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Times {
            monotonic: 1_000,
            wall: WALL_BEGIN,
            boots: 1,
        })))
    }
}

impl ManualClock {
    /// Makes a clock that stands at [`WALL_BEGIN`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves both times forward, in milliseconds.
    pub fn advance(&self, ms: u64) {
        let mut times = self.times();
        times.monotonic = times.monotonic.saturating_add(ms);
        times.wall = times.wall.saturating_add(ms);
    }

    /// Sets the wall time alone, Unix milliseconds, as a person or a time server does; back as well.
    pub fn set_wall(&self, ms: u64) {
        self.times().wall = ms;
    }

    /// Reboots the machine: another boot id, and the monotonic time begins anew. The wall time stays.
    /// Only for a host that is not open.
    pub fn reboot(&self) {
        let mut times = self.times();
        times.boots += 1;
        times.monotonic = 0;
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn monotonic_ms(&self) -> u64 {
        self.times().monotonic
    }

    fn wall_ms(&self) -> u64 {
        self.times().wall
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.times().boots)
    }

    fn runs(&self) -> bool {
        false
    }
}

/// The machine's clocks as the host takes them.
#[derive(Debug, Clone)]
pub(super) struct RealClock(pub SystemClock);

impl Clock for RealClock {
    fn monotonic_ms(&self) -> u64 {
        self.0.monotonic_ms()
    }

    fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }

    fn boot_id(&self) -> String {
        self.0.boot_id().to_owned()
    }

    fn runs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_only_when_told_to() {
        let clock = ManualClock::new();
        let (monotonic, wall) = (clock.monotonic_ms(), clock.wall_ms());
        clock.advance(250);
        assert_eq!(clock.monotonic_ms(), monotonic + 250);
        assert_eq!(clock.wall_ms(), wall + 250);
        clock.set_wall(1);
        assert_eq!(
            (clock.monotonic_ms(), clock.wall_ms()),
            (monotonic + 250, 1)
        );
    }

    #[test]
    fn a_reboot_begins_the_monotonic_time_anew_under_another_name() {
        let clock = ManualClock::new();
        let boot = clock.boot_id();
        clock.reboot();
        assert_eq!(clock.monotonic_ms(), 0);
        assert_ne!(clock.boot_id(), boot);
    }
}
