//! What a kill at any moment leaves behind.
//!
//! The writer is this test binary itself, started again with the test's name and the directory in the environment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::made::{Disk, Maker, Place, assert_same};
use crate::journal::*;

/// Names the directory to a child of this test binary.
const DIR: &str = "SIGNALBOX_TEST_JOURNAL";

/// Starts this test binary again with one test.
pub fn child(test: &str, dir: &std::path::Path, env: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            &format!("journal::tests::{test}"),
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir)
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the directory, in a child.
pub fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os(DIR).map(Into::into)
}

/// Makes again what is in a journal: its batches come from one seed, so its end must be the end of one of them.
fn made_up_to(reader: &dyn JournalReader) -> Maker {
    let mut made = Maker::new(31);
    while (made.items.len() as u64, made.audit.len() as u64)
        != (reader.last_seq(), reader.audit_len())
    {
        assert!(
            made.items.len() as u64 <= reader.last_seq(),
            "the journal ends inside a batch"
        );
        made.batch(20);
    }
    made
}

/// Appends for ever, telling after every append how far it is.
fn write_until_killed(dir: &std::path::Path) {
    let mut journal = SledJournal::open(dir, Options::default()).unwrap().journal;
    let mut made = made_up_to(&*journal.reader());
    for round in 1.. {
        let mut batch = made.batch(20);
        if round % 50 == 0 && journal.last_seq() > 0 {
            batch.snapshot = Some(
                journal
                    .snapshots()
                    .write(journal.last_seq(), b"state")
                    .unwrap(),
            );
        }
        journal.append(batch).unwrap();
        let line = format!("\nacked {} {}\n", made.items.len(), made.audit.len());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    if let Some(dir) = child_dir() {
        return write_until_killed(&dir);
    }
    let disk = Disk::new();
    let mut rng = fastrand::Rng::with_seed(32);
    for kill in 0..10 {
        let mut writer = child(
            "crash::a_kill_loses_nothing_that_was_acknowledged",
            &disk.path(),
            &[],
        );
        let lines = BufReader::new(writer.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut acked = lines.filter_map(|line| {
            let (records, rows) = line.strip_prefix("acked ")?.split_once(' ')?;
            Some((records.parse::<u64>().ok()?, rows.parse::<u64>().ok()?))
        });
        let wanted = rng.usize(1..120);
        let mut last = acked
            .by_ref()
            .take(wanted)
            .last()
            .expect("the writer acknowledges something");
        writer.kill().unwrap();
        // What was told before the kill counts, whenever it is read.
        last = acked.last().unwrap_or(last);
        writer.wait().unwrap();
        let opened = disk.open();
        let reader = opened.journal.reader();
        assert!(!opened.clean);
        assert!(
            (reader.last_seq(), reader.audit_len()) >= last,
            "kill {kill} took back what was acknowledged"
        );
        assert_same(&*reader, &made_up_to(&*reader));
    }
}

/// With the `failpoints` feature: a store error at each step ends all writing and no reading.
#[cfg(feature = "failpoints")]
#[test]
fn after_the_first_store_error_the_journal_only_reads() {
    const POINTS: [&str; 4] = [
        "store::before_commit",
        "store::after_flush",
        "store::after_fdatasync",
        "store::after_head",
    ];
    if let Some(dir) = child_dir() {
        let point = std::env::var("SIGNALBOX_TEST_POINT").unwrap();
        let mut journal = SledJournal::open(&dir, Options::default()).unwrap().journal;
        let mut made = Maker::new(33);
        journal.append(made.batch(20)).unwrap();
        fail::cfg(&point, "return").unwrap();
        assert!(matches!(
            journal.append(made.clone().batch(20)),
            Err(Error::Io { .. })
        ));
        fail::remove(&point);
        assert!(matches!(
            journal.append(made.clone().batch(20)),
            Err(Error::ReadOnly { .. })
        ));
        assert!(matches!(
            journal.sync(),
            Err(Error::ReadOnly { .. }) | Ok(())
        ));
        assert!(matches!(journal.start_epoch(), Err(Error::ReadOnly { .. })));
        assert_same(&*journal.reader(), &made);
        return;
    }
    for point in POINTS {
        let disk = Disk::new();
        let test = "crash::after_the_first_store_error_the_journal_only_reads";
        let output = child(test, &disk.path(), &[("SIGNALBOX_TEST_POINT", point)])
            .wait_with_output()
            .unwrap();
        assert!(
            output.status.success(),
            "{point}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let opened = disk.open();
        let reader = opened.journal.reader();
        let mut made = Maker::new(33);
        made.batch(20);
        if reader.last_seq() > made.items.len() as u64 {
            assert_ne!(point, "store::before_commit");
            made.batch(20);
        }
        assert_same(&*reader, &made);
    }
}
