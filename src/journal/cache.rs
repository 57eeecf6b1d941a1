//! The newest records in memory, so that live sessions never read the store.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Item;

/// A window of the newest records, bounded by bytes, with a view by supervisor.
#[derive(Debug)]
pub(super) struct Cache {
    limit: usize,
    bytes: usize,
    /// Dense by number; the front is the oldest.
    items: VecDeque<Arc<Item>>,
    by_supervisor: HashMap<u32, VecDeque<(u64, Arc<Item>)>>,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            items: VecDeque::new(),
            by_supervisor: HashMap::new(),
        }
    }

    /// Adds the next record and lets the oldest ones go.
    pub(super) fn push(&mut self, item: Arc<Item>) {
        self.bytes += item.weight();
        for (supervisor, cursor) in &item.to {
            self.by_supervisor
                .entry(*supervisor)
                .or_default()
                .push_back((*cursor, Arc::clone(&item)));
        }
        self.items.push_back(item);
        while self.bytes > self.limit {
            let Some(old) = self.items.pop_front() else {
                break;
            };
            self.bytes -= old.weight();
            for (supervisor, _) in &old.to {
                if let Some(queue) = self.by_supervisor.get_mut(supervisor) {
                    queue.pop_front();
                    if queue.is_empty() {
                        self.by_supervisor.remove(supervisor);
                    }
                }
            }
        }
    }

    /// Returns a supervisor's records after a cursor, or `None` when the window begins later than that.
    pub(super) fn events(
        &self,
        supervisor: u32,
        after: u64,
        limits: &mut Limits,
    ) -> Option<Vec<(u64, Arc<Item>)>> {
        let queue = self.by_supervisor.get(&supervisor)?;
        let (first, _) = queue.front()?;
        if after.saturating_add(1) < *first {
            return None;
        }
        let start = queue.partition_point(|(cursor, _)| *cursor <= after);
        Some(
            queue
                .range(start..)
                .take_while(|(_, item)| limits.admit(item.bytes.len()))
                .cloned()
                .collect(),
        )
    }

    /// Returns the records from a number on, or `None` when the window begins later than that.
    pub(super) fn records(&self, from_seq: u64, max: usize) -> Option<Vec<Arc<Item>>> {
        let first = self.items.front()?.seq;
        let skip = usize::try_from(from_seq.checked_sub(first)?).ok()?;
        Some(self.items.iter().skip(skip).take(max).cloned().collect())
    }
}

/// How much of a page is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    items: usize,
    bytes: usize,
    /// Whether something had to stay outside.
    pub(super) full: bool,
}

impl Limits {
    pub(super) fn new(items: usize, bytes: usize) -> Self {
        Self {
            items: items.max(1),
            bytes: bytes.max(1),
            full: false,
        }
    }

    /// Takes room for one more record; the first always has room, and the one that crosses the limit is the last.
    pub(super) fn admit(&mut self, bytes: usize) -> bool {
        if self.items == 0 || self.bytes == 0 {
            self.full = true;
            return false;
        }
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}
