//! Page tokens: opaque to callers, bound to the query that they go on with, stable when runs are added (C44).

use sha2::{Digest as _, Sha256};

use super::Error;

/// Makes the token that goes on after an item.
pub(super) fn token(query: &str, last: u64) -> String {
    format!("p1-{last:x}-{}", bound(query, last))
}

/// Reads a token of the same query.
///
/// # Errors
/// `INVALID_ARGUMENT` for a text that is none, and for the token of another query.
pub(super) fn read(query: &str, token: &str) -> Result<u64, Error> {
    let parse = || {
        let (last, digest) = token.strip_prefix("p1-")?.split_once('-')?;
        let last = u64::from_str_radix(last, 16).ok()?;
        (bound(query, last) == digest).then_some(last)
    };
    parse().ok_or_else(|| {
        Error::field(
            "page_token",
            "it does not belong to this query; begin again without it, and do not change the query",
        )
    })
}

fn bound(query: &str, last: u64) -> String {
    let digest = Sha256::digest(format!("{last} {query}").as_bytes());
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_on_where_its_query_left_off() {
        for last in [0, 1, 77, u64::MAX] {
            assert_eq!(read("workflow=a", &token("workflow=a", last)), Ok(last));
        }
    }

    #[test]
    fn a_token_of_another_query_or_of_nobody_is_refused() {
        let good = token("workflow=a", 7);
        for (query, token) in [
            ("workflow=b", good.as_str()),
            ("workflow=a", "p1-8-0000000000000000"),
            ("workflow=a", "p1-7"),
            ("workflow=a", ""),
            ("workflow=a", "7"),
        ] {
            let error = read(query, token).expect_err("refused");
            assert_eq!(error.fields[0].path, "page_token");
        }
    }
}
