//! How long to wait before the next try: doubling from 200 ms to 30 s, with jitter (C42).

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const CAP: Duration = Duration::from_secs(30);

/// Paces the tries to reach the host.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Forgets the failures: the last session was healthy for long enough.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the next delay: at least what the host asked for, else between half and the whole of the
    /// doubled delay. `chance` is from 0 to 1.
    pub(crate) fn next(&mut self, asked: Option<Duration>, chance: f64) -> Duration {
        let whole = FIRST
            .saturating_mul(1_u32.checked_shl(self.failures.min(20)).unwrap_or(u32::MAX))
            .min(CAP);
        self.failures = self.failures.saturating_add(1);
        let delay = whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        // Jitter goes on top of what the host asked for, so that engines told the same do not come together.
        asked.map_or(delay, |asked| {
            delay.max(asked + asked.mul_f64(chance.clamp(0.0, 1.0) / 10.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_begin_again_after_a_reset() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..12)
            .map(|_| backoff.next(None, 1.0).as_millis())
            .collect();
        assert_eq!(delays[..4], [200, 400, 800, 1600]);
        assert_eq!(delays[11], 30_000);
        backoff.reset();
        assert_eq!(backoff.next(None, 0.0).as_millis(), 100);
    }

    #[test]
    fn what_the_host_asks_for_is_the_least() {
        let mut backoff = Backoff::default();
        let asked = Some(Duration::from_secs(40));
        assert!(backoff.next(asked, 0.0) >= Duration::from_secs(40));
    }
}
