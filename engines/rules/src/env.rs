//! How an engine finds its host: three variables of the environment, the same for engines that the
//! host starts and for those that are attached.

use std::fmt;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;

use crate::error::Error;

const ADDR: &str = "SIGNALBOX_ENGINE_ADDR";
const TOKEN: &str = "SIGNALBOX_ENGINE_TOKEN";
const SUPERVISOR: &str = "SIGNALBOX_SUPERVISOR";
const MANAGED: &str = "SIGNALBOX_MANAGED";

/// The variables that [`ConnectEnv::from_process`] reads; the last one is optional.
pub const VARIABLES: [&str; 4] = [ADDR, TOKEN, SUPERVISOR, MANAGED];

/// Where the host is, and who the engine is there.
#[derive(Clone)]
pub struct ConnectEnv {
    pub(crate) endpoint: Endpoint,
    pub(crate) addr: String,
    pub(crate) bearer: MetadataValue<Ascii>,
    pub(crate) supervisor: String,
    pub(crate) managed: bool,
}

impl ConnectEnv {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// Names the variable that is missing or cannot be used.
    pub fn from_process() -> Result<Self, Error> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads the variables from a function, which tests replace.
    ///
    /// # Errors
    /// Names the variable that is missing or cannot be used.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let required = |variable: &'static str, meaning: &'static str| {
            get(variable)
                .filter(|value| !value.is_empty())
                .ok_or(Error::MissingVariable { variable, meaning })
        };
        let addr = required(ADDR, "the host's gRPC address, for instance 127.0.0.1:7420")?;
        let token = required(
            TOKEN,
            "the credential that `signalbox credential issue` printed",
        )?;
        let supervisor = required(SUPERVISOR, "the id of the supervisor whose engine this is")?;

        let mut bearer = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_| Error::BadVariable {
            variable: TOKEN,
            problem: "it has characters that no token has; copy the token again, without quotes or line ends".to_owned(),
        })?;
        bearer.set_sensitive(true);
        let managed = match get(MANAGED).as_deref() {
            None | Some("" | "0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(Error::BadVariable {
                    variable: MANAGED,
                    problem: format!("it is `{other}`; only the host sets it, to 1: remove it"),
                });
            }
        };
        Ok(Self {
            endpoint: endpoint(&addr)?,
            addr,
            bearer,
            supervisor,
            managed,
        })
    }
}

impl fmt::Debug for ConnectEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectEnv")
            .field("addr", &self.addr)
            .field("supervisor", &self.supervisor)
            .field("managed", &self.managed)
            .finish_non_exhaustive()
    }
}

fn endpoint(addr: &str) -> Result<Endpoint, Error> {
    let bad = |problem: String| Error::BadVariable {
        variable: ADDR,
        problem,
    };
    if addr.starts_with("https://") {
        return Err(bad(format!(
            "`{addr}` asks for TLS, which this engine does not speak; use http:// on the host's own machine"
        )));
    }
    let uri = if addr.starts_with("http://") || addr.starts_with("unix:") {
        addr.to_owned()
    } else {
        format!("http://{addr}")
    };
    let endpoint = Endpoint::from_shared(uri).map_err(|e| {
        bad(format!(
            "`{addr}` is no address ({e}); write host:port, for instance 127.0.0.1:7420"
        ))
    })?;
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<ConnectEnv, Error> {
        ConnectEnv::read(|name| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    const WHOLE: [(&str, &str); 3] = [
        (ADDR, "127.0.0.1:7420"),
        (TOKEN, "t0ken"),
        (SUPERVISOR, "night"),
    ];

    #[test]
    fn each_missing_variable_is_named() {
        for skip in 0..WHOLE.len() {
            let mut set = WHOLE.to_vec();
            let (name, _) = set.remove(skip);
            let error = read(&set).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is not set")), "{error}");
        }
        let error = read(&[WHOLE[0], (TOKEN, ""), WHOLE[2]])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(TOKEN),
            "an empty one counts as missing: {error}"
        );
    }

    #[test]
    fn an_address_is_taken_with_and_without_scheme_but_not_with_tls() {
        for addr in [
            "127.0.0.1:7420",
            "http://localhost:7420",
            "[::1]:7420",
            "unix:///run/signalbox.sock",
        ] {
            assert!(read(&[(ADDR, addr), WHOLE[1], WHOLE[2]]).is_ok(), "{addr}");
        }
        for addr in ["https://host:1", "a b"] {
            let error = read(&[(ADDR, addr), WHOLE[1], WHOLE[2]])
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(ADDR), "{error}");
        }
    }

    #[test]
    fn the_token_never_shows() {
        let env = read(&WHOLE).unwrap();
        assert!(!format!("{env:?}").contains("t0ken"));
        let error = read(&[WHOLE[0], (TOKEN, "se\ncret"), WHOLE[2]])
            .unwrap_err()
            .to_string();
        assert!(!error.contains("cret"), "{error}");
    }
}
