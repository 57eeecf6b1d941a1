//! Problem bodies (RFC 9457), from the one table of codes.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::contract::code::Code;
use crate::contract::outcome::TargetResult;
use crate::operators::{Error, FieldError};

/// The media type of problem bodies.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// After how many seconds a request that was refused for now may be sent again.
const RETRY_AFTER: &str = "1";

/// A problem body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:signalbox:problem:<code>`, the code in lower case.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong and what to do about it.
    pub detail: String,
    /// The path that was asked for.
    pub instance: String,
    /// The code of the contract (C23).
    pub code: String,
    /// The check that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Every bad field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The targets of a command that was answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetResult>,
    /// The same answer was given before under the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl Problem {
    /// Makes the body of an error.
    #[must_use]
    pub fn of(error: &Error, status: StatusCode, instance: &str) -> Self {
        let code = error.code.as_str();
        let answer = error.answer.as_deref();
        Self {
            kind: format!(
                "urn:signalbox:problem:{}",
                code.to_lowercase().replace('_', "-")
            ),
            title: code.to_lowercase().replace('_', " "),
            status: status.as_u16(),
            detail: error.message.clone(),
            instance: instance.to_owned(),
            code: code.to_owned(),
            check: error.check.clone(),
            errors: error.fields.clone(),
            targets: answer.map(|a| a.targets.clone()).unwrap_or_default(),
            replayed: answer.is_some_and(|a| a.replayed),
        }
    }
}

/// An error on its way to a problem body.
#[derive(Debug, Clone)]
pub(super) struct Rejected {
    error: Error,
    status: StatusCode,
}

impl Rejected {
    /// Refuses with a status that no code stands for.
    pub fn with_status(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            error: Error::new(Code::InvalidArgument, message),
            status,
        }
    }
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.code.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { error, status }
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the problem bodies, since only here the path is known.
pub(super) async fn write(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    let status = response.status();
    let rejected = match response.extensions_mut().remove::<Rejected>() {
        Some(rejected) => rejected,
        // Whatever a layer refuses by itself says at least what it is.
        None if status.is_client_error() || status.is_server_error() => Rejected::with_status(
            status,
            status
                .canonical_reason()
                .unwrap_or("the request was refused")
                .to_lowercase(),
        ),
        None => return response,
    };
    let Rejected { error, status } = rejected;
    if error.code == Code::Internal {
        tracing::error!(%path, error = %error.message, "request failed");
    }
    let mut out = (status, Json(Problem::of(&error, status, &path))).into_response();
    let headers = out.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    if let Some(allow) = response.headers_mut().remove(header::ALLOW) {
        headers.insert(header::ALLOW, allow);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_of_its_table_and_a_type_that_is_a_name() {
        for code in Code::ALL {
            let rejected = Rejected::from(Error::new(*code, "why"));
            assert_eq!(rejected.status.as_u16(), code.http_status());
            let problem = Problem::of(&rejected.error, rejected.status, "/api/x");
            assert_eq!(problem.code, code.as_str());
            let name = problem
                .kind
                .strip_prefix("urn:signalbox:problem:")
                .expect("prefix");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{name}"
            );
        }
    }

    #[test]
    fn a_problem_names_its_fields_and_nothing_that_is_empty() {
        let problem = Problem::of(
            &Error::field("status", "no"),
            StatusCode::BAD_REQUEST,
            "/api/executions",
        );
        let json = serde_json::to_value(&problem).expect("prints");
        let expected = serde_json::json!({
            "type": "urn:signalbox:problem:invalid-argument",
            "title": "invalid argument",
            "status": 400,
            "detail": "status: no",
            "instance": "/api/executions",
            "code": "INVALID_ARGUMENT",
            "errors": [{"path": "status", "message": "no"}],
        });
        assert_eq!(json, expected);
    }
}
