//! What every request passes first: the host it names, its key, its time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::Rejected;
use crate::contract::code::Code;
use crate::operators::{Error, OperatorService};

/// The names that a request may address: loopback names, plain addresses, and what the configuration adds.
///
/// A page in a browser can give its own name the address of a loopback listener; it cannot make the browser send
/// another `Host`. Plain addresses are safe, since no name stands for them.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<Vec<String>>);

impl Hosts {
    /// Allows these names too.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        Self(Arc::new(
            names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        ))
    }

    fn allows(&self, authority: &str) -> bool {
        let name = match authority.rsplit_once(':') {
            Some((name, port))
                if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') =>
            {
                name
            }
            _ => authority,
        };
        let name = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .trim_end_matches('.')
            .to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

/// Lets only requests pass that address this host.
pub(super) async fn right_host(
    State(hosts): State<Hosts>,
    request: Request,
    next: Next,
) -> Response {
    let header = request
        .headers()
        .get(header::HOST)
        .and_then(|h| h.to_str().ok());
    let authority = request.uri().authority().map(|a| a.as_str()).or(header);
    match authority {
        Some(authority) if hosts.allows(authority) => next.run(request).await,
        _ => {
            let message = "this host does not answer to that name: use localhost or an address, or add the name to http.allowed-hosts";
            Rejected::from(Error::new(Code::PermissionDenied, message)).into_response()
        }
    }
}

/// Finds out who calls.
pub(super) async fn authenticate(
    State(service): State<OperatorService>,
    mut request: Request,
    next: Next,
) -> Response {
    match service.authenticate(bearer(request.headers())) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => Rejected::from(error).into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())
        .filter(|token| !token.is_empty())
}

/// Ends a request that takes too long.
pub(super) async fn in_time(limit: Duration, request: Request, next: Next) -> Response {
    tokio::time::timeout(limit, next.run(request))
        .await
        .unwrap_or_else(|_| {
            let message = format!(
                "the request took longer than {} s; try again",
                limit.as_secs()
            );
            Rejected::from(Error::new(Code::DeadlineExceeded, message)).into_response()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_addresses_and_configured_names_are_answered() {
        let hosts = Hosts::new(&["Box.Example".to_owned()]);
        for good in [
            "localhost",
            "localhost:7421",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:7421",
            "[::1]:7421",
            "[::1]",
            "::1",
            "10.0.0.7:80",
            "box.example",
            "box.example:7421",
            "box.example.",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "",
            ":80",
            "evil.example",
            "evil.example:7421",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xbox.example",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_key_comes_as_a_bearer_token_and_in_no_other_way() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("header"));
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer a.b").as_deref(), Some("a.b"));
        assert_eq!(of("bearer  a.b ").as_deref(), Some("a.b"));
        for bad in ["a.b", "Basic a.b", "Bearer", "Bearer "] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
