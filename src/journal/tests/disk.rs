//! What the journal on disk promises beyond the contract.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use super::made::{Disk, Maker, Place, assert_same, files, read_stream};
use crate::journal::*;

/// Fills a journal with batches and two state snapshots.
pub fn filled(place: &dyn Place, made: &mut Maker, batches: usize) {
    let mut journal = place.open().journal;
    for round in 1..=2_u8 {
        for _ in 0..batches {
            journal.append(made.batch(20)).unwrap();
        }
        let snapshot = Some(
            journal
                .snapshots()
                .write(journal.last_seq(), &[round; 5000])
                .unwrap(),
        );
        let floors = vec![(1, made.stream(1).len() as u64 / 3)];
        journal
            .append(Batch {
                snapshot,
                floors,
                ..Batch::default()
            })
            .unwrap();
    }
    for _ in 0..batches {
        journal.append(made.batch(20)).unwrap();
    }
    journal.close().unwrap();
}

#[test]
fn the_index_is_the_same_with_and_without_a_snapshot() {
    let disk = Disk::without_cache();
    let mut made = Maker::new(21);
    filled(&disk, &mut made, 40);
    let see = || {
        let opened = disk.open();
        let reader = opened.journal.reader();
        let streams: Vec<_> = (1..=5)
            .map(|supervisor| {
                let pages: Vec<_> = (0..9)
                    .map(|n| read_stream(&*reader, supervisor, n * 50, 11))
                    .collect();
                (
                    reader.stream(supervisor),
                    reader.missed(supervisor, 1, u64::MAX),
                    pages,
                )
            })
            .collect();
        (opened.snapshot, streams)
    };
    let (snapshot, with) = see();
    assert_eq!(snapshot.unwrap().1, vec![2; 5000]);
    for path in files(&disk.path().join("state")) {
        fs::remove_file(path).unwrap();
    }
    let (snapshot, without) = see();
    assert_eq!(snapshot, None);
    assert!(with == without);
}

#[test]
fn a_damaged_snapshot_gives_way_to_the_older_one() {
    let disk = Disk::new();
    let mut made = Maker::new(22);
    filled(&disk, &mut made, 10);
    let snapshots = files(&disk.path().join("state"));
    let [older, newer] = snapshots.as_slice() else {
        panic!("two snapshots are kept, found {snapshots:?}")
    };
    let mut bytes = fs::read(newer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(newer, bytes).unwrap();
    let opened = disk.open();
    assert_eq!(opened.snapshot.unwrap().1, vec![1; 5000]);
    drop(opened.journal);
    fs::remove_file(older).unwrap();
    let opened = disk.open();
    assert_eq!(
        opened.snapshot, None,
        "all records are there, so they are replayed"
    );
    assert_eq!(opened.journal.last_seq(), made.items.len() as u64);
}

#[test]
fn without_snapshot_and_without_the_first_records_an_open_is_refused() {
    let disk = Disk::new();
    let mut made = Maker::new(23);
    filled(&disk, &mut made, 10);
    let mut journal = disk.open().journal;
    let floors = (1..=5).map(|supervisor| (supervisor, u64::MAX)).collect();
    journal
        .append(Batch {
            floors,
            ..Batch::default()
        })
        .unwrap();
    assert!(journal.sweep(5).unwrap() > 0);
    drop(journal);
    drop(disk.open());
    for path in files(&disk.path().join("state")) {
        fs::write(path, b"").unwrap();
    }
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Damaged {
                what: Damage::NoSnapshot(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.exit_code(), 70);
}

#[test]
fn old_snapshots_are_deleted_and_two_stay() {
    let disk = Disk::new();
    let mut made = Maker::new(24);
    let mut journal = disk.open().journal;
    for _ in 0..5 {
        let items = (0..3).map(|_| made.item(&[1], 10)).collect();
        journal
            .append(Batch {
                items,
                ..Batch::default()
            })
            .unwrap();
        let snapshot = Some(
            journal
                .snapshots()
                .write(journal.last_seq(), b"state")
                .unwrap(),
        );
        journal
            .append(Batch {
                snapshot,
                ..Batch::default()
            })
            .unwrap();
    }
    let names: Vec<_> = files(&disk.path().join("state"))
        .iter()
        .map(|path| {
            path.file_stem()
                .unwrap()
                .to_string_lossy()
                .parse::<u64>()
                .unwrap()
        })
        .collect();
    assert_eq!(names, [12, 15]);
}

#[test]
fn a_second_host_is_told_who_holds_the_directory() {
    let disk = Disk::new();
    let journal = disk.open().journal;
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );
    assert!(text.contains(disk.path().to_str().unwrap()), "{text}");
    assert!(matches!(
        doctor::check(&disk.path()),
        Err(Error::Locked { .. })
    ));
    drop(journal);
    drop(disk.open());
}

#[test]
fn a_reader_that_outlives_its_journal_does_not_keep_it_locked() {
    let disk = Disk::without_cache();
    let mut made = Maker::new(25);
    let mut journal = disk.open().journal;
    journal.append(made.batch(20)).unwrap();
    let reader = journal.reader();
    journal.close().unwrap();
    assert!(matches!(reader.records(1, 1), Err(Error::Closed)));
    assert_same(&*disk.open().journal.reader(), &made);
}

#[test]
fn nothing_in_the_directory_is_open_to_others() {
    let disk = Disk::new();
    let mut made = Maker::new(26);
    filled(&disk, &mut made, 10);
    drop(disk.open());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in files(&disk.path()) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{}", path.display());
    }
}

#[test]
fn no_record_goes_into_a_file_that_the_store_does_not_sync() {
    let disk = Disk::new();
    let mut journal = disk.open().journal;
    let blobs = disk.path().join("blobs");
    let before = fs::metadata(&blobs).unwrap().modified().unwrap();
    let mut made = Maker::new(27);
    for round in 0..40 {
        let items = (0..8)
            .map(|n| made.item(&[1], if n == 0 { round * 20_000 } else { 16_000 }))
            .collect();
        let audit = (0..3).map(|n| made.row(n * 30_000)).collect();
        journal
            .append(Batch {
                items,
                audit,
                ..Batch::default()
            })
            .unwrap();
    }
    assert_eq!(
        fs::metadata(&blobs).unwrap().modified().unwrap(),
        before,
        "a file came and went in {}",
        blobs.display()
    );
    drop(journal);
    assert_same(&*disk.open().journal.reader(), &made);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let disk = Disk::new();
    drop(disk.open());
    let store = ::sled::Config::new()
        .path(disk.path())
        .segment_size(2 << 20)
        .flush_every_ms(None)
        .open()
        .unwrap();
    store.insert("m/format", &2_u64.to_le_bytes()).unwrap();
    store.flush().unwrap();
    drop(store);
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Format {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.exit_code(), 78);
}

#[test]
fn what_is_written_without_waiting_is_seen_at_once_and_durable_after_a_sync() {
    let disk = Disk::new();
    let mut made = Maker::new(28);
    let mut journal = disk.open().journal;
    for _ in 0..20 {
        journal.write(made.batch(20)).unwrap();
        assert_same(&*journal.reader(), &made);
    }
    journal.sync().unwrap();
    let copy = Disk::new();
    copy_dir(&disk.path(), &copy.path());
    assert_same(&*copy.open().journal.reader(), &made);
    journal.write(made.batch(20)).unwrap();
    journal.close().unwrap();
    assert_same(&*disk.open().journal.reader(), &made);
}

#[test]
fn an_unclean_end_is_told() {
    let disk = Disk::new();
    let mut made = Maker::new(29);
    let mut journal = disk.open().journal;
    journal.append(made.batch(20)).unwrap();
    let copy = Disk::new();
    copy_dir(&disk.path(), &copy.path());
    let opened = copy.open();
    assert!(!opened.clean);
    assert_same(&*opened.journal.reader(), &made);
}

#[test]
fn a76_a_hundred_senders_with_200_durable_appends_each_are_all_acknowledged() {
    const SENDERS: u32 = 100;
    const EACH: u64 = 200;
    type Request = (u32, mpsc::SyncSender<u64>);
    let disk = Disk::new();
    let mut journal = disk.open().journal;
    let (inbox, requests) = mpsc::sync_channel::<Request>(64);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seq = 0;
            let mut cursors = vec![0; SENDERS as usize];
            while let Ok(first) = requests.recv() {
                let group: Vec<Request> = std::iter::once(first)
                    .chain(requests.try_iter().take(255))
                    .collect();
                let mut batch = Batch::default();
                for (sender, _) in &group {
                    seq += 1;
                    let cursor = &mut cursors[*sender as usize];
                    *cursor += 1;
                    let to = vec![(*sender, *cursor)];
                    batch.items.push(Item {
                        seq,
                        time: seq,
                        kind: 1,
                        to,
                        bytes: vec![1; 256],
                    });
                }
                journal.append(batch).unwrap();
                for (_, reply) in group {
                    reply.send(seq).unwrap();
                }
            }
        });
        for sender in 0..SENDERS {
            let inbox = inbox.clone();
            scope.spawn(move || {
                for _ in 0..EACH {
                    let (reply, answer) = mpsc::sync_channel(1);
                    inbox.send((sender, reply)).unwrap();
                    answer.recv().unwrap();
                }
            });
        }
        drop(inbox);
    });
    let reader = disk.open().journal.reader();
    assert_eq!(reader.last_seq(), u64::from(SENDERS) * EACH);
    for sender in 0..SENDERS {
        assert_eq!(reader.stream(sender).last, EACH);
    }
}

/// Copies a directory as a crash would leave it.
pub fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    }
}
