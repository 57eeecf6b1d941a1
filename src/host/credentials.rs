//! Credentials: made here, kept by the core as digests, checked here in constant time (C8).

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt as _;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use crate::core::record::{Access, Credential};

/// The credentials that are good now, by id.
#[derive(Debug, Clone, Default)]
pub struct Credentials(BTreeMap<String, Arc<Credential>>);

/// A new token: shown once, kept nowhere.
pub struct Token(String);

impl Token {
    /// Returns the token's text, `<id>.<secret>`, to be shown to its holder once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token([redacted])")
    }
}

/// Makes a credential with a 256-bit random secret.
#[must_use]
pub fn issue(id: &str, access: Access, wall_ms: u64) -> (Token, Credential) {
    let secret: [u8; 32] = rand::rng().random();
    let secret: String = secret.iter().map(|b| format!("{b:02x}")).collect();
    let credential = Credential {
        id: id.to_owned(),
        digest: Sha256::digest(secret.as_bytes()).into(),
        access,
        issued_wall: wall_ms,
    };
    (Token(format!("{id}.{secret}")), credential)
}

impl Credentials {
    /// Takes the credentials of a state.
    #[must_use]
    pub fn of(state: &crate::core::state::Durable) -> Self {
        Self(
            state
                .credentials
                .iter()
                .map(|(id, c)| (id.clone(), Arc::clone(c)))
                .collect(),
        )
    }

    /// Finds the credential that a token is for. Unknown ids take as long as wrong secrets.
    #[must_use]
    pub fn check(&self, token: &str) -> Option<Arc<Credential>> {
        // An id may hold dots, a secret does not.
        let (id, secret) = token.rsplit_once('.').unwrap_or(("", token));
        let given: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let found = self.0.get(id);
        let kept = found.map_or([0; 32], |c| c.digest);
        let same = bool::from(given.ct_eq(&kept));
        found.filter(|_| same).cloned()
    }
}
