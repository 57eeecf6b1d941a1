//! Bodies and queries, read strictly, and refused in the words of the contract.

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::problem::Rejected;
use crate::contract::code::Code;
use crate::definitions::Format;
use crate::operators::Error;

/// A JSON body.
pub(super) struct Strict<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Strict<T> {
    type Rejection = Rejected;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejected> {
        match media_type(request.headers()).as_deref() {
            Some("application/json") => {}
            _ => {
                let message = "the body must be JSON: send `Content-Type: application/json`";
                return Err(Rejected::with_status(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    message,
                ));
            }
        }
        let bytes = bytes(request, state).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let message = format!("the body is not what is expected: {error}");
            Error::new(Code::InvalidArgument, message).into()
        })
    }
}

/// A definition as it was sent.
pub(super) struct Definition {
    pub text: String,
    pub format: Format,
}

impl<S: Send + Sync> FromRequest<S> for Definition {
    type Rejection = Rejected;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejected> {
        let format = match media_type(request.headers()).as_deref() {
            Some("application/json") => Format::Json,
            Some("application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml") => {
                Format::Yaml
            }
            _ => {
                let message =
                    "send the definition as `Content-Type: application/yaml` or `application/json`";
                return Err(Rejected::with_status(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    message,
                ));
            }
        };
        let bytes = bytes(request, state).await?;
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| {
            Error::new(
                Code::InvalidArgument,
                "the definition is not UTF-8; save it as UTF-8",
            )
        })?;
        Ok(Self { text, format })
    }
}

/// The query of a request.
pub(super) struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Rejected;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Rejected> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => {
                let whole = std::error::Error::source(&error)
                    .map_or_else(|| error.body_text(), ToString::to_string);
                Err(Error::new(
                    Code::InvalidArgument,
                    format!("the query is not what is expected: {whole}"),
                )
                .into())
            }
            Err(other) => Err(Error::new(Code::InvalidArgument, other.body_text()).into()),
        }
    }
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<bytes::Bytes, Rejected> {
    bytes::Bytes::from_request(request, state)
        .await
        .map_err(|rejection: BytesRejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let message = format!(
                    "the body is larger than {} bytes; send less",
                    super::MAX_BODY
                );
                Rejected::with_status(StatusCode::PAYLOAD_TOO_LARGE, message)
            }
            status => Rejected::with_status(
                status,
                format!("the body could not be read: {}", rejection.body_text()),
            ),
        })
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}
