//! Audit rows: who did what by which way, what came of it, and which check said no (C49).
//!
//! Rows are made here and stored and hash-linked by the journal. No decision reads them.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::contract::time::HostTime;

/// One row of the audit. Absent fields do not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Host time.
    #[n(0)]
    pub time: HostTime,
    /// Wall time, unix milliseconds.
    #[n(1)]
    pub wall_ms: u64,
    /// `command`, `refusal`, `verdict`, `review`, `notify`, `save`, `credential`, `session`, `stale_exit`, `open`.
    #[n(2)]
    pub kind: String,
    /// `ENGINE`, `OPERATOR` or `SYSTEM`.
    #[n(3)]
    pub channel: String,
    /// `supervisor:<id>`, `KIND:<id>` or `SYSTEM`.
    #[n(4)]
    pub actor: String,
    /// The operation, or what was saved.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The target as expanded, or as sent where it was not.
    #[n(6)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The outcome for the target, or the refusal's code.
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The check that refused.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// More: the outcome's detail, or the refusal's message.
    #[n(9)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The cause as sent.
    #[n(10)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The reason as given.
    #[n(11)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The idempotency key.
    #[n(12)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The place in the run's order, where a command was applied.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The command came by a tick or at own initiative.
    #[n(14)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub initiative: bool,
    /// The deadline passed while the host was down.
    #[n(15)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_down: bool,
    /// How many equal refusals of one second the row stands for; absent: one.
    #[n(16)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The version of stored rows; the first byte of each.
const VERSION: u8 = 1;

/// The longest text of a row that people write: reasons, messages, details; in bytes.
const PROSE_MOST: usize = 8 << 10;
/// The longest of its other texts, in bytes.
const WORD_MOST: usize = 512;

impl AuditEntry {
    /// Cuts every text to what a row may hold, so that no sender decides how long a stored row is.
    #[must_use]
    pub(super) fn bounded(mut self) -> Self {
        for prose in [&mut self.detail, &mut self.reason].into_iter().flatten() {
            cut(prose, PROSE_MOST);
        }
        let words = [
            &mut self.op,
            &mut self.target,
            &mut self.outcome,
            &mut self.check,
            &mut self.cause,
            &mut self.key,
        ];
        for word in words.into_iter().flatten() {
            cut(word, WORD_MOST);
        }
        self
    }

    /// Returns the stored form.
    ///
    /// # Errors
    /// Fails if the row cannot be encoded, which would be a fault of the host.
    pub fn to_bytes(&self) -> Result<Vec<u8>, super::record::Error> {
        let mut out = vec![VERSION];
        minicbor::encode(self, &mut out)
            .map_err(|e| super::record::Error::Unstorable(e.to_string()))?;
        Ok(out)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Fails on another version and on bytes that are no row.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, super::record::Error> {
        match bytes.split_first() {
            None => Err(super::record::Error::Empty),
            Some((&VERSION, rest)) => Ok(minicbor::decode(rest)?),
            Some((&other, _)) => Err(super::record::Error::Version(other)),
        }
    }
}

/// Cuts a text at a character's border and says that it did.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let border = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(border.unwrap_or(0));
        text.push('…');
    }
}
