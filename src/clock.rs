//! The only place that reads clocks.
//!
//! Everything else takes time as an argument or asks here, so that a test can see every reader.
//! Absent on purpose: timers, and any arithmetic between the two clocks (the host's time is the host's).

use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds of CLOCK_MONOTONIC: never backwards, comparable within one boot of the machine only.
#[must_use]
pub fn monotonic_ms() -> u64 {
    millis(clock_gettime(ClockId::Monotonic))
}

/// Milliseconds since 1970 of the wall clock, for display and calendars only: people may set it back.
#[must_use]
pub fn wall_ms() -> u64 {
    millis(clock_gettime(ClockId::Realtime))
}

/// The identity of this boot of the machine.
///
/// # Errors
/// The kernel's file cannot be read, for instance because /proc is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// The machine's own clocks, for those who take a clock as a value.
#[derive(Debug, Clone)]
pub struct SystemClock {
    boot_id: String,
}

impl SystemClock {
    /// Reads which boot this is; it does not change while the process lives.
    ///
    /// # Errors
    /// As [`boot_id`].
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            boot_id: boot_id()?,
        })
    }

    /// As [`monotonic_ms`].
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        monotonic_ms()
    }

    /// As [`wall_ms`].
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        wall_ms()
    }

    /// The boot that this process runs in.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

/// Times before the epoch count as the epoch.
fn millis(at: Timespec) -> u64 {
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(at.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1000)
        .saturating_add(nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_backwards() {
        let first = monotonic_ms();
        assert!(monotonic_ms() >= first);
    }

    #[test]
    fn the_boot_keeps_its_identity() {
        assert_eq!(
            boot_id().expect("boot id is readable"),
            boot_id().expect("boot id is readable")
        );
    }
}
