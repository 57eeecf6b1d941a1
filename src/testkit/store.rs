//! Where a test's host keeps its journal, and how a test makes it die.
//!
//! A host in a test process cannot be killed, so it dies at its journal: a commit fails, and the loop ends like a
//! process that was killed there. What was committed before stays; everything else is gone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::journal::{
    Batch, Error, Journal, JournalReader, MemoryJournal, MemoryStore, Opened, Options, SledJournal,
    SnapshotWriter,
};

use super::patience;

/// Where a host dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the next commit: what was decided is gone, and nobody was told.
    BeforeCommit,
    /// Right after the next commit: what was decided stands, but no effect, reply or signal went out.
    AfterCommit,
}

/// Makes a host die at its next commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Switch(Arc<Mutex<Option<CrashPoint>>>);

impl Switch {
    pub(super) fn arm(&self, point: CrashPoint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(point);
    }

    fn armed(&self) -> Option<CrashPoint> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What outlives the host.
#[derive(Debug, Clone)]
pub(super) enum Store {
    Memory(MemoryStore),
    Disk(Arc<Disk>),
}

/// A directory; a temporary one goes with the last clone.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Store {
    pub(super) fn temporary() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        Self::Disk(Arc::new(Disk {
            path: dir.path().to_owned(),
            _temporary: Some(dir),
        }))
    }

    pub(super) fn at(path: PathBuf) -> Self {
        Self::Disk(Arc::new(Disk {
            path,
            _temporary: None,
        }))
    }

    pub(super) fn dir(&self) -> Option<&Path> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(disk) => Some(&disk.path),
        }
    }

    /// Opens the journal; the last host may need a moment to let go of it.
    pub(super) async fn open(&self, switch: &Switch) -> Opened<Mortal> {
        match self {
            Self::Memory(store) => mortal(MemoryJournal::open(store), switch),
            Self::Disk(disk) => {
                let path = disk.path.join("journal");
                let opened = patience("the journal to be let go", async {
                    loop {
                        match SledJournal::open(&path, Options::default()) {
                            Ok(opened) => return opened,
                            Err(Error::Locked { .. }) => tokio::task::yield_now().await,
                            Err(error) => panic!("the journal cannot be opened: {error}"),
                        }
                    }
                })
                .await;
                mortal(opened, switch)
            }
        }
    }
}

fn mortal<J: Journal + 'static>(opened: Opened<J>, switch: &Switch) -> Opened<Mortal> {
    let Opened {
        journal,
        snapshot,
        epoch,
        clean,
    } = opened;
    Opened {
        journal: Mortal {
            inner: Box::new(journal),
            switch: switch.clone(),
        },
        snapshot,
        epoch,
        clean,
    }
}

/// A journal that fails where the switch says.
pub(super) struct Mortal {
    inner: Box<dyn Journal>,
    switch: Switch,
}

impl Mortal {
    fn commit(
        &mut self,
        batch: Batch,
        commit: fn(&mut dyn Journal, Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let dead = || Error::ReadOnly {
            reason: "the test lets the host die here".to_owned(),
        };
        match self.switch.armed() {
            None => commit(&mut *self.inner, batch),
            Some(CrashPoint::BeforeCommit) => Err(dead()),
            Some(CrashPoint::AfterCommit) => {
                self.inner.append(batch)?;
                Err(dead())
            }
        }
    }
}

impl Journal for Mortal {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.commit(batch, |journal, batch| journal.append(batch))
    }

    fn write(&mut self, batch: Batch) -> Result<(), Error> {
        self.commit(batch, |journal, batch| journal.write(batch))
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.inner.sync()
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        self.inner.reader()
    }

    fn last_seq(&self) -> u64 {
        self.inner.last_seq()
    }

    fn snapshots(&self) -> Arc<dyn SnapshotWriter> {
        self.inner.snapshots()
    }

    fn sweep(&mut self, max_frames: usize) -> Result<usize, Error> {
        self.inner.sweep(max_frames)
    }

    fn start_epoch(&mut self) -> Result<u64, Error> {
        self.inner.start_epoch()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        self.inner.close()
    }
}
