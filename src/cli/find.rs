//! Where the host is, and with which key.

use std::path::Path;

use super::pointer::{self, Pointer};
use super::{Failure, Globals};
use crate::operators::auth::ADMIN_KEY_FILE;

/// Where a host listens when nothing is said.
const DEFAULT_URL: &str = "http://127.0.0.1:7421";

/// A host to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub url: String,
    pub key: String,
}

/// Finds the host and the key. A key file is only used for the host that it belongs to: it is never sent to an
/// address that somebody else may have given.
pub(super) fn host(globals: &Globals) -> Result<Found, Failure> {
    let pointer = match pointer::read() {
        Ok(pointer) => pointer,
        Err(error) => {
            tracing::debug!(%error, "no pointer to a host");
            None
        }
    };
    decide(globals, pointer)
}

fn decide(globals: &Globals, pointer: Option<Pointer>) -> Result<Found, Failure> {
    let Globals {
        url,
        key,
        data_dir,
        output: _,
    } = globals;
    let given = url
        .as_deref()
        .map(|url| url.trim_end_matches('/').to_owned());
    let url = given
        .clone()
        .or_else(|| pointer.as_ref().map(|p| p.url.clone()))
        .unwrap_or_else(|| DEFAULT_URL.to_owned());
    if let Some(key) = key.as_ref().filter(|key| !key.is_empty()) {
        return Ok(Found {
            url,
            key: key.trim().to_owned(),
        });
    }
    if let Some(dir) = data_dir {
        return Ok(Found {
            url,
            key: key_in(&dir.join(ADMIN_KEY_FILE))?,
        });
    }
    match pointer.filter(|p| p.url == url).and_then(|p| p.key_file) {
        Some(file) => Ok(Found { url, key: key_in(&file)? }),
        None => Err(Failure::new(4, format!("there is no key for {url}")).hint(
            "start a host with `signalbox serve`, or give a key with --key or SIGNALBOX_KEY, or --data-dir DIR on the host's own machine",
        )),
    }
}

fn key_in(file: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(Failure::new(
            4,
            format!("the key file {} cannot be read ({error})", file.display()),
        )
        .hint("run this as the user who runs the host, or give a key with --key or SIGNALBOX_KEY")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Format;
    use super::*;

    fn globals(url: Option<&str>, key: Option<&str>, data_dir: Option<PathBuf>) -> Globals {
        Globals {
            output: Format::Table,
            url: url.map(str::to_owned),
            key: key.map(str::to_owned),
            data_dir,
        }
    }

    #[test]
    fn the_host_of_this_machine_is_found_by_itself_and_what_is_given_wins() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(ADMIN_KEY_FILE);
        std::fs::write(&file, "admin.secret\n").expect("writes");
        let pointer = || {
            Some(Pointer {
                url: "http://127.0.0.1:9".into(),
                key_file: Some(file.clone()),
                pid: 1,
            })
        };
        let found = |globals: &Globals, pointer| decide(globals, pointer).map(|f| (f.url, f.key));
        let ok = |url: &str, key: &str| Ok((url.to_owned(), key.to_owned()));

        assert_eq!(
            found(&globals(None, None, None), pointer()),
            ok("http://127.0.0.1:9", "admin.secret")
        );
        assert_eq!(
            found(&globals(Some("http://h:1/"), Some("k"), None), pointer()),
            ok("http://h:1", "k")
        );
        assert_eq!(
            found(&globals(None, Some("k"), None), None),
            ok(DEFAULT_URL, "k")
        );
        let data_dir = Some(dir.path().to_owned());
        assert_eq!(
            found(&globals(None, None, data_dir), None),
            ok(DEFAULT_URL, "admin.secret")
        );
        // The key of this machine's host goes to no other.
        assert_eq!(
            decide(&globals(Some("http://evil:1"), None, None), pointer())
                .expect_err("refused")
                .exit,
            4
        );
        assert_eq!(
            decide(&globals(None, None, None), None)
                .expect_err("refused")
                .exit,
            4
        );
        assert_eq!(
            decide(&globals(None, None, Some("/no/such".into())), None)
                .expect_err("refused")
                .exit,
            4
        );
    }
}
