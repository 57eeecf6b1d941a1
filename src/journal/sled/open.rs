//! Opening: lock, leftovers, store, format, snapshot, check.

use std::fs;
use std::path::Path;
use std::sync::{Arc, RwLock};

use super::scan::{self, Anchor};
use super::store::{FORMAT, KEY_EPOCH, KEY_FORMAT, Store};
use super::{Live, Shared, SledJournal};
use crate::clock::monotonic_ms;
use crate::journal::cache::Cache;
use crate::journal::dir::{self, Lock, io_error};
use crate::journal::frame::{Class, GENESIS, Hash, digest};
use crate::journal::head::{Head, Slots};
use crate::journal::index::Index;
use crate::journal::{Damage, Error, Opened, SnapshotRef, snapshot};

/// How much of the history an open reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// What came after the newest state snapshot, and that it is tied to what came before. Damage further back is
    /// found, and named, when it is read.
    #[default]
    Tail,
    /// Everything that is stored.
    Full,
}

/// Settings of the journal on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Memory for the newest records, in bytes (32 MiB): readers inside it never touch the store.
    pub tail_bytes: usize,
    /// Memory for the store's own cache, in bytes (64 MiB).
    pub cache_bytes: u64,
    /// How much of the history an open checks (the tail).
    pub verify: Verify,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tail_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            verify: Verify::Tail,
        }
    }
}

/// Opens and checks a journal.
pub(super) fn open(dir: &Path, options: Options) -> Result<Opened<SledJournal>, Error> {
    dir::prepare(dir)?;
    let lock = Lock::take(dir)?;
    remove_leftovers(dir)?;
    let (slots, head) =
        Slots::open(dir).map_err(|e| io_error(dir, "reading the commit head", e))?;
    if let Some(head) = head
        && head.last_seq > 0
        && !dir.join("db").exists()
    {
        let what = Damage::Short {
            found: 0,
            head: head.last_seq,
        };
        return Err(Error::Damaged {
            dir: dir.to_owned(),
            what,
        });
    }
    let store = Store::open(dir, options.cache_bytes)?;
    let settle = || {
        dir::close_modes(dir)?;
        fs::File::open(dir.join("conf"))?.sync_all()?;
        dir::sync_dir(dir)
    };
    settle().map_err(|e| io_error(dir, "closing the journal's files to others", e))?;
    let fresh = format(&store)?;
    let mut checked = check(&store, head, options)?;
    let epoch = epoch(&store, head)?;
    let clean =
        fresh || head.is_some_and(|head| head.clean && head.last_seq == checked.index.last_seq);
    let mut head = Head {
        turn: head.map_or(0, |head| head.turn),
        epoch,
        last_seq: checked.index.last_seq,
        chain: checked.index.chain,
        last_audit: checked.index.last_audit,
        audit_chain: checked.index.audit_chain,
        clean: false,
    };
    for (supervisor, floor) in store.floors()? {
        checked.index.raise_floor(supervisor, floor);
    }
    // What a crash left undurable behind the head is history now, so it has to be on the disk before anybody sees it.
    store.sync()?;
    for _ in 0..2 {
        head.turn += 1;
        slots
            .write(&head)
            .map_err(|e| io_error(dir, "writing the commit head", e))?;
    }
    slots
        .sync()
        .map_err(|e| io_error(dir, "syncing the commit head", e))?;
    let live = Live {
        index: checked.index,
        cache: checked.cache,
        first_seq: checked.first_seq,
        epoch,
        snapshots: checked.snapshots,
    };
    let journal = SledJournal {
        shared: Arc::new(Shared {
            store,
            live: RwLock::new(live),
        }),
        slots,
        head,
        unsynced: false,
        head_synced: monotonic_ms(),
        head_dirty: false,
        broken: None,
        _lock: lock,
    };
    Ok(Opened {
        journal,
        snapshot: checked.state,
        epoch,
        clean,
    })
}

/// Removes what an interrupted start of the store or an interrupted snapshot left; both are whole elsewhere or useless.
fn remove_leftovers(dir: &Path) -> Result<(), Error> {
    let run = || {
        dir::make_dir(&snapshot::folder(dir))?;
        for folder in [dir.to_owned(), snapshot::folder(dir)] {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                let store_leftover = name.starts_with("snap.") && name.ends_with(".generating");
                if store_leftover || name.ends_with(".part") {
                    fs::remove_file(&path)?;
                    tracing::info!(path = %path.display(), "removed a leftover of an interrupted write");
                }
            }
        }
        Ok(())
    };
    run().map_err(|e| io_error(dir, "removing leftovers", e))
}

/// Checks the stored format, writing it into a new store; says whether the store is new.
fn format(store: &Store) -> Result<bool, Error> {
    match store.number(KEY_FORMAT)? {
        Some(FORMAT) => Ok(false),
        Some(found) if found > FORMAT => Err(Error::Format {
            dir: store.dir.clone(),
            found,
            known: FORMAT,
        }),
        None if store.is_empty()? => {
            let mut batch = sled::Batch::default();
            batch.insert(KEY_FORMAT, &FORMAT.to_le_bytes());
            batch.insert(KEY_EPOCH, &1_u64.to_le_bytes());
            store.apply(batch)?;
            store.flush()?;
            store.sync()?;
            Ok(true)
        }
        _ => Err(store.damaged(Damage::Meta("m/format".to_owned()))),
    }
}

fn epoch(store: &Store, head: Option<Head>) -> Result<u64, Error> {
    let epoch = store.number(KEY_EPOCH)?.unwrap_or_default();
    if epoch == 0 || head.is_some_and(|head| head.epoch > epoch) {
        return Err(store.damaged(Damage::Meta("m/epoch".to_owned())));
    }
    Ok(epoch)
}

/// What the check found.
struct Checked {
    index: Index,
    cache: Cache,
    first_seq: u64,
    snapshots: Vec<SnapshotRef>,
    state: Option<(u64, Vec<u8>)>,
}

fn check(store: &Store, head: Option<Head>, options: Options) -> Result<Checked, Error> {
    let (first_seq, base) = store.trim()?.unwrap_or((1, GENESIS));
    let snapshots = store.snapshots()?;
    let (state, mut index) = restore(store, &snapshots, first_seq)?;
    let anchors = head.map(|head| Anchor {
        number: head.last_seq,
        chain: head.chain,
    });
    let audit_anchors = head.map(|head| Anchor {
        number: head.last_audit,
        chain: head.audit_chain,
    });
    if options.verify == Verify::Full && index.last_seq > 0 {
        let mut whole = Index::after(first_seq - 1, base);
        let covered = Anchor {
            number: index.last_seq,
            chain: index.chain,
        };
        scan::events(store, &mut whole, &[covered], |_| ())?;
        let covered = Anchor {
            number: index.last_audit,
            chain: index.audit_chain,
        };
        scan::audit(store, &mut whole, &[covered])?;
    }
    tie(store, &index, first_seq, &base)?;
    let mut cache = Cache::new(options.tail_bytes);
    scan::events(store, &mut index, anchors.as_slice(), |item| {
        cache.push(item)
    })?;
    scan::audit(store, &mut index, audit_anchors.as_slice())?;
    if head.is_none() && (index.last_seq > 0 || index.last_audit > 0) {
        return Err(store.damaged(Damage::NoHead));
    }
    Ok(Checked {
        index,
        cache,
        first_seq,
        snapshots,
        state,
    })
}

/// A state snapshot's record and bytes, where one is usable, and the index to go on from.
type Restored = (Option<(u64, Vec<u8>)>, Index);

/// Reads the newest usable snapshot, else starts from record 1.
fn restore(store: &Store, snapshots: &[SnapshotRef], first_seq: u64) -> Result<Restored, Error> {
    let mut reasons = Vec::new();
    for wanted in snapshots {
        match snapshot::read(&store.dir, *wanted) {
            Ok((state, index)) => return Ok((Some((wanted.seq, state)), index)),
            Err(reason) => {
                tracing::warn!(
                    seq = wanted.seq,
                    reason,
                    "state snapshot is not usable, trying an older one"
                );
                reasons.push(reason);
            }
        }
    }
    if first_seq > 1 {
        let reasons = if reasons.is_empty() {
            "none is committed".to_owned()
        } else {
            reasons.join("; ")
        };
        return Err(store.damaged(Damage::NoSnapshot(reasons)));
    }
    if !snapshots.is_empty() {
        tracing::warn!("no state snapshot is usable, replaying from the first record");
    }
    Ok((None, Index::default()))
}

/// Checks that a restored index ends where the stored history says so.
fn tie(store: &Store, index: &Index, first_seq: u64, base: &Hash) -> Result<(), Error> {
    let broken = |what: Class, at| {
        store.damaged(Damage::Chain {
            what: what.word(),
            at,
        })
    };
    if index.last_seq + 1 < first_seq {
        let what = Class::Events.word();
        return Err(store.damaged(Damage::Hole {
            what,
            expected: index.last_seq + 1,
            found: first_seq,
        }));
    }
    if index.last_seq + 1 == first_seq {
        if index.chain != *base {
            return Err(broken(Class::Events, first_seq));
        }
    } else {
        let Some(bytes) = store.frame(Class::Events, index.last_frame)? else {
            return Err(store.damaged(Damage::Short {
                found: index.last_frame.saturating_sub(1),
                head: index.last_seq,
            }));
        };
        let frame = store.parse(Class::Events, index.last_frame, &bytes)?;
        if frame.last() != index.last_seq || digest(&bytes) != index.chain {
            return Err(broken(Class::Events, index.last_seq));
        }
    }
    if index.last_audit > 0 {
        let short = || {
            store.damaged(Damage::AuditShort {
                found: 0,
                head: index.last_audit,
            })
        };
        let first = store
            .frame_of(Class::Audit, index.last_audit)?
            .ok_or_else(short)?;
        let bytes = store.frame(Class::Audit, first)?.ok_or_else(short)?;
        let frame = store.parse(Class::Audit, first, &bytes)?;
        let rows = frame
            .audit()
            .map_err(|why| store.bad_frame(Class::Audit, first, why))?;
        let last = rows.last().filter(|row| row.no == index.last_audit);
        if last.is_none_or(|row| row.hash != index.audit_chain) {
            return Err(broken(Class::Audit, index.last_audit));
        }
    }
    Ok(())
}
