//! Journals and batches for the tests.

use std::path::Path;
use std::sync::Arc;

use crate::journal::*;

/// A place where a journal can be opened again and again.
pub trait Place {
    fn open(&self) -> Opened<Box<dyn Journal>>;
}

/// A directory on disk.
pub struct Disk {
    pub dir: tempfile::TempDir,
    pub options: Options,
}

impl Disk {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            options: Options::default(),
        }
    }

    /// Every read goes to the store.
    pub fn without_cache() -> Self {
        let mut disk = Self::new();
        disk.options.tail_bytes = 0;
        disk
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("journal")
    }
}

impl Place for Disk {
    fn open(&self) -> Opened<Box<dyn Journal>> {
        boxed(SledJournal::open(&self.path(), self.options).unwrap())
    }
}

/// A store in memory.
#[derive(Default)]
pub struct Memory(MemoryStore);

impl Place for Memory {
    fn open(&self) -> Opened<Box<dyn Journal>> {
        boxed(MemoryJournal::open(&self.0))
    }
}

pub fn boxed<J: Journal + 'static>(opened: Opened<J>) -> Opened<Box<dyn Journal>> {
    let Opened {
        journal,
        snapshot,
        epoch,
        clean,
    } = opened;
    Opened {
        journal: Box::new(journal),
        snapshot,
        epoch,
        clean,
    }
}

/// Makes batches that continue each other, from a seed.
#[derive(Clone)]
pub struct Maker {
    rng: fastrand::Rng,
    seq: u64,
    no: u64,
    cursors: std::collections::BTreeMap<u32, u64>,
    /// Everything that was made.
    pub items: Vec<Arc<Item>>,
    pub audit: Vec<Vec<u8>>,
    /// Record lengths are below this.
    pub longest: usize,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            seq: 0,
            no: 0,
            cursors: Default::default(),
            items: Vec::new(),
            audit: Vec::new(),
            longest: 300,
        }
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.rng.u8(..)).collect()
    }

    /// One record to these supervisors.
    pub fn item(&mut self, to: &[u32], length: usize) -> Item {
        self.seq += 1;
        let to = to.iter().map(|supervisor| {
            let cursor = self.cursors.entry(*supervisor).or_default();
            *cursor += 1;
            (*supervisor, *cursor)
        });
        let to = to.collect();
        let bytes = self.bytes(length);
        let item = Item {
            seq: self.seq,
            time: self.seq * 10,
            kind: self.rng.u8(0..4),
            to,
            bytes,
        };
        self.items.push(Arc::new(item.clone()));
        item
    }

    pub fn row(&mut self, length: usize) -> AuditItem {
        self.no += 1;
        let bytes = self.bytes(length);
        self.audit.push(bytes.clone());
        AuditItem { no: self.no, bytes }
    }

    /// A random batch of up to `most` records.
    pub fn batch(&mut self, most: usize) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..self.rng.usize(0..=most) {
            let to: Vec<u32> = (1..=5).filter(|_| self.rng.u8(..) < 80).collect();
            let length = match self.rng.u8(..) {
                0 => 40_000,
                1..4 => 17_000,
                _ => self.rng.usize(0..self.longest),
            };
            let item = self.item(&to, length);
            batch.items.push(item);
        }
        for _ in 0..self.rng.usize(0..=most / 2) {
            let length = if self.rng.u8(..) == 0 {
                20_000
            } else {
                self.rng.usize(0..200)
            };
            let row = self.row(length);
            batch.audit.push(row);
        }
        batch
    }

    /// What a supervisor's stream must be.
    pub fn stream(&self, supervisor: u32) -> Vec<(u64, Arc<Item>)> {
        self.items
            .iter()
            .filter_map(|item| Some((item.cursor_of(supervisor)?, Arc::clone(item))))
            .collect()
    }
}

/// Reads a whole stream page by page.
pub fn read_stream(
    reader: &dyn JournalReader,
    supervisor: u32,
    mut after: u64,
    page: usize,
) -> Vec<(u64, Arc<Item>)> {
    let mut all = Vec::new();
    loop {
        match reader.events(supervisor, after, page, 10_000).unwrap() {
            Page::Data { items, more } => {
                assert!(
                    !items.is_empty() || !more,
                    "a page that promises more is empty"
                );
                let Some((last, _)) = items.last() else {
                    return all;
                };
                after = *last;
                all.extend(items);
            }
            Page::Trimmed { up_to } => {
                assert!(up_to > after);
                after = up_to;
            }
        }
    }
}

/// Reads all records.
pub fn read_records(
    reader: &dyn JournalReader,
    from: u64,
    page: usize,
) -> Result<Vec<Arc<Item>>, Error> {
    let mut all = Vec::new();
    let mut at = from;
    loop {
        let items = reader.records(at, page)?;
        let Some(last) = items.last() else {
            return Ok(all);
        };
        at = last.seq + 1;
        all.extend(items);
    }
}

/// Compares everything that a journal shows with what was appended.
pub fn assert_same(reader: &dyn JournalReader, made: &Maker) {
    assert_eq!(reader.last_seq(), made.items.len() as u64);
    assert!(
        read_records(reader, 1, 37).unwrap() == made.items,
        "records differ"
    );
    for supervisor in 1..=5 {
        assert!(
            read_stream(reader, supervisor, 0, 7) == made.stream(supervisor),
            "stream {supervisor} differs"
        );
    }
    let rows = reader.audit(1, usize::MAX).unwrap();
    assert_eq!(reader.audit_len(), made.audit.len() as u64);
    assert!(
        rows.iter().map(|row| &row.bytes).eq(&made.audit),
        "audit differs"
    );
    assert_eq!(
        rows.last().map_or([0; 32], |row| row.hash),
        reader.audit_head()
    );
}

/// Every file under a directory.
pub fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path))
        } else {
            all.push(path)
        }
    }
    all.sort();
    all
}
