//! Damaged files: harmless, or refused by name; never a shorter history, and never the text of a panic.

use std::fs;
use std::path::Path;

use super::crash::{child, child_dir};
use super::disk::{copy_dir, filled};
use super::made::{Disk, Maker, Place, assert_same, files, read_records};
use crate::journal::*;

/// Runs the rest of a test in a process of its own, and checks that it says nothing about a panic.
fn without_panic_text(test: &str) -> Option<Disk> {
    if child_dir().is_some() {
        return Some(Disk::new());
    }
    let nowhere = Disk::new();
    let output = child(&format!("damage::{test}"), &nowhere.path(), &[])
        .wait_with_output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    None
}

/// What became of a damaged journal.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Harmless,
    RefusedAtOpen,
    RefusedWhenRead,
}

/// Opens a damaged journal and reads all of it. The history must be what was made, or the refusal must have a name.
fn fate(dir: &Path, options: Options, made: &Maker) -> Fate {
    let opened = match SledJournal::open(dir, options) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(
                matches!(error, Error::Damaged { .. } | Error::Format { .. }),
                "{error}"
            );
            return Fate::RefusedAtOpen;
        }
    };
    if let Some((_, state)) = &opened.snapshot {
        assert!(*state == vec![1; 5000] || *state == vec![2; 5000]);
    }
    let reader = opened.journal.reader();
    assert_eq!(reader.last_seq(), made.items.len() as u64);
    assert_eq!(reader.audit_len(), made.audit.len() as u64);
    let read = read_records(&*reader, 1, 1000).and_then(|items| {
        assert!(items == made.items, "history differs silently");
        for supervisor in 2..=5 {
            let mut after = 0;
            while let Page::Data { items, .. } =
                reader.events(supervisor, after, 100, usize::MAX)?
            {
                let Some((last, _)) = items.last() else { break };
                after = *last;
            }
            assert_eq!(
                after,
                made.stream(supervisor).len() as u64,
                "stream {supervisor} is silently shorter"
            );
        }
        let rows = reader.audit(1, usize::MAX)?;
        assert!(
            rows.iter().map(|row| &row.bytes).eq(&made.audit),
            "audit differs silently"
        );
        Ok(())
    });
    match read {
        Ok(()) => Fate::Harmless,
        Err(error) => {
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            Fate::RefusedWhenRead
        }
    }
}

#[test]
fn any_flip_or_cut_is_harmless_or_refused_by_name() {
    let Some(whole) = without_panic_text("any_flip_or_cut_is_harmless_or_refused_by_name") else {
        return;
    };
    let mut made = Maker::new(41);
    made.longest = 3000;
    filled(&whole, &mut made, 40);
    let mut rng = fastrand::Rng::with_seed(42);
    let mut counts = std::collections::BTreeMap::<_, u32>::new();
    for round in 0..200 {
        let copy = Disk::new();
        copy_dir(&whole.path(), &copy.path());
        let mut all = files(&copy.path());
        all.retain(|path| fs::metadata(path).unwrap().len() > 0 && !path.ends_with("lock"));
        // Most damage goes into the big file, the rest into all the others in turn.
        let path = if round % 3 > 0 {
            copy.path().join("db")
        } else {
            all[round / 3 % all.len()].clone()
        };
        let mut bytes = fs::read(&path).unwrap();
        let at = rng.usize(0..bytes.len());
        if round % 5 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << rng.u8(0..8);
        }
        fs::write(&path, bytes).unwrap();
        let verify = if round % 2 == 0 {
            Verify::Tail
        } else {
            Verify::Full
        };
        let options = Options {
            verify,
            tail_bytes: 100_000,
            ..Options::default()
        };
        let fate = fate(&copy.path(), options, &made);
        // A refused open may have let the store rewrite parts of its file; that must not make the next one pass.
        let again = self::fate(&copy.path(), options, &made);
        assert!(
            fate != Fate::Harmless || again == Fate::Harmless,
            "{}",
            path.display()
        );
        assert!(
            verify == Verify::Tail || fate != Fate::RefusedWhenRead,
            "a full check missed {}",
            path.display()
        );
        *counts.entry(fate).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(counts.contains_key(&Fate::Harmless) && counts.contains_key(&Fate::RefusedAtOpen));
}

#[test]
fn a75_an_interrupted_or_emptied_store_snapshot_loses_nothing() {
    let Some(disk) =
        without_panic_text("a75_an_interrupted_or_emptied_store_snapshot_loses_nothing")
    else {
        return;
    };
    let mut made = Maker::new(43);
    filled(&disk, &mut made, 20);
    // The store writes its own snapshot when it is opened.
    drop(disk.open());
    let snapshots = |dir: &Path| -> Vec<_> {
        files(dir)
            .into_iter()
            .filter(|path| {
                path.parent() == Some(dir)
                    && path
                        .file_name()
                        .unwrap()
                        .to_string_lossy()
                        .starts_with("snap.")
            })
            .collect()
    };
    let leftover = disk.path().join("snap.00000000FFFFFFFF.generating");
    fs::write(&leftover, b"").unwrap();
    let noticed = doctor::check(&disk.path()).unwrap();
    assert!(
        noticed.damage.is_none() && noticed.notes.len() == 1,
        "{noticed:?}"
    );
    assert!(leftover.exists(), "a check changes nothing");
    assert_eq!(disk.open().journal.last_seq(), made.items.len() as u64);
    assert!(!leftover.exists(), "a start removes leftovers");

    let newest = snapshots(&disk.path())
        .pop()
        .expect("the store has a snapshot");
    fs::write(&newest, b"").unwrap();
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                what: Damage::Store(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.exit_code(), 70);
    assert!(error.to_string().contains("signalbox doctor"), "{error}");
    assert!(doctor::check(&disk.path()).unwrap().damage.is_some());
    assert!(newest.exists(), "a check changes nothing");

    let report = doctor::repair(&disk.path()).unwrap();
    assert!(report.damage.is_none(), "{report:?}");
    let contents = report.contents.unwrap();
    assert_eq!(
        (contents.last_seq, contents.audit_len),
        (made.items.len() as u64, made.audit.len() as u64)
    );
    assert_eq!(contents.snapshots.len(), 2);
    let opened = disk.open();
    assert_eq!(opened.snapshot.unwrap().1, vec![2; 5000]);
    let rows = opened.journal.reader().audit(1, usize::MAX).unwrap();
    assert_eq!(rows.len(), made.audit.len());
    assert!(read_records(&*opened.journal.reader(), 1, 100).unwrap() == made.items);
}

#[test]
fn a_repair_of_a_sound_journal_changes_nothing() {
    let disk = Disk::new();
    let mut made = Maker::new(44);
    filled(&disk, &mut made, 10);
    let read = || {
        files(&disk.path())
            .into_iter()
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = read();
    assert!(doctor::check(&disk.path()).unwrap().damage.is_none());
    assert!(doctor::repair(&disk.path()).unwrap().damage.is_none());
    assert!(read() == before);
    let beside = fs::read_dir(disk.dir.path()).unwrap().count();
    assert_eq!(beside, 1, "the copy is gone");
}

#[test]
fn a_repair_never_drops_records_to_get_a_journal_open() {
    let disk = Disk::new();
    let mut made = Maker::new(45);
    filled(&disk, &mut made, 20);
    let older = Disk::new();
    copy_dir(&disk.path(), &older.path());
    let mut journal = disk.open().journal;
    for _ in 0..5 {
        journal.append(made.batch(20)).unwrap();
    }
    drop(journal);
    // The store's files come from an older copy, as after a careless restore; the commit head knows better.
    for name in ["db", "conf"] {
        fs::copy(older.path().join(name), disk.path().join(name)).unwrap();
    }
    for path in files(&disk.path()) {
        if path.parent() == Some(&disk.path())
            && path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("snap.")
        {
            fs::remove_file(path).unwrap();
        }
    }
    let db = fs::read(disk.path().join("db")).unwrap();
    let report = doctor::repair(&disk.path()).unwrap();
    assert!(
        matches!(
            report.damage,
            Some(Error::Damaged {
                what: Damage::Short { .. },
                ..
            })
        ),
        "{report:?}"
    );
    assert!(fs::read(disk.path().join("db")).unwrap() == db);
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                what: Damage::Short { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn records_without_a_commit_head_are_refused() {
    let disk = Disk::new();
    let mut made = Maker::new(46);
    filled(&disk, &mut made, 5);
    fs::remove_file(disk.path().join("head.a")).unwrap();
    drop(disk.open());
    fs::remove_file(disk.path().join("head.a")).unwrap();
    fs::remove_file(disk.path().join("head.b")).unwrap();
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                what: Damage::NoHead,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_missing_store_under_a_commit_head_is_refused() {
    let disk = Disk::new();
    let mut made = Maker::new(47);
    filled(&disk, &mut made, 5);
    fs::remove_file(disk.path().join("db")).unwrap();
    let error = SledJournal::open(&disk.path(), disk.options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                what: Damage::Short { found: 0, .. },
                ..
            }
        ),
        "{error}"
    );
    assert!(
        !disk.path().join("db").exists(),
        "a refused open makes no empty store"
    );
}

#[test]
fn a_sound_journal_passes_a_full_check() {
    let disk = Disk::new();
    let mut made = Maker::new(48);
    for _ in 0..10 {
        let mut journal = disk.open().journal;
        journal.append(made.batch(20)).unwrap();
    }
    let options = Options {
        verify: Verify::Full,
        ..Options::default()
    };
    assert_same(
        &*SledJournal::open(&disk.path(), options)
            .unwrap()
            .journal
            .reader(),
        &made,
    );
}
