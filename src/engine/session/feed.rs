//! A supervisor's stream of events, read from the journal at the session's own pace (C40).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::contract::id::{Cursor, EventId};
use crate::contract::signal::{Event, EventKind, Missed, Signal};
use crate::core::projection;
use crate::core::record::Entry;
use crate::host::HostHandle;
use crate::journal::Page;
use crate::wire::proto::v1 as pb;
use crate::wire::signal::signal;

use super::resume::{Gap, Plan};

/// How many events are taken from the journal at once where they are in memory.
const PAGE: usize = 64;
/// How many are taken at once on another thread: getting there and back costs as much as some dozen events.
const FAR_PAGE: usize = 1_024;
/// How many bytes of records are taken from the journal at once, about.
const PAGE_BYTES: usize = 256 << 10;
/// A stream that is further behind than this is read on another thread, since that reads from the disk.
const NEAR: u64 = 1_024;

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The journal cannot be read.
    #[error(
        "the event log cannot be read ({0}); the host's operator should run `signalbox doctor check`"
    )]
    Journal(#[from] crate::journal::Error),
    /// A record of it is none.
    #[error(
        "the event log holds a bad record ({0}); the host's operator should run `signalbox doctor check`"
    )]
    Record(#[from] crate::core::record::Error),
    /// The reading thread ended.
    #[error("the event log's reader ended ({0}); connect again")]
    Reader(#[from] tokio::task::JoinError),
}

/// The events of one supervisor from a cursor on.
pub(super) struct Feed {
    host: HostHandle,
    number: u32,
    epoch: u32,
    /// Events up to here are in the snapshot.
    as_of: u64,
    /// What the session wants; none for everything.
    kinds: Option<BTreeSet<EventKind>>,
    /// Everything up to here was taken from the journal.
    after: u64,
    /// The journal may hold more.
    behind: bool,
    ready: VecDeque<(u64, pb::Signal)>,
    /// Everything up to here was handed out or filtered.
    delivered: u64,
}

impl Feed {
    pub fn new(
        host: HostHandle,
        number: u32,
        as_of: u64,
        kinds: Option<BTreeSet<EventKind>>,
        plan: Plan,
    ) -> Self {
        let epoch = epoch(&host);
        let mut feed = Self {
            host,
            number,
            epoch,
            as_of,
            kinds,
            after: plan.after,
            behind: true,
            ready: VecDeque::new(),
            delivered: plan.after,
        };
        if let Some(gap) = plan.gap {
            feed.delivered = gap.from.saturating_sub(1);
            feed.miss(gap);
        }
        feed
    }

    /// Says that the journal holds new events.
    pub fn wake(&mut self) {
        self.behind = true;
    }

    /// Returns the next event and its cursor, if one is ready.
    pub fn next(&mut self) -> Option<(u64, pb::Signal)> {
        let next = self.ready.pop_front()?;
        self.delivered = next.0;
        Some(next)
    }

    /// Says whether an event is ready.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the number up to which everything was read: nothing after it can be acknowledged.
    pub fn reached(&self) -> u64 {
        self.after
    }

    /// Returns the cursor up to which everything was delivered or filtered.
    pub fn progress(&self) -> String {
        self.print(if self.ready.is_empty() {
            self.after
        } else {
            self.delivered
        })
    }

    fn print(&self, n: u64) -> String {
        Cursor {
            epoch: self.epoch,
            n,
        }
        .to_string()
    }

    /// Reads on until an event is ready or nothing is left to read.
    pub async fn fill(&mut self) -> Result<(), Error> {
        while self.ready.is_empty() && self.behind {
            let page = self.read().await?;
            self.take(page)?;
        }
        Ok(())
    }

    async fn read(&self) -> Result<Page, Error> {
        let (number, after) = (self.number, self.after);
        let journal = self.host.journal();
        if journal.stream(number).last.saturating_sub(after) <= NEAR {
            return Ok(journal.events(number, after, PAGE, PAGE_BYTES)?);
        }
        let journal = std::sync::Arc::clone(journal);
        let read = move || journal.events(number, after, FAR_PAGE, PAGE_BYTES);
        Ok(tokio::task::spawn_blocking(read).await??)
    }

    fn take(&mut self, page: Page) -> Result<(), Error> {
        match page {
            Page::Trimmed { up_to } => {
                self.miss(Gap {
                    from: self.after + 1,
                    to: up_to,
                    reason: "RETENTION",
                });
                self.after = up_to;
            }
            Page::Data { items, more } => {
                self.behind = more;
                for (cursor, item) in items {
                    if cursor > self.after + 1 {
                        // Numbers that a crash took back are jumped over, and say so (C37).
                        self.miss(Gap {
                            from: self.after + 1,
                            to: cursor - 1,
                            reason: "CRASH",
                        });
                    }
                    self.after = cursor;
                    self.put(cursor, &Entry::decode(&item.bytes)?);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, cursor: u64, entry: &Entry) {
        let wanted = |kind| {
            self.kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&kind))
        };
        if entry.record.kind().is_some_and(wanted)
            && let Some(event) = projection::signal(entry, self.epoch, cursor, cursor <= self.as_of)
        {
            self.ready.push_back((cursor, signal(event, entry.wall)));
        }
    }

    /// Puts an `EventsMissed` in the place of a gap.
    fn miss(&mut self, gap: Gap) {
        // Whoever wants no events at all misses none.
        if self.kinds.as_ref().is_some_and(BTreeSet::is_empty) {
            return;
        }
        let Gap { from, to, reason } = gap;
        let span = to.saturating_sub(from) + u64::from(to > 0);
        let uncounted = matches!(reason, "CRASH" | "EPOCH");
        let stored = self.host.journal().missed(self.number, from, to);
        let by_kind: BTreeMap<String, u64> = if uncounted {
            BTreeMap::new()
        } else {
            stored
                .kinds
                .iter()
                .filter_map(|(class, count)| {
                    // The class is the kind's place, from 1.
                    let kind = EventKind::ALL.get(usize::from(*class).checked_sub(1)?)?;
                    let wanted = self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
                    wanted.then(|| (kind.as_str().to_owned(), *count))
                })
                .collect()
        };
        let count = match &self.kinds {
            Some(_) if !uncounted => by_kind.values().sum::<u64>().min(span),
            _ => span,
        };
        let mut event = Event::of(EventKind::EventsMissed);
        event.missed = Some(Missed {
            from_cursor: self.print(from),
            to_cursor: self.print(to),
            count,
            by_kind,
            reason: reason.to_owned(),
        });
        let event = Signal::Event {
            id: EventId(to).to_string(),
            cursor: self.print(to),
            time_ms: None,
            history: to <= self.as_of,
            event,
        };
        let mut event = signal(event, self.host.clock().wall_ms());
        if let Some(pb::signal::Kind::Event(event)) = &mut event.kind
            && let Some(gap) = &mut event.missed
        {
            gap.summary_exact = stored.exact && !uncounted;
        }
        self.ready.push_back((to, event));
    }
}

/// Returns the epoch that cursors carry.
pub(super) fn epoch(host: &HostHandle) -> u32 {
    // An epoch is counted up by restores from backups.
    u32::try_from(host.journal().epoch()).unwrap_or(u32::MAX)
}
