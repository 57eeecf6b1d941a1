//! The commit head: how far the journal goes, kept outside the store.
//!
//! The embedded store opens silently shorter when its file is damaged or cut, so the journal notes after every commit
//! in one of two slots how far it went. A slot is written after the store is synced and without a sync of its own:
//! it can be behind the store and never ahead. It is synced at most every 100 ms and at a clean end.
//!
//! ```text
//! 0 magic "SH"  2 version  3 zero  4 crc32 of everything from 8 on  8 turn u64  16 epoch u64
//! 24 last record u64  32 its chain, 32 bytes  64 last audit row u64  72 its chain, 32 bytes
//! 104 flags u64: 1 = ended cleanly   (112 bytes)
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::dir;
use super::frame::{Cut, Hash};

const VERSION: u8 = 1;
const SIZE: usize = 112;
const SLOTS: [&str; 2] = ["head.a", "head.b"];

/// How far the journal went with one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Rises with every write; the higher slot counts.
    pub(super) turn: u64,
    pub(super) epoch: u64,
    pub(super) last_seq: u64,
    pub(super) chain: Hash,
    pub(super) last_audit: u64,
    pub(super) audit_chain: Hash,
    /// Whether the journal ended cleanly here.
    pub(super) clean: bool,
}

impl Head {
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out[0..2].copy_from_slice(b"SH");
        out[2] = VERSION;
        out[8..16].copy_from_slice(&self.turn.to_le_bytes());
        out[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        out[24..32].copy_from_slice(&self.last_seq.to_le_bytes());
        out[32..64].copy_from_slice(&self.chain);
        out[64..72].copy_from_slice(&self.last_audit.to_le_bytes());
        out[72..104].copy_from_slice(&self.audit_chain);
        out[104] = u8::from(self.clean);
        let crc = crc32fast::hash(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cut = Cut(bytes);
        let start: [u8; 4] = cut.array()?;
        if start != [b'S', b'H', VERSION, 0] || bytes.len() != SIZE {
            return None;
        }
        let crc = cut.u32()?;
        if crc32fast::hash(cut.0) != crc {
            return None;
        }
        Some(Self {
            turn: cut.u64()?,
            epoch: cut.u64()?,
            last_seq: cut.u64()?,
            chain: cut.array()?,
            last_audit: cut.u64()?,
            audit_chain: cut.array()?,
            clean: cut.u64()? & 1 == 1,
        })
    }
}

/// The two slots.
#[derive(Debug)]
pub(super) struct Slots {
    files: [File; 2],
}

impl Slots {
    /// Opens the slots, making missing files, and returns the newer readable head.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, Option<Head>)> {
        let files = [
            dir::open_rw(&dir.join(SLOTS[0]))?,
            dir::open_rw(&dir.join(SLOTS[1]))?,
        ];
        let mut newest: Option<Head> = None;
        for (file, name) in files.iter().zip(SLOTS) {
            let mut bytes = vec![0; SIZE + 1];
            let read = read_at(file, &mut bytes)?;
            let head = Head::decode(&bytes[..read]);
            if head.is_none() && read > 0 {
                tracing::warn!(
                    slot = name,
                    "commit head slot is unreadable, the other one counts"
                );
            }
            newest = newest.into_iter().chain(head).max_by_key(|head| head.turn);
        }
        Ok((Self { files }, newest))
    }

    /// Writes the slot whose turn it is, without a sync.
    pub(super) fn write(&self, head: &Head) -> io::Result<()> {
        self.slot(head.turn).write_all_at(&head.encode(), 0)
    }

    /// Syncs both slots.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.files.iter().try_for_each(File::sync_data)
    }

    fn slot(&self, turn: u64) -> &File {
        if turn.is_multiple_of(2) {
            &self.files[0]
        } else {
            &self.files[1]
        }
    }
}

fn read_at(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}
