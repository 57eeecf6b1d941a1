//! The pace at which engines come back after failures (C42): the only place that knows the numbers.
//!
//! Time comes in as an argument, so the machine runs in virtual time too. Absent on purpose: waiting. Managed
//! engines are started again when the time has come; attached ones that come earlier are told how long to wait.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;

use crate::contract::time::HostTime;

/// The wait after a first failure.
pub const SHORTEST: Duration = Duration::from_millis(200);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(30);
/// How much longer each wait is than the one before.
const FACTOR: f64 = 2.0;
/// How far a wait strays from its middle, so that engines do not come back in step.
const JITTER: f64 = 0.25;
/// How long an engine must have been well for its next failure to count as a first one, in milliseconds.
pub const HEALTHY_MS: u64 = 60_000;

/// The pace of one engine.
#[derive(Debug)]
pub struct Backoff {
    pace: ExponentialBackoff,
    next_try: HostTime,
}

impl Default for Backoff {
    fn default() -> Self {
        let mut pace = ExponentialBackoff {
            current_interval: SHORTEST,
            initial_interval: SHORTEST,
            randomization_factor: JITTER,
            multiplier: FACTOR,
            max_interval: LONGEST,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        pace.reset();
        Self {
            pace,
            next_try: HostTime(0),
        }
    }
}

impl Backoff {
    /// Takes note of a failure and returns when the engine may come back. `well_since` is when it began to be well,
    /// if it was.
    pub fn failed(&mut self, now: HostTime, well_since: Option<HostTime>) -> HostTime {
        if well_since.is_some_and(|since| now.since(since) >= HEALTHY_MS) {
            self.pace.reset();
        }
        // Without an end to the attempts there is always a next wait.
        let wait = self.pace.next_backoff().unwrap_or(LONGEST);
        let wait = wait.clamp(SHORTEST, LONGEST);
        self.next_try = now.plus(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self.next_try
    }

    /// Returns how long the engine still has to wait, in milliseconds; none if it may come now.
    #[must_use]
    pub fn wait_ms(&self, now: HostTime) -> Option<u64> {
        Some(self.next_try.since(now)).filter(|ms| *ms > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails again as soon as it may, and returns the waits.
    fn waits(backoff: &mut Backoff, now: &mut HostTime, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let next = backoff.failed(*now, Some(*now));
                let wait = next.since(*now);
                *now = next;
                wait
            })
            .collect()
    }

    #[test]
    fn waits_grow_from_a_fifth_of_a_second_to_half_a_minute() {
        let (mut backoff, mut now) = (Backoff::default(), HostTime(5));
        let waits = waits(&mut backoff, &mut now, 20);
        assert!((200..=250).contains(&waits[0]), "{waits:?}");
        assert!(
            waits.iter().all(|w| (200..=30_000).contains(w)),
            "{waits:?}"
        );
        assert!(waits[10..].iter().all(|w| *w >= 22_500), "{waits:?}");
        assert!(waits.windows(2).take(6).all(|w| w[0] < w[1]), "{waits:?}");
    }

    #[test]
    fn waits_are_not_in_step() {
        let firsts: std::collections::BTreeSet<u64> = (0..50)
            .map(|_| {
                let (mut backoff, mut now) = (Backoff::default(), HostTime(0));
                waits(&mut backoff, &mut now, 3)[2]
            })
            .collect();
        assert!(firsts.len() > 5, "{firsts:?}");
    }

    #[test]
    fn a_minute_of_health_begins_anew_and_less_does_not() {
        let (mut backoff, mut now) = (Backoff::default(), HostTime(0));
        waits(&mut backoff, &mut now, 8);
        let well = now;
        now = well.plus(HEALTHY_MS - 1);
        assert!(backoff.failed(now, Some(well)).since(now) > 1_000);
        let well = now;
        now = well.plus(HEALTHY_MS);
        assert!(backoff.failed(now, Some(well)).since(now) <= 250);
    }

    #[test]
    fn the_wait_runs_down_and_ends() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait_ms(HostTime(0)), None);
        let next = backoff.failed(HostTime(1_000), None);
        assert_eq!(
            backoff.wait_ms(HostTime(1_000)),
            Some(next.since(HostTime(1_000)))
        );
        assert_eq!(backoff.wait_ms(HostTime(next.0 - 1)), Some(1));
        assert_eq!(backoff.wait_ms(next), None);
    }
}
