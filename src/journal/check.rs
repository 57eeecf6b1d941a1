//! What a batch must be like, whatever stores it.

use std::collections::BTreeMap;

use super::{Batch, Error, SnapshotRef, frame};

/// Checks that a batch goes on from the last numbers and that its parts are not too long.
pub(super) fn numbers(
    batch: &Batch,
    last_seq: u64,
    last_audit: u64,
    cursor: impl Fn(u32) -> u64,
) -> Result<(), Error> {
    frame::check_sizes(batch)?;
    let mut cursors: BTreeMap<u32, u64> = BTreeMap::new();
    for (expected, item) in (last_seq + 1..).zip(&batch.items) {
        if item.seq != expected {
            return Err(Error::OutOfOrder {
                what: "a record's number".to_owned(),
                expected,
                found: item.seq,
            });
        }
        for (supervisor, found) in &item.to {
            let last = cursors
                .entry(*supervisor)
                .or_insert_with(|| cursor(*supervisor));
            if *found <= *last || *found == u64::MAX {
                let what = format!("the cursor of record {expected} for supervisor {supervisor}");
                return Err(Error::OutOfOrder {
                    what,
                    expected: *last + 1,
                    found: *found,
                });
            }
            *last = *found;
        }
    }
    for (expected, row) in (last_audit + 1..).zip(&batch.audit) {
        if row.no != expected {
            return Err(Error::OutOfOrder {
                what: "an audit row's number".to_owned(),
                expected,
                found: row.no,
            });
        }
    }
    Ok(())
}

/// Returns the committed snapshots with a new one among them: the newest two, the newest first.
pub(super) fn snapshots(
    now: &[SnapshotRef],
    newest: SnapshotRef,
    last_seq: u64,
) -> Result<Vec<SnapshotRef>, Error> {
    let what = || "the number of a state snapshot".to_owned();
    if newest.seq > last_seq {
        return Err(Error::OutOfOrder {
            what: what(),
            expected: last_seq,
            found: newest.seq,
        });
    }
    match now.first() {
        Some(last) if newest == *last => Ok(now.to_vec()),
        Some(last) if newest.seq <= last.seq => Err(Error::OutOfOrder {
            what: what(),
            expected: last.seq + 1,
            found: newest.seq,
        }),
        _ => Ok(std::iter::once(newest)
            .chain(now.first().copied())
            .collect()),
    }
}
