//! The one mapping from codes to gRPC statuses. Every status carries a `google.rpc.ErrorInfo` with the domain
//! `signalbox` and the code as its reason (C9), so that nobody has to read the text.

use std::collections::HashMap;
use std::time::Duration;

use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::Malformed;
use crate::contract::code::Code;

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "signalbox";

/// Makes the status of a code.
pub fn refused(code: Code, message: impl Into<String>) -> Status {
    make(code, message.into(), details(code))
}

/// Makes the status of a code that says when to come back; only for transient ones.
pub fn retry_after(code: Code, message: impl Into<String>, delay: Duration) -> Status {
    let mut details = details(code);
    details.set_retry_info(Some(delay));
    make(code, message.into(), details)
}

/// Makes the status of an input with one bad field.
#[must_use]
pub fn malformed(error: &Malformed) -> Status {
    let mut details = details(Code::InvalidArgument);
    details.add_bad_request_violation(&error.field, &error.message);
    make(Code::InvalidArgument, error.to_string(), details)
}

fn details(code: Code) -> ErrorDetails {
    let mut details = ErrorDetails::new();
    details.set_error_info(code.as_str(), DOMAIN, HashMap::new());
    details
}

fn make(code: Code, message: String, details: ErrorDetails) -> Status {
    Status::with_error_details(tonic::Code::from_i32(code.grpc_status()), message, details)
}
