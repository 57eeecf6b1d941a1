//! The service: commands, saves, credentials.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::contract::code::Code;
use crate::contract::definition::Transport;
use crate::contract::directive::Command;
use crate::contract::id::{ExecutionId, SupervisorId, WorkflowId};
use crate::contract::operation::Op;
use crate::contract::outcome::{Answer, Outcome};
use crate::core::effect::Saved;
use crate::core::record::{Access, Credential, Source};
use crate::definitions::{self, Format};
use crate::host::{HostHandle, credentials};

use super::view::{CommandRequest, CredentialRequest, NewCredential, SaveResult, Warning};
use super::{Caller, EngineStatuses, Error, LogPart, LogSource, Role};

/// How often a number for a new credential is looked for, where others take one at the same time.
const TRIES: usize = 8;

/// What the service is made of.
pub struct Parts {
    /// The way into the host.
    pub host: HostHandle,
    /// How engines are connected.
    pub engines: Arc<dyn EngineStatuses>,
    /// The output of attempts.
    pub logs: Arc<dyn LogSource>,
    /// Ends streams when the host is to stop.
    pub stopping: CancellationToken,
}

/// Everything that operators can do. Clones share it.
#[derive(Clone)]
pub struct OperatorService(Arc<Parts>);

/// What came of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Commanded {
    /// The answer; where it is no success, [`Error::of_answer`] says what it amounts to.
    pub answer: Answer,
    /// The new execution of a start.
    pub execution: Option<ExecutionId>,
}

impl OperatorService {
    /// Makes the service.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns the way into the host.
    #[must_use]
    pub fn host(&self) -> &HostHandle {
        &self.0.host
    }

    /// Returns what ends streams when the host is to stop.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub(super) fn engine_statuses(&self) -> &dyn EngineStatuses {
        &*self.0.engines
    }

    pub(super) fn logs_source(&self) -> &Arc<dyn LogSource> {
        &self.0.logs
    }

    /// Finds out who calls.
    ///
    /// # Errors
    /// As [`Caller::authenticate`].
    pub fn authenticate(&self, token: Option<&str>) -> Result<Caller, Error> {
        Caller::authenticate(self.host(), token)
    }

    /// Commands; waits for a review where one is needed (C29).
    ///
    /// # Errors
    /// `PERMISSION_DENIED` for a viewer, `UNAVAILABLE`. A refusal of the command is an answer.
    pub async fn command(
        &self,
        caller: &Caller,
        request: CommandRequest,
        key: Option<String>,
    ) -> Result<Commanded, Error> {
        caller.admin()?;
        let CommandRequest {
            op,
            target,
            args,
            if_status,
            reason,
        } = request;
        let start = op == Op::RunStart.as_str();
        let command = Command {
            op,
            target,
            args,
            if_status,
        };
        let answer = self
            .host()
            .command(caller.actor.clone(), command, reason, key)
            .await?;
        let execution = match answer.targets.as_slice() {
            [one] if start && one.outcome == Outcome::Applied => one
                .target
                .strip_prefix("execution:")
                .and_then(|id| id.parse().ok()),
            _ => None,
        };
        Ok(Commanded { answer, execution })
    }

    /// Saves a workflow from a text.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` for a viewer, `INVALID_ARGUMENT` with every mistake and its line, `OWNERSHIP_CONFLICT`,
    /// `DEFINED_IN_FILE`, `UNAVAILABLE`.
    pub async fn save_workflow(
        &self,
        caller: &Caller,
        id: &str,
        text: &str,
        format: Format,
    ) -> Result<SaveResult, Error> {
        caller.admin()?;
        let id: WorkflowId = id.parse().map_err(|e| Error::field("id", format!("{e}")))?;
        let read = definitions::read_workflow(text, format).map_err(Error::mistakes)?;
        same_id(id.as_str(), read.def.id.as_str(), &read.places)?;
        let saved = self
            .host()
            .save_workflow(read.def, Source::Api, caller.actor.clone())
            .await;
        let saved = saved.map_err(|refusal| Error::save(refusal, &read.places))?;
        let view = self.host().view().await?;
        let revision = view.workflows.get(&id).map(|w| w.plan.revision);
        Ok(save_result(id.as_str(), saved, revision))
    }

    /// Saves a supervisor from a text.
    ///
    /// # Errors
    /// As [`OperatorService::save_workflow`]; managed engines come from files only (contract §2).
    pub async fn save_supervisor(
        &self,
        caller: &Caller,
        id: &str,
        text: &str,
        format: Format,
    ) -> Result<SaveResult, Error> {
        caller.admin()?;
        let id: SupervisorId = id.parse().map_err(|e| Error::field("id", format!("{e}")))?;
        let read = definitions::read_supervisor(text, format).map_err(Error::mistakes)?;
        same_id(id.as_str(), read.def.id.as_str(), &read.places)?;
        if read.def.engine.transport == Transport::Managed {
            let message = "managed engines start programs, so they come from files only: put the definition into supervisors/ of the data directory and start the host again";
            return Err(Error::field("engine.transport", message));
        }
        let saved = self
            .host()
            .save_supervisor(read.def, Source::Api, caller.actor.clone())
            .await;
        let saved = saved.map_err(|refusal| Error::save(refusal, &read.places))?;
        Ok(save_result(id.as_str(), saved, None))
    }

    /// Issues a credential for a supervisor's engine; the token is shown this once.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` for a viewer, `NOT_FOUND` without such a supervisor, `UNAVAILABLE`.
    pub async fn issue_engine_credential(
        &self,
        caller: &Caller,
        supervisor: &str,
    ) -> Result<NewCredential, Error> {
        caller.admin()?;
        let missing = || {
            Error::new(
                Code::NotFound,
                format!("there is no supervisor `{supervisor}`; save it first"),
            )
        };
        let supervisor: SupervisorId = supervisor.parse().map_err(|_| missing())?;
        let mut tried = 0;
        loop {
            let view = self.host().view().await?;
            view.supervisor(&supervisor).ok_or_else(missing)?;
            // Ids are counted for each supervisor, so that the audit can tell its keys apart.
            let free = (1_u64..)
                .map(|n| format!("{supervisor}.{n}"))
                .find(|id| !view.credentials.contains_key(id));
            let (token, credential) = self.make(
                &free.unwrap_or_else(|| supervisor.to_string()),
                Access::Engine(supervisor.clone()),
            );
            let id = credential.id.clone();
            match self
                .host()
                .keep_credential(credential, caller.actor.clone())
                .await
            {
                Ok(_) => {
                    return Ok(NewCredential {
                        id,
                        token,
                        supervisor: Some(supervisor),
                        role: None,
                    });
                }
                // Somebody else took the number in between.
                Err(refusal) if refusal.code == Code::InvalidArgument && tried < TRIES => {
                    tried += 1
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// Issues an operator's key; the token is shown this once.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` for a viewer, `INVALID_ARGUMENT` for a name that is none or is taken, `UNAVAILABLE`.
    pub async fn issue_operator_key(
        &self,
        caller: &Caller,
        request: &CredentialRequest,
    ) -> Result<NewCredential, Error> {
        caller.admin()?;
        let CredentialRequest { name, role } = request;
        // Names of keys have the form of supervisors' ids.
        if name.parse::<SupervisorId>().is_err() {
            let hint = "use 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit";
            return Err(Error::field(
                "name",
                format!(
                    "`{}` is not a name for a key; {hint}",
                    name.chars().take(80).collect::<String>()
                ),
            ));
        }
        if name.starts_with("managed-") {
            let message = "names that begin with `managed-` are those of engines that the host starts; choose another";
            return Err(Error::field("name", message));
        }
        let access = match role {
            Role::Viewer => Access::Viewer,
            Role::Admin => Access::Admin,
        };
        let (token, credential) = self.make(name, access);
        self.host()
            .keep_credential(credential, caller.actor.clone())
            .await?;
        Ok(NewCredential {
            id: name.clone(),
            token,
            supervisor: None,
            role: Some(*role),
        })
    }

    fn make(&self, id: &str, access: Access) -> (String, Credential) {
        let (token, credential) = credentials::issue(id, access, self.host().clock().wall_ms());
        (token.reveal().to_owned(), credential)
    }
}

fn same_id(asked: &str, given: &str, places: &definitions::Places) -> Result<(), Error> {
    if asked == given {
        return Ok(());
    }
    let message =
        format!("the definition is of `{given}`, the address says `{asked}`; make them the same");
    let mut error = Error::field("id", message);
    let place = places.find("id");
    for field in &mut error.fields {
        (field.line, field.column) = (Some(place.line), Some(place.column));
    }
    Err(error)
}

fn save_result(id: &str, saved: Saved, revision: Option<u32>) -> SaveResult {
    let Saved { changed, warnings } = saved;
    let warnings = warnings
        .into_iter()
        .map(|w| Warning {
            path: w.path,
            message: w.message,
        })
        .collect();
    SaveResult {
        id: id.to_owned(),
        changed,
        revision,
        warnings,
    }
}

/// Cuts what was asked for out of a log's end: the bytes, whether something before them is left out, and where to
/// go on. A character that is cut in two by the end stays for the next read while more may come.
pub(super) fn cut_log(
    part: &LogPart,
    after: Option<u64>,
    most: u64,
    more_may_come: bool,
) -> (Vec<u8>, bool, u64) {
    let have = part.bytes.len() as u64;
    // The bytes before a gap are further from the end than they look.
    let gap = part.gap_at.map_or(0, |at| at as u64);
    let skip_to = |from: u64| usize::try_from(have - from).unwrap_or(part.bytes.len());
    let (start, truncated) = match after {
        Some(after) => {
            let wanted = part.total.saturating_sub(after);
            let reachable = if wanted > have - gap {
                have - gap
            } else {
                wanted
            };
            (skip_to(reachable), wanted > reachable)
        }
        None => (skip_to(have.min(most)), part.total > have.min(most)),
    };
    let mut bytes = part.bytes.get(start..).unwrap_or_default().to_vec();
    // The two sides of a gap are never shown as if they belonged together.
    if let Some(at) = part.gap_at.filter(|at| after.is_none() && *at >= start) {
        let mark = format!("\n[{} bytes are not kept]\n", part.dropped);
        bytes.splice(at - start..at - start, mark.into_bytes());
    }
    let cut = if more_may_come { unfinished(&bytes) } else { 0 };
    bytes.truncate(bytes.len() - cut);
    (bytes, truncated, part.total - cut as u64)
}

/// Returns how many bytes at the end are the beginning of a character whose rest is missing.
fn unfinished(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let width = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if width > back + 1 { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &[u8], total: u64, gap_at: Option<usize>) -> LogPart {
        LogPart {
            bytes: bytes.to_vec(),
            total,
            dropped: total - bytes.len() as u64,
            gap_at,
        }
    }

    #[test]
    fn the_end_of_a_log_is_cut_where_it_was_asked() {
        let whole = part(b"hello world", 11, None);
        assert_eq!(
            cut_log(&whole, None, 5, false),
            (b"world".to_vec(), true, 11)
        );
        assert_eq!(
            cut_log(&whole, None, 50, false),
            (b"hello world".to_vec(), false, 11)
        );
        assert_eq!(
            cut_log(&whole, Some(6), 1, false),
            (b"world".to_vec(), false, 11)
        );
        assert_eq!(cut_log(&whole, Some(11), 1, false), (Vec::new(), false, 11));
        assert_eq!(
            cut_log(&whole, Some(0), 1, false),
            (b"hello world".to_vec(), false, 11)
        );
    }

    #[test]
    fn what_was_dropped_is_said_and_never_joined() {
        // 5 bytes of the beginning, 90 dropped, 5 of the end.
        let gap = part(b"startend..", 100, Some(5));
        assert_eq!(
            cut_log(&gap, Some(95), 1, false),
            (b"end..".to_vec(), false, 100)
        );
        assert_eq!(
            cut_log(&gap, Some(50), 1, false),
            (b"end..".to_vec(), true, 100)
        );
        let shown = cut_log(&gap, None, 50, false);
        assert_eq!(
            String::from_utf8_lossy(&shown.0),
            "start\n[90 bytes are not kept]\nend.."
        );
        assert_eq!((shown.1, shown.2), (true, 100));
    }

    #[test]
    fn a_character_that_is_cut_in_two_waits_for_its_rest() {
        let smile = "a😀".as_bytes();
        for n in 2..5 {
            let cut = part(&smile[..n], n as u64, None);
            assert_eq!(
                cut_log(&cut, Some(0), 1, true),
                (b"a".to_vec(), false, 1),
                "{n}"
            );
            assert_eq!(cut_log(&cut, Some(0), 1, false).0.len(), n);
        }
        let whole = part(smile, 5, None);
        assert_eq!(
            cut_log(&whole, Some(0), 1, true),
            (smile.to_vec(), false, 5)
        );
        let no_text = part(&[0xff, 0xff, 0xff], 3, None);
        assert_eq!(cut_log(&no_text, Some(0), 1, true).2, 3);
    }
}
