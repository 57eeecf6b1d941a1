//! Reads stored frames in order, checks that they are one history, and builds the replay index.

use std::sync::Arc;

use super::store::Store;
use crate::journal::frame::{Class, Hash, digest};
use crate::journal::index::{Entry, Index};
use crate::journal::{Damage, Error, Item};

/// A place that the history must go through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    pub(super) number: u64,
    pub(super) chain: Hash,
}

/// Reads the records after `index.last_seq`, adds them to the index, and hands them out.
pub(super) fn events(
    store: &Store,
    index: &mut Index,
    anchors: &[Anchor],
    mut visit: impl FnMut(Arc<Item>),
) -> Result<(), Error> {
    let class = Class::Events;
    let start = Anchor {
        number: index.last_seq,
        chain: index.chain,
    };
    let mut walk = Walk::new(store, class, start, anchors)?;
    store.walk(class, start.number + 1, |first, frame, bytes| {
        walk.enter(first, &frame.prev)?;
        for record in frame.events() {
            let record = record.map_err(|why| store.bad_frame(class, first, why))?;
            for (supervisor, cursor) in record.routes() {
                if cursor <= index.last_cursor(supervisor) || cursor == u64::MAX {
                    return Err(store.bad_frame(class, first, "a cursor goes back"));
                }
                let bytes = record.bytes.len() as u64;
                index.add(
                    supervisor,
                    Entry {
                        frame: first,
                        cursor,
                        time: record.time,
                        kind: record.kind,
                        bytes,
                    },
                );
            }
            visit(record.to_item());
        }
        walk.leave(frame.last(), digest(bytes), first)?;
        index.last_frame = first;
        Ok(true)
    })?;
    (index.last_seq, index.chain) = walk.end(|found, head| Damage::Short { found, head })?;
    Ok(())
}

/// Reads the audit rows after `index.last_audit`.
pub(super) fn audit(store: &Store, index: &mut Index, anchors: &[Anchor]) -> Result<(), Error> {
    let class = Class::Audit;
    let start = Anchor {
        number: index.last_audit,
        chain: index.audit_chain,
    };
    let mut walk = Walk::new(store, class, start, anchors)?;
    store.walk(class, start.number + 1, |first, frame, _| {
        walk.enter(first, &frame.prev)?;
        let rows = frame
            .audit()
            .map_err(|why| store.bad_frame(class, first, why))?;
        let chain = rows.last().map_or(frame.prev, |row| row.hash);
        walk.leave(frame.last(), chain, first)?;
        Ok(true)
    })?;
    (index.last_audit, index.audit_chain) =
        walk.end(|found, head| Damage::AuditShort { found, head })?;
    Ok(())
}

/// The place in the history while it is read.
struct Walk<'a> {
    store: &'a Store,
    class: Class,
    at: Anchor,
    open: Vec<Anchor>,
}

impl<'a> Walk<'a> {
    fn new(
        store: &'a Store,
        class: Class,
        start: Anchor,
        anchors: &[Anchor],
    ) -> Result<Self, Error> {
        // What lies before the start cannot be seen from here; it is durable, since the start is.
        let open = anchors
            .iter()
            .filter(|anchor| anchor.number >= start.number)
            .copied()
            .collect();
        let mut walk = Self {
            store,
            class,
            at: start,
            open,
        };
        walk.pass(start.number)?;
        Ok(walk)
    }

    fn chain_breaks(&self, at: u64) -> Error {
        self.store.damaged(Damage::Chain {
            what: self.class.word(),
            at,
        })
    }

    fn enter(&self, first: u64, prev: &Hash) -> Result<(), Error> {
        let expected = self.at.number + 1;
        if first != expected {
            return Err(self.store.damaged(Damage::Hole {
                what: self.class.word(),
                expected,
                found: first,
            }));
        }
        if *prev == self.at.chain {
            Ok(())
        } else {
            Err(self.chain_breaks(first))
        }
    }

    fn leave(&mut self, last: u64, chain: Hash, first: u64) -> Result<(), Error> {
        self.at = Anchor {
            number: last,
            chain,
        };
        self.pass(first)
    }

    /// Compares with the anchors at this place.
    fn pass(&mut self, first: u64) -> Result<(), Error> {
        let at = self.at;
        let bad = self.open.iter().any(|anchor| {
            anchor.number < at.number || (anchor.number == at.number && anchor.chain != at.chain)
        });
        self.open.retain(|anchor| anchor.number > at.number);
        if bad {
            Err(self.chain_breaks(first))
        } else {
            Ok(())
        }
    }

    fn end(self, short: impl Fn(u64, u64) -> Damage) -> Result<(u64, Hash), Error> {
        match self.open.iter().map(|anchor| anchor.number).max() {
            Some(head) => Err(self.store.damaged(short(self.at.number, head))),
            None => Ok((self.at.number, self.at.chain)),
        }
    }
}
