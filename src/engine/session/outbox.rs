//! What a session has to say before events, in the order of its urgency. Bounded: results by what is read, reviews
//! by the core, one tick, one word of progress.

use std::collections::VecDeque;

use crate::contract::time::HostTime;
use crate::core::effect::ReviewQuestion;
use crate::host::mailbox::Tick;
use crate::wire::proto::v1 as pb;

/// A message that is ready, or one whose words depend on when it leaves.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it goes from hand to hand and is never kept"
)]
pub(super) enum Next {
    Ready(pb::connect_response::Body),
    Review(Box<ReviewQuestion>),
    Tick(Tick),
    Progress,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    first: Option<pb::connect_response::Body>,
    results: VecDeque<pb::DirectiveResult>,
    reviews: VecDeque<ReviewQuestion>,
    tick: Option<Tick>,
    progress: bool,
}

impl Outbox {
    /// Sets what comes before everything else.
    pub fn begin(&mut self, first: pb::connect_response::Body) {
        self.first = Some(first);
    }

    pub fn result(&mut self, result: pb::DirectiveResult) {
        self.results.push_back(result);
    }

    pub fn review(&mut self, review: ReviewQuestion) {
        self.reviews.push_back(review);
    }

    /// Takes a tick; one that was not sent yet is missed, and the newer one says so (C15).
    pub fn tick(&mut self, tick: Tick) {
        let lost = self.tick.map_or(0, |old| old.missed + 1);
        self.tick = Some(Tick {
            missed: tick.missed + lost,
            ..tick
        });
    }

    pub fn progress(&mut self) {
        self.progress = true;
    }

    /// Returns how many results wait.
    pub fn results(&self) -> usize {
        self.results.len()
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
            && self.results.is_empty()
            && self.reviews.is_empty()
            && self.tick.is_none()
            && !self.progress
    }

    /// Takes the most urgent message. A review whose time is over is dropped: its verdict would come too late.
    pub fn next(&mut self, now: HostTime) -> Option<Next> {
        if let Some(first) = self.first.take() {
            return Some(Next::Ready(first));
        }
        if let Some(result) = self.results.pop_front() {
            return Some(Next::Ready(pb::connect_response::Body::Result(result)));
        }
        while let Some(review) = self.reviews.pop_front() {
            if review.deadline > now {
                return Some(Next::Review(Box::new(review)));
            }
        }
        if let Some(tick) = self.tick.take() {
            return Some(Next::Tick(tick));
        }
        std::mem::take(&mut self.progress).then_some(Next::Progress)
    }

    /// Takes the results that wait, for the end of the stream.
    pub fn take_results(&mut self) -> impl Iterator<Item = pb::connect_response::Body> + '_ {
        self.results
            .drain(..)
            .map(pb::connect_response::Body::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(at: u64, missed: u64) -> Tick {
        Tick {
            scheduled: HostTime(at),
            now: HostTime(at),
            missed,
        }
    }

    #[test]
    fn ticks_that_wait_collapse_into_one() {
        let mut outbox = Outbox::default();
        outbox.tick(tick(100, 0));
        outbox.tick(tick(200, 0));
        outbox.tick(tick(500, 2));
        assert!(matches!(
            outbox.next(HostTime(0)),
            Some(Next::Tick(Tick {
                scheduled: HostTime(500),
                missed: 4,
                ..
            }))
        ));
        assert!(outbox.is_empty());
    }

    #[test]
    fn results_go_before_ticks_and_progress_goes_last() {
        let mut outbox = Outbox::default();
        outbox.progress();
        outbox.tick(tick(1, 0));
        outbox.result(pb::DirectiveResult::default());
        outbox.begin(pb::connect_response::Body::Progress(pb::Progress::default()));
        let order: Vec<_> = std::iter::from_fn(|| outbox.next(HostTime(0)))
            .map(|next| match next {
                Next::Ready(pb::connect_response::Body::Result(_)) => "result",
                Next::Ready(_) => "first",
                Next::Review(_) => "review",
                Next::Tick(_) => "tick",
                Next::Progress => "progress",
            })
            .collect();
        assert_eq!(order, ["first", "result", "tick", "progress"]);
    }
}
