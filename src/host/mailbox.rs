//! What the host has for one session, in one place: the session takes all of it at once, so there is
//! one wake-up a commit and nothing queues without bound.
//!
//! Events are not here: a session reads them from the journal at its own pace when told that there are new ones.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::contract::outcome::Answer;
use crate::contract::time::HostTime;
use crate::core::effect::{Refusal, ReviewQuestion};

/// A tick to be sent; a later one takes the place of one that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When it was due.
    pub scheduled: HostTime,
    /// When the host sent it.
    pub now: HostTime,
    /// How many before it were not sent.
    pub missed: u64,
}

/// Everything that has come for a session since it last looked.
#[derive(Debug, Default)]
pub struct Mail {
    /// Answers to its directives, by the engine's `ref`, in order.
    pub results: Vec<(u64, Result<Answer, Refusal>)>,
    /// Reviews to be asked, in order.
    pub reviews: Vec<ReviewQuestion>,
    /// A tick.
    pub tick: Option<Tick>,
    /// New events are in the journal.
    pub events: bool,
    /// A newer session has taken this one's place.
    pub replaced: bool,
    /// The host stops.
    pub stopping: bool,
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.results.is_empty()
            && self.reviews.is_empty()
            && self.tick.is_none()
            && !self.events
            && !self.replaced
            && !self.stopping
    }
}

/// The mailbox of one session: the host puts in, the session's task takes out.
#[derive(Debug, Default)]
pub struct Mailbox {
    mail: Mutex<Mail>,
    ready: Notify,
    /// Directives whose answers were not taken out yet.
    pending: AtomicUsize,
}

impl Mailbox {
    /// Waits until something is there and takes all of it.
    pub async fn take(&self) -> Mail {
        loop {
            if let Some(mail) = self.try_take() {
                return mail;
            }
            self.ready.notified().await;
        }
    }

    /// Takes what is there, if anything is.
    pub fn try_take(&self) -> Option<Mail> {
        let mut mail = self
            .mail
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if mail.is_empty() {
            return None;
        }
        self.pending
            .fetch_sub(mail.results.len(), Ordering::Relaxed);
        Some(std::mem::take(&mut *mail))
    }

    /// Returns how many directives were sent whose answers were not taken out yet. A session stops reading
    /// its stream while this is high, so that nothing grows without bound.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    pub(super) fn expect_result(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts something in; [`Mailbox::notify`] then wakes the session, once a commit.
    pub(super) fn put(&self, change: impl FnOnce(&mut Mail)) {
        change(
            &mut self
                .mail
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
    }

    pub(super) fn notify(&self) {
        self.ready.notify_one();
    }
}
