//! When events were delivered on this session, to the second, for the age of causes (C20).

use std::collections::VecDeque;

use crate::contract::time::HostTime;

/// A checkpoint a second for an hour.
const MOST: usize = 3_600;
const EVERY_MS: u64 = 1_000;

/// The first cursor delivered in each second. Bounded: what is older than the oldest checkpoint counts as delivered
/// when it was committed, which is never later.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    marks: VecDeque<(u64, HostTime)>,
    last: u64,
}

impl Deliveries {
    /// Takes note of a delivery; cursors rise.
    pub fn note(&mut self, cursor: u64, now: HostTime) {
        self.last = cursor;
        if self
            .marks
            .back()
            .is_none_or(|(_, at)| now.since(*at) >= EVERY_MS)
        {
            if self.marks.len() == MOST {
                self.marks.pop_front();
            }
            self.marks.push_back((cursor, now));
        }
    }

    /// Returns when the event was delivered, at most a second too early; none if it was not on this session.
    pub fn of(&self, cursor: u64) -> Option<HostTime> {
        if cursor > self.last {
            return None;
        }
        let after = self.marks.partition_point(|(first, _)| *first <= cursor);
        Some(self.marks.get(after.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_known_to_the_second() {
        let mut deliveries = Deliveries::default();
        for (cursor, at) in [(5, 100), (6, 900), (9, 1_200), (12, 5_000)] {
            deliveries.note(cursor, HostTime(at));
        }
        let times = [4, 5, 6, 9, 11, 12, 13].map(|c| deliveries.of(c).map(|t| t.0));
        assert_eq!(
            times,
            [
                None,
                Some(100),
                Some(100),
                Some(1_200),
                Some(1_200),
                Some(5_000),
                None
            ]
        );
    }

    #[test]
    fn an_hour_of_deliveries_is_all_that_is_kept() {
        let mut deliveries = Deliveries::default();
        for second in 0..2 * MOST as u64 {
            deliveries.note(second + 1, HostTime(second * EVERY_MS));
        }
        assert_eq!(deliveries.marks.len(), MOST);
        assert_eq!(deliveries.of(1), None);
        assert_eq!(
            deliveries.of(2 * MOST as u64).map(|t| t.0),
            Some((2 * MOST as u64 - 1) * EVERY_MS)
        );
    }
}
