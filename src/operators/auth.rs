//! Who calls, and what they may do (C47).

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::code::Code;
use crate::contract::directive::Actor;
use crate::core::effect::Refusal;
use crate::core::record::Access;
use crate::host::{HostHandle, credentials};

use super::Error;

/// The file with the admin key, in the data directory.
pub const ADMIN_KEY_FILE: &str = "admin.key";
/// The id of the credential that is made at the first start.
const ADMIN: &str = "admin";

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Everything.
    Admin,
}

/// An authenticated operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who it is, for the audit and for holds.
    pub actor: Actor,
    /// What it may do.
    pub role: Role,
}

impl Caller {
    /// Finds out who calls, from a bearer token.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a token or with an unknown one, `PERMISSION_DENIED` for an engine's.
    pub fn authenticate(host: &HostHandle, token: Option<&str>) -> Result<Self, Error> {
        let unknown = |message: &str| Error::new(Code::Unauthenticated, message);
        let token =
            token.ok_or_else(|| unknown("there is no key: send `Authorization: Bearer <key>`"))?;
        let credential = host.authenticate(token).ok_or_else(|| {
            unknown("the key is not known here: check it, or have one issued by an admin")
        })?;
        let role = match &credential.access {
            Access::Viewer => Role::Viewer,
            Access::Admin => Role::Admin,
            Access::Engine(supervisor) => {
                let message = format!(
                    "this is the key of the engine of `{supervisor}`: operators have keys of their own"
                );
                return Err(Error::new(Code::PermissionDenied, message));
            }
        };
        Ok(Self {
            actor: Actor {
                kind: "KEY".to_owned(),
                id: credential.id.clone(),
            },
            role,
        })
    }

    /// Lets only those pass who may do everything.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` for a viewer.
    pub fn admin(&self) -> Result<(), Error> {
        match self.role {
            Role::Admin => Ok(()),
            Role::Viewer => {
                let message = format!(
                    "`{}` is a viewer's key, which only reads: use one with the role admin",
                    self.actor.id
                );
                Err(Error::new(Code::PermissionDenied, message))
            }
        }
    }
}

/// Why the admin key could not be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be written.
    #[error("the admin key cannot be written to {} ({source}): check the directory's rights and space", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The host did not take the credential.
    #[error("the host did not take the admin key: {}", .0.message)]
    Refused(Refusal),
}

/// Makes the admin key where there is none yet: a token in `<data_dir>/admin.key`, readable by its owner only.
/// Returns the file, or nothing where the key was made before and the file was taken away since.
///
/// # Errors
/// [`KeyError`]: the file cannot be written, or the host stops.
pub async fn ensure_admin_key(
    host: &HostHandle,
    data_dir: &Path,
) -> Result<Option<PathBuf>, KeyError> {
    let path = data_dir.join(ADMIN_KEY_FILE);
    let view = host.view().await.map_err(KeyError::Refused)?;
    if view.credentials.values().any(|c| c.access == Access::Admin) {
        return Ok(path.exists().then_some(path));
    }
    // A crash after the write leaves a key that nobody takes, and the next start writes another one over it. The
    // other way round nobody would ever know the key.
    let (token, credential) = credentials::issue(ADMIN, Access::Admin, host.clock().wall_ms());
    write_private(&path, token.reveal()).map_err(|source| KeyError::Unwritable {
        path: path.clone(),
        source,
    })?;
    let actor = Actor {
        kind: "SYSTEM".to_owned(),
        id: "first-start".to_owned(),
    };
    host.keep_credential(credential, actor)
        .await
        .map_err(KeyError::Refused)?;
    Ok(Some(path))
}

/// Writes a text that only its owner may read, whole or not at all.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("key.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    if let Some(dir) = path.parent() {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_file_is_its_owners_alone_also_when_it_is_written_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(ADMIN_KEY_FILE);
        for token in ["one", "two"] {
            fs::write(&path, "old, and open to all").expect("writes");
            write_private(&path, token).expect("writes");
            assert_eq!(
                fs::read_to_string(&path).expect("reads"),
                format!("{token}\n")
            );
            assert_eq!(
                fs::metadata(&path).expect("is there").permissions().mode() & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn a_viewer_may_only_read() {
        let caller = |role| Caller {
            actor: Actor {
                kind: "KEY".into(),
                id: "me".into(),
            },
            role,
        };
        assert!(caller(Role::Admin).admin().is_ok());
        assert_eq!(
            caller(Role::Viewer).admin().expect_err("refused").code,
            Code::PermissionDenied
        );
    }
}
