//! Every stored shape of every version stays readable: `tests/golden/journal/v1/*.bin`.
//!
//! A file is written once, by `SIGNALBOX_GOLDEN=write cargo test`, and never changed. A new shape is a new version with
//! files of its own.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::journal::frame::{Class, Frame, GENESIS, digest, encode_audit, encode_events};
use crate::journal::head::Head;
use crate::journal::index::{Entry, Index};
use crate::journal::sled::golden::{decode_snapshots, decode_trim, encode_snapshots, encode_trim};
use crate::journal::{AuditItem, Item, SnapshotRef, snapshot};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/journal/v1")
        .join(name)
}

fn stored(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the golden file, after checking that this version still writes the same bytes.
fn golden(name: &str, now: &[u8]) -> Vec<u8> {
    let path = path(name);
    if std::env::var_os("SIGNALBOX_GOLDEN").is_some() && !path.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, now).unwrap();
    }
    let stored = stored(name);
    assert!(
        stored == now,
        "{name}: this version writes other bytes; that needs a new version of the format"
    );
    stored
}

fn items() -> Vec<Item> {
    let item = |seq: u64, kind, to: &[(u32, u64)], bytes: &[u8]| Item {
        seq,
        time: 1_000_000 + seq,
        kind,
        to: to.to_vec(),
        bytes: bytes.to_vec(),
    };
    vec![
        item(7, 0, &[], b""),
        item(8, 1, &[(1, 3)], b"one recipient"),
        item(
            9,
            255,
            &[(1, 4), (2, 1), (u32::MAX, u64::MAX - 1)],
            &[0, 255, 128],
        ),
    ]
}

#[test]
fn a_frame_of_records_is_read() {
    let prev = digest(b"the frame before");
    let (frames, chain) = encode_events(&items(), prev);
    let bytes = golden("events.bin", &frames[0].bytes);
    let frame = Frame::parse(&bytes, Class::Events).unwrap();
    assert_eq!((frame.first, frame.last(), frame.prev), (7, 9, prev));
    let read: Vec<Arc<Item>> = frame
        .events()
        .map(|record| record.unwrap().to_item())
        .collect();
    assert!(read.iter().map(|item| &**item).eq(&items()));
    assert_eq!(chain, digest(&bytes));
}

#[test]
fn a_long_record_in_a_frame_of_its_own_is_read() {
    let mut item = items().remove(1);
    item.bytes = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
    let (frames, _) = encode_events(std::slice::from_ref(&item), GENESIS);
    let bytes = golden("events-long.bin", &frames[0].bytes);
    let frame = Frame::parse(&bytes, Class::Events).unwrap();
    assert_eq!(*frame.events().next().unwrap().unwrap().to_item(), item);
}

#[test]
fn a_frame_of_audit_rows_is_read() {
    let rows: Vec<AuditItem> = [&b"first"[..], b"", b"third"]
        .iter()
        .zip(11..)
        .map(|(bytes, no)| AuditItem {
            no,
            bytes: bytes.to_vec(),
        })
        .collect();
    let (frames, chain) = encode_audit(&rows, digest(b"the row before"));
    let bytes = golden("audit.bin", &frames[0].bytes);
    let frame = Frame::parse(&bytes, Class::Audit).unwrap();
    let read = frame.audit().unwrap();
    assert!(
        read.iter()
            .map(|row| (row.no, &row.bytes))
            .eq(rows.iter().map(|row| (row.no, &row.bytes)))
    );
    assert_eq!(read.last().unwrap().hash, chain);
}

#[test]
fn a_commit_head_is_read() {
    let head = Head {
        turn: 5,
        epoch: 2,
        last_seq: 99,
        chain: digest(b"records"),
        last_audit: 77,
        audit_chain: digest(b"audit"),
        clean: true,
    };
    let bytes = golden("head.bin", &head.encode());
    assert_eq!(Head::decode(&bytes), Some(head));
}

#[test]
fn a_state_snapshot_with_its_index_is_read() {
    let mut index = Index::after(900, digest(b"records"));
    (index.last_frame, index.last_audit, index.audit_chain) = (890, 50, digest(b"audit"));
    for n in 1..=3000 {
        let entry = Entry {
            frame: n / 2 * 3 + 1,
            cursor: n,
            time: n * 7,
            kind: (n % 3) as u8,
            bytes: n,
        };
        index.add(1, entry);
    }
    index.add(
        2,
        Entry {
            frame: 5,
            cursor: 65_536,
            time: 9,
            kind: 1,
            bytes: 4,
        },
    );
    index.raise_floor(1, 2500);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(snapshot::folder(dir.path())).unwrap();
    snapshot::write(dir.path(), 880, b"the state", &index).unwrap();
    let now = fs::read(snapshot::folder(dir.path()).join("00000000000000000880.snap")).unwrap();
    let bytes = golden("snapshot.bin", &now);
    let (start, length, read) = snapshot::parts(&bytes, 880).unwrap();
    assert_eq!(&bytes[start..start + length], b"the state");
    assert_eq!(read.encode(), index.encode());
    assert_eq!(read.info(1), index.info(1));
    assert_eq!(read.missed(1, 1, 3000), index.missed(1, 1, 3000));
    for after in [2500, 2501, 2999] {
        let frames = |index: &Index| index.stream(1).unwrap().frames_after(after, 5);
        assert_eq!(frames(&read), frames(&index));
    }
}

#[test]
fn the_small_values_are_read() {
    let chain = digest(b"before");
    let bytes = golden("trim.bin", &encode_trim(42, &chain));
    assert_eq!(decode_trim(&bytes), Some((42, chain)));
    let snapshots = [
        SnapshotRef {
            seq: 880,
            digest: digest(b"a"),
        },
        SnapshotRef {
            seq: 500,
            digest: digest(b"b"),
        },
    ];
    let bytes = golden("snapshots.bin", &encode_snapshots(&snapshots));
    assert_eq!(decode_snapshots(&bytes).unwrap(), snapshots);
}

#[test]
fn any_changed_or_missing_byte_of_a_frame_or_head_is_noticed() {
    let (events, audit, head) = (
        stored("events.bin"),
        stored("audit.bin"),
        stored("head.bin"),
    );
    let snapshot = stored("snapshot.bin");
    let noticed = |bytes: &[u8], whole: &[u8]| match () {
        () if whole == events => Frame::parse(bytes, Class::Events).is_err(),
        () if whole == audit => Frame::parse(bytes, Class::Audit).is_err(),
        () if whole == head => Head::decode(bytes).is_none(),
        // The digest of a snapshot is checked before it is decoded; decoding must only not go wrong.
        () => snapshot::parts(bytes, 880).is_none() || bytes.len() == whole.len(),
    };
    for whole in [&events, &audit, &head, &snapshot] {
        for at in 0..whole.len() {
            assert!(noticed(&whole[..at], whole), "cut at {at}");
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(noticed(&bytes, whole), "bit {bit} of {at}");
            }
        }
    }
}
