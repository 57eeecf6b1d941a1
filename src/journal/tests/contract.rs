//! What every journal promises; each test runs on both.

use std::sync::Arc;

use super::made::{Disk, Maker, Memory, Place, assert_same, read_records, read_stream};
use crate::journal::*;

macro_rules! both {
    ($($name:ident),* $(,)?) => {
        mod on_disk { use super::*; $(#[test] fn $name() { super::$name(&Disk::new()); })* }
        mod on_disk_without_cache {
            use super::*;
            $(#[test] fn $name() { super::$name(&Disk::without_cache()); })*
        }
        mod in_memory { use super::*; $(#[test] fn $name() { super::$name(&Memory::default()); })* }
    };
}

both!(
    an_empty_journal_is_empty,
    what_was_appended_is_read_again_in_order,
    what_was_appended_is_there_after_a_reopen,
    a_batch_that_does_not_continue_is_refused_and_changes_nothing,
    a_record_past_the_limit_is_refused_by_name_and_the_longest_is_taken,
    a_page_keeps_its_limits_and_always_moves,
    a_cursor_of_the_future_gives_an_empty_page,
    cursors_may_jump_and_never_go_back,
    below_the_floor_a_reader_is_told_what_is_gone,
    a_floor_never_goes_back_and_never_past_the_end,
    a_sweep_keeps_what_a_floor_or_the_older_snapshot_needs,
    the_newest_snapshot_comes_back_and_replay_goes_on_after_it,
    a_snapshot_of_the_future_or_of_the_past_is_refused,
    a_new_epoch_survives_a_reopen,
    retention_by_count_is_exact,
    the_audit_chain_links_every_row,
    readers_live_on_while_the_journal_grows,
);

fn an_empty_journal_is_empty(place: &dyn Place) {
    let opened = place.open();
    assert_eq!(
        (opened.snapshot, opened.epoch, opened.clean),
        (None, 1, true)
    );
    let reader = opened.journal.reader();
    assert_eq!(
        (
            reader.first_seq(),
            reader.last_seq(),
            reader.audit_len(),
            reader.epoch()
        ),
        (1, 0, 0, 1)
    );
    assert_eq!(reader.audit_head(), [0; 32]);
    assert_eq!(
        reader.events(1, 0, 10, 10).unwrap(),
        Page::Data {
            items: vec![],
            more: false
        }
    );
    assert!(reader.records(1, 10).unwrap().is_empty());
    assert!(reader.audit(1, 10).unwrap().is_empty());
    assert_eq!(reader.stream(1), StreamInfo::default());
    assert_eq!(reader.floor_for(1, Keep::default()), 0);
    assert_eq!(
        reader.missed(1, 1, 5),
        Missed {
            kinds: vec![],
            exact: true
        }
    );
}

fn what_was_appended_is_read_again_in_order(place: &dyn Place) {
    let mut made = Maker::new(1);
    let mut journal = place.open().journal;
    for _ in 0..60 {
        journal.append(made.batch(30)).unwrap();
        assert_eq!(journal.last_seq(), made.items.len() as u64);
    }
    assert_same(&*journal.reader(), &made);
}

fn what_was_appended_is_there_after_a_reopen(place: &dyn Place) {
    let mut made = Maker::new(2);
    for round in 0..6 {
        let opened = place.open();
        assert!(opened.clean);
        let mut journal = opened.journal;
        assert_same(&*journal.reader(), &made);
        for _ in 0..10 {
            journal.append(made.batch(20)).unwrap();
        }
        if round % 2 == 0 {
            journal.close().unwrap();
        }
    }
    assert_same(&*place.open().journal.reader(), &made);
}

fn a_batch_that_does_not_continue_is_refused_and_changes_nothing(place: &dyn Place) {
    let mut made = Maker::new(3);
    let mut journal = place.open().journal;
    journal.append(made.batch(20)).unwrap();
    let next = journal.last_seq() + 1;
    let rows = journal.reader().audit_len();
    let item = |seq, to: &[(u32, u64)]| Item {
        seq,
        to: to.to_vec(),
        ..Item::default()
    };
    let last = made.stream(1).last().map_or(0, |(cursor, _)| *cursor);
    let cases = [
        Batch {
            items: vec![item(next + 1, &[])],
            ..Batch::default()
        },
        Batch {
            items: vec![item(next - 1, &[])],
            ..Batch::default()
        },
        Batch {
            items: vec![item(next, &[]), item(next, &[])],
            ..Batch::default()
        },
        Batch {
            items: vec![item(next, &[(1, last)])],
            ..Batch::default()
        },
        Batch {
            items: vec![
                item(next, &[(1, last + 1)]),
                item(next + 1, &[(1, last + 1)]),
            ],
            ..Batch::default()
        },
        Batch {
            audit: vec![AuditItem {
                no: rows,
                bytes: vec![],
            }],
            ..Batch::default()
        },
        Batch {
            audit: vec![AuditItem {
                no: rows + 2,
                bytes: vec![],
            }],
            ..Batch::default()
        },
    ];
    for case in cases {
        assert!(matches!(
            journal.append(case),
            Err(Error::OutOfOrder { .. })
        ));
    }
    journal.append(Batch::default()).unwrap();
    assert_same(&*journal.reader(), &made);
    journal.append(made.batch(20)).unwrap();
    assert_same(&*journal.reader(), &made);
}

fn a_record_past_the_limit_is_refused_by_name_and_the_longest_is_taken(place: &dyn Place) {
    let mut journal = place.open().journal;
    let item = |length: usize| Item {
        seq: 1,
        to: vec![(1, 1)],
        bytes: vec![7; length],
        ..Item::default()
    };
    let longest = MAX_RECORD - 17 - 12;
    let error = journal
        .append(Batch {
            items: vec![item(longest + 1)],
            ..Batch::default()
        })
        .unwrap_err();
    assert!(
        matches!(&error, Error::TooLarge { size, .. } if *size == MAX_RECORD + 1),
        "{error}"
    );
    journal
        .append(Batch {
            items: vec![item(longest)],
            ..Batch::default()
        })
        .unwrap();
    let row = |length| Batch {
        audit: vec![AuditItem {
            no: 1,
            bytes: vec![9; length],
        }],
        ..Batch::default()
    };
    assert!(matches!(
        journal.append(row(MAX_RECORD - 3)),
        Err(Error::TooLarge { .. })
    ));
    journal.append(row(MAX_RECORD - 4)).unwrap();
    drop(journal);
    let journal = place.open().journal;
    assert_eq!(*journal.reader().records(1, 1).unwrap()[0], item(longest));
    assert_eq!(
        journal.reader().audit(1, 1).unwrap()[0].bytes.len(),
        MAX_RECORD - 4
    );
}

fn a_page_keeps_its_limits_and_always_moves(place: &dyn Place) {
    let mut made = Maker::new(4);
    let mut journal = place.open().journal;
    let items = (0..10).map(|_| made.item(&[1], 100)).collect();
    journal
        .append(Batch {
            items,
            ..Batch::default()
        })
        .unwrap();
    let reader = journal.reader();
    let page = |after, items, bytes| match reader.events(1, after, items, bytes).unwrap() {
        Page::Data { items, more } => (
            items.iter().map(|(cursor, _)| *cursor).collect::<Vec<_>>(),
            more,
        ),
        Page::Trimmed { .. } => panic!("nothing is trimmed"),
    };
    assert_eq!(page(0, 3, 10_000), (vec![1, 2, 3], true));
    assert_eq!(
        page(0, 0, 0),
        (vec![1], true),
        "a page without room still moves"
    );
    assert_eq!(
        page(0, 100, 250),
        (vec![1, 2, 3], true),
        "the record that crosses the limit is the last"
    );
    assert_eq!(page(7, 3, 10_000), (vec![8, 9, 10], false));
    assert_eq!(page(10, 3, 10_000), (vec![], false));
}

fn a_cursor_of_the_future_gives_an_empty_page(place: &dyn Place) {
    let mut made = Maker::new(5);
    let mut journal = place.open().journal;
    let item = made.item(&[1], 10);
    journal
        .append(Batch {
            items: vec![item],
            ..Batch::default()
        })
        .unwrap();
    for after in [1, 2, u64::MAX] {
        let page = journal.reader().events(1, after, 10, 10).unwrap();
        assert_eq!(
            page,
            Page::Data {
                items: vec![],
                more: false
            }
        );
    }
    assert!(journal.reader().records(2, 10).unwrap().is_empty());
    assert!(journal.reader().records(u64::MAX, 10).unwrap().is_empty());
    assert!(journal.reader().audit(u64::MAX, 10).unwrap().is_empty());
}

fn cursors_may_jump_and_never_go_back(place: &dyn Place) {
    let cursors = [1, 2, 65_536, 65_537, 200_000];
    let mut journal = place.open().journal;
    let item = |seq, cursor| Item {
        seq,
        time: seq,
        kind: 1,
        to: vec![(1, cursor)],
        bytes: vec![0; 10],
    };
    let items: Vec<Item> = (1..)
        .zip(cursors)
        .map(|(seq, cursor)| item(seq, cursor))
        .collect();
    journal
        .append(Batch {
            items,
            ..Batch::default()
        })
        .unwrap();
    drop(journal);
    let mut journal = place.open().journal;
    let back = Batch {
        items: vec![item(6, 199_999)],
        ..Batch::default()
    };
    assert!(matches!(
        journal.append(back),
        Err(Error::OutOfOrder { .. })
    ));
    let read = |after| {
        read_stream(&*journal.reader(), 1, after, 2)
            .iter()
            .map(|(cursor, _)| *cursor)
            .collect::<Vec<_>>()
    };
    assert_eq!(read(0), cursors);
    assert_eq!(read(2), &cursors[2..]);
    assert_eq!(read(60_000), &cursors[2..]);
    assert_eq!(read(65_536), &cursors[3..]);
    assert_eq!(
        journal.reader().missed(1, 3, 70_000),
        Missed {
            kinds: vec![(1, 2)],
            exact: true
        }
    );
}

fn below_the_floor_a_reader_is_told_what_is_gone(place: &dyn Place) {
    let mut made = Maker::new(6);
    let mut journal = place.open().journal;
    let items = (0..20).map(|_| made.item(&[1, 2], 100)).collect();
    journal
        .append(Batch {
            items,
            floors: vec![(1, 8)],
            ..Batch::default()
        })
        .unwrap();
    for round in 0..2 {
        let reader = journal.reader();
        for after in [0, 7] {
            assert_eq!(
                reader.events(1, after, 5, 1000).unwrap(),
                Page::Trimmed { up_to: 8 },
                "round {round}"
            );
        }
        assert_eq!(read_stream(&*reader, 1, 0, 5), &made.stream(1)[8..]);
        assert_eq!(read_stream(&*reader, 2, 0, 5), made.stream(2));
        assert_eq!(reader.stream(1).floor, 8);
        drop(journal);
        journal = place.open().journal;
    }
}

fn a_floor_never_goes_back_and_never_past_the_end(place: &dyn Place) {
    let mut made = Maker::new(7);
    let mut journal = place.open().journal;
    let items = (0..20).map(|_| made.item(&[1], 10)).collect();
    journal
        .append(Batch {
            items,
            ..Batch::default()
        })
        .unwrap();
    let floor = |journal: &mut Box<dyn Journal>, floor| {
        journal
            .append(Batch {
                floors: vec![(1, floor), (9, 4)],
                ..Batch::default()
            })
            .unwrap();
        journal.reader().stream(1).floor
    };
    assert_eq!(floor(&mut journal, 5), 5);
    assert_eq!(floor(&mut journal, 3), 5);
    assert_eq!(floor(&mut journal, 99), 20);
    assert_eq!(journal.reader().stream(9).floor, 0);
    drop(journal);
    let mut journal = place.open().journal;
    assert_eq!(
        journal.reader().stream(1),
        StreamInfo {
            floor: 20,
            last: 20,
            events: 0,
            bytes: 0
        }
    );
    let item = made.item(&[1], 10);
    journal
        .append(Batch {
            items: vec![item],
            ..Batch::default()
        })
        .unwrap();
    assert_eq!(
        read_stream(&*journal.reader(), 1, 0, 5),
        &made.stream(1)[20..]
    );
}

fn a_sweep_keeps_what_a_floor_or_the_older_snapshot_needs(place: &dyn Place) {
    let mut made = Maker::new(8);
    let mut journal = place.open().journal;
    for _ in 0..50 {
        let items = (0..4).map(|_| made.item(&[1, 2], 50)).collect();
        journal
            .append(Batch {
                items,
                ..Batch::default()
            })
            .unwrap();
    }
    let snapshot = |journal: &mut Box<dyn Journal>, seq| {
        let snapshot = Some(journal.snapshots().write(seq, b"state").unwrap());
        journal
            .append(Batch {
                snapshot,
                ..Batch::default()
            })
            .unwrap();
    };
    let all = |journal: &mut Box<dyn Journal>| while journal.sweep(3).unwrap() == 3 {};
    journal
        .append(Batch {
            floors: vec![(1, 100), (2, 150)],
            ..Batch::default()
        })
        .unwrap();
    all(&mut journal);
    assert_eq!(
        journal.reader().first_seq(),
        1,
        "without two snapshots nothing goes"
    );
    snapshot(&mut journal, 80);
    all(&mut journal);
    assert_eq!(
        journal.reader().first_seq(),
        1,
        "without two snapshots nothing goes"
    );
    snapshot(&mut journal, 180);
    all(&mut journal);
    assert_eq!(
        journal.reader().first_seq(),
        81,
        "the older snapshot needs what follows it"
    );
    snapshot(&mut journal, 190);
    all(&mut journal);
    assert_eq!(
        journal.reader().first_seq(),
        101,
        "the lower floor needs what follows it"
    );
    journal
        .append(Batch {
            floors: vec![(1, 200), (2, 200)],
            ..Batch::default()
        })
        .unwrap();
    all(&mut journal);
    let first = journal.reader().first_seq();
    assert_eq!(first, 181);
    for _ in 0..2 {
        let reader = journal.reader();
        assert_eq!(reader.first_seq(), first);
        assert!(matches!(
            reader.records(180, 5),
            Err(Error::Gone {
                asked: 180,
                first: 181
            })
        ));
        assert_eq!(
            read_records(&*reader, first, 7).unwrap(),
            &made.items[180..]
        );
        assert_eq!(
            reader.stream(1),
            StreamInfo {
                floor: 200,
                last: 200,
                events: 0,
                bytes: 0
            }
        );
        drop(journal);
        journal = place.open().journal;
    }
    let items = (0..4).map(|_| made.item(&[1, 2], 50)).collect();
    journal
        .append(Batch {
            items,
            ..Batch::default()
        })
        .unwrap();
    assert_eq!(
        read_stream(&*journal.reader(), 2, 0, 3),
        &made.stream(2)[200..]
    );
}

fn the_newest_snapshot_comes_back_and_replay_goes_on_after_it(place: &dyn Place) {
    let mut made = Maker::new(9);
    let mut journal = place.open().journal;
    for round in 1..=3_u8 {
        for _ in 0..10 {
            journal.append(made.batch(20)).unwrap();
        }
        let at = journal.last_seq() - 2;
        let written = journal.snapshots().write(at, &[round; 1000]).unwrap();
        let mut batch = made.batch(5);
        batch.snapshot = Some(written);
        journal.append(batch).unwrap();
        drop(journal);
        let opened = place.open();
        assert_eq!(opened.snapshot, Some((at, vec![round; 1000])));
        journal = opened.journal;
        assert_eq!(
            read_records(&*journal.reader(), at + 1, 9).unwrap(),
            &made.items[at as usize..]
        );
        assert_same(&*journal.reader(), &made);
    }
    // Written and never committed: as if it were not there.
    journal
        .snapshots()
        .write(journal.last_seq(), b"never committed")
        .unwrap();
    drop(journal);
    assert_eq!(place.open().snapshot.unwrap().1, vec![3; 1000]);
}

fn a_snapshot_of_the_future_or_of_the_past_is_refused(place: &dyn Place) {
    let mut made = Maker::new(10);
    let mut journal = place.open().journal;
    let items = (0..20).map(|_| made.item(&[1], 10)).collect();
    journal
        .append(Batch {
            items,
            ..Batch::default()
        })
        .unwrap();
    let writer = journal.snapshots();
    assert!(matches!(
        writer.write(21, b"x"),
        Err(Error::OutOfOrder { .. })
    ));
    let newer = writer.write(20, b"x").unwrap();
    let older = writer.write(10, b"y").unwrap();
    let mut commit = |snapshot| {
        journal.append(Batch {
            snapshot: Some(snapshot),
            ..Batch::default()
        })
    };
    commit(newer).unwrap();
    assert!(matches!(commit(older), Err(Error::OutOfOrder { .. })));
    commit(newer).unwrap();
    drop(journal);
    assert_eq!(place.open().snapshot, Some((20, b"x".to_vec())));
}

fn a_new_epoch_survives_a_reopen(place: &dyn Place) {
    let mut journal = place.open().journal;
    assert_eq!(journal.start_epoch().unwrap(), 2);
    assert_eq!(journal.reader().epoch(), 2);
    drop(journal);
    let mut opened = place.open();
    assert_eq!(opened.epoch, 2);
    assert_eq!(opened.journal.start_epoch().unwrap(), 3);
}

fn retention_by_count_is_exact(place: &dyn Place) {
    let mut made = Maker::new(11);
    let mut journal = place.open().journal;
    for _ in 0..30 {
        let items = (0..5).map(|_| made.item(&[1], 10)).collect();
        journal
            .append(Batch {
                items,
                ..Batch::default()
            })
            .unwrap();
    }
    let keep = |events| Keep {
        events: Some(events),
        ..Keep::default()
    };
    let reader = journal.reader();
    for (events, floor) in [(150, 0), (151, 0), (149, 1), (1, 149), (0, 150)] {
        assert_eq!(reader.floor_for(1, keep(events)), floor, "keep {events}");
    }
    assert_eq!(reader.floor_for(1, Keep::default()), 0);
    assert_eq!(
        reader.floor_for(
            1,
            Keep {
                since: Some(1_000_000),
                ..Keep::default()
            }
        ),
        150
    );
    assert_eq!(
        reader.floor_for(
            1,
            Keep {
                bytes: Some(1500),
                ..Keep::default()
            }
        ),
        0
    );
}

fn the_audit_chain_links_every_row(place: &dyn Place) {
    use sha2::{Digest, Sha256};
    let mut made = Maker::new(12);
    let mut journal = place.open().journal;
    for _ in 0..20 {
        let audit = (0..9).map(|n| made.row(n * 300)).collect();
        journal
            .append(Batch {
                audit,
                ..Batch::default()
            })
            .unwrap();
    }
    let mut hash = [0_u8; 32];
    let reader = journal.reader();
    for (no, row) in (1..).zip(reader.audit(1, usize::MAX).unwrap()) {
        hash = Sha256::digest([hash.as_slice(), &row.bytes].concat()).into();
        assert_eq!((row.no, row.hash), (no, hash));
        assert_eq!(
            reader.audit(no, 1).unwrap()[0],
            row,
            "a row read alone has the same link"
        );
    }
    assert_eq!(reader.audit_head(), hash);
}

fn readers_live_on_while_the_journal_grows(place: &dyn Place) {
    let mut journal = place.open().journal;
    let mut made = Maker::new(13);
    let readers: Vec<Arc<dyn JournalReader>> = (0..3).map(|_| journal.reader()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .iter()
            .map(|reader| {
                scope.spawn(|| {
                    let mut seen = Vec::new();
                    while seen.len() < 2000 {
                        let after = seen.last().map_or(0, |(cursor, _)| *cursor);
                        seen.extend(read_stream(&**reader, 1, after, 50));
                        std::thread::yield_now();
                    }
                    seen
                })
            })
            .collect();
        for _ in 0..100 {
            let items = (0..20).map(|_| made.item(&[1], 50)).collect();
            journal
                .append(Batch {
                    items,
                    ..Batch::default()
                })
                .unwrap();
        }
        for thread in threads {
            assert!(thread.join().unwrap() == made.stream(1));
        }
    });
}
