//! Host time: monotonic, never backwards, going on over restarts.
//!
//! Within one boot of the machine it advances with CLOCK_MONOTONIC, the host's own downtime included.
//! Over a reboot it advances by the wall clock's difference, at least 0.

use std::sync::Arc;

use crate::contract::time::HostTime;

/// What host time is made from. The real one is [`crate::clock::SystemClock`]; tests bring their own.
pub trait Clock: Send + Sync {
    /// Milliseconds of a clock that never goes back within one boot.
    fn monotonic_ms(&self) -> u64;
    /// Unix milliseconds; may jump.
    fn wall_ms(&self) -> u64;
    /// Names the boot of the machine.
    fn boot_id(&self) -> String;
    /// Says whether the clock runs by itself. If not, whoever moves it tells the host.
    fn runs(&self) -> bool;
}

/// Host time from a clock and the place where the store left off.
pub struct HostClock {
    clock: Arc<dyn Clock>,
    /// The host time and the monotonic time of the same moment.
    base: (HostTime, u64),
    boot: String,
}

/// Where the store left off.
#[derive(Debug, Clone, Default)]
pub struct LeftOff {
    /// The boot, monotonic time and host time of the last open.
    pub opened: Option<(String, u64, HostTime)>,
    /// The host time of the last record.
    pub now: HostTime,
    /// The wall time of the last record.
    pub wall: u64,
}

impl HostClock {
    /// Goes on from where the store left off.
    #[must_use]
    pub fn resume(clock: Arc<dyn Clock>, left_off: &LeftOff) -> Self {
        let (monotonic, boot) = (clock.monotonic_ms(), clock.boot_id());
        let now = match &left_off.opened {
            Some((same, at, host)) if *same == boot => {
                host.plus(monotonic.saturating_sub(*at)).max(left_off.now)
            }
            Some(_) => left_off
                .now
                .plus(clock.wall_ms().saturating_sub(left_off.wall)),
            None => HostTime(0),
        };
        Self {
            clock,
            base: (now, monotonic),
            boot,
        }
    }

    /// Returns the host time now.
    #[must_use]
    pub fn now(&self) -> HostTime {
        self.base
            .0
            .plus(self.clock.monotonic_ms().saturating_sub(self.base.1))
    }

    /// Returns the wall time now, unix milliseconds.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Returns the boot's name and the monotonic time of a host time, for the record of the open.
    #[must_use]
    pub fn anchor(&self) -> (String, u64) {
        (self.boot.clone(), self.base.1)
    }

    /// Returns how long until `due` by the wall of this process; none for a clock that does not run by itself.
    #[must_use]
    pub fn until(&self, due: HostTime) -> Option<std::time::Duration> {
        self.clock
            .runs()
            .then(|| std::time::Duration::from_millis(due.since(self.now())))
    }
}

impl std::fmt::Debug for HostClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostClock")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Clock for crate::clock::SystemClock {
    fn monotonic_ms(&self) -> u64 {
        Self::monotonic_ms(self)
    }

    fn wall_ms(&self) -> u64 {
        Self::wall_ms(self)
    }

    fn boot_id(&self) -> String {
        Self::boot_id(self).to_owned()
    }

    fn runs(&self) -> bool {
        true
    }
}
