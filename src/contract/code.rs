//! Every code that a refusal or error can carry, and the one table that says what each means to a
//! gRPC client, an HTTP client, a shell and a retry loop (C23, C46, C48).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $n:literal $variant:ident $text:literal grpc $grpc:literal http $http:literal exit $exit:literal retry $retry:literal,)*) => {
        /// A refusal or error code. Strings on the wire; more may come within version 1.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
        #[cbor(index_only)]
        pub enum Code {
            $($(#[$doc])* #[n($n)] #[serde(rename = $text)] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code as it stands on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the number of the gRPC status that carries it.
            #[must_use]
            pub fn grpc_status(self) -> i32 {
                match self { $(Self::$variant => $grpc,)* }
            }

            /// Returns the HTTP status (C46).
            #[must_use]
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }

            /// Returns the exit code of the command line (C48).
            #[must_use]
            pub fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit,)* }
            }

            /// Says whether the same request may succeed later. Such refusals are not remembered under a key (C19).
            #[must_use]
            pub fn is_transient(self) -> bool {
                match self { $(Self::$variant => $retry,)* }
            }
        }
    };
}

codes! {
    /// A field is missing, malformed or not served; the message names it.
    0 InvalidArgument "INVALID_ARGUMENT" grpc 3 http 400 exit 2 retry true,
    /// A directive that needs a key has none.
    1 KeyRequired "KEY_REQUIRED" grpc 3 http 400 exit 2 retry false,
    /// The host cannot take it now; try again after the time given.
    2 Unavailable "UNAVAILABLE" grpc 14 http 503 exit 1 retry true,
    /// The operation does not exist, or not yet.
    3 UnknownOperation "UNKNOWN_OPERATION" grpc 3 http 400 exit 2 retry false,
    /// The session is not the supervisor's live one.
    4 StaleSession "STALE_SESSION" grpc 9 http 409 exit 1 retry true,
    /// The key was used for something else.
    5 KeyConflict "KEY_CONFLICT" grpc 6 http 409 exit 2 retry false,
    /// Too many messages in a short time.
    6 RateLimited "RATE_LIMITED" grpc 8 http 429 exit 1 retry true,
    /// The cause names nothing that was sent to this supervisor.
    7 CauseUnknown "CAUSE_UNKNOWN" grpc 9 http 403 exit 6 retry false,
    /// The cause was delivered too long ago.
    8 CauseExpired "CAUSE_EXPIRED" grpc 9 http 403 exit 6 retry false,
    /// The cause has caused as many commands as it may.
    9 CauseExhausted "CAUSE_EXHAUSTED" grpc 8 http 403 exit 6 retry false,
    /// The answered request is not open, or not this supervisor's.
    10 AnswerNotOpen "ANSWER_NOT_OPEN" grpc 9 http 409 exit 5 retry false,
    /// A command at own initiative or by a tick has no reason.
    11 ReasonRequired "REASON_REQUIRED" grpc 3 http 403 exit 6 retry false,
    /// The operation is not in the supervisor's `initiative`.
    12 InitiativeNotAllowed "INITIATIVE_NOT_ALLOWED" grpc 7 http 403 exit 6 retry false,
    /// The initiative budget of the last minute is spent.
    13 InitiativeRateLimited "INITIATIVE_RATE_LIMITED" grpc 8 http 403 exit 6 retry false,
    /// The operation is not in the supervisor's `allowedCommands`.
    14 CommandNotAllowed "COMMAND_NOT_ALLOWED" grpc 7 http 403 exit 6 retry false,
    /// The command's risk is above the supervisor's `maxRisk`.
    15 RiskTooHigh "RISK_TOO_HIGH" grpc 7 http 403 exit 6 retry false,
    /// The owner's engine, a parent or a person refused, or nobody answered.
    16 ControlRejected "CONTROL_REJECTED" grpc 7 http 403 exit 6 retry false,
    /// The target's owner does not let operators use this command.
    17 ControlledBySupervisor "CONTROLLED_BY_SUPERVISOR" grpc 9 http 409 exit 6 retry false,
    /// A save would give a unit to two supervisors.
    18 OwnershipConflict "OWNERSHIP_CONFLICT" grpc 6 http 409 exit 1 retry false,
    /// The definition comes from a file and cannot be changed over the API.
    19 DefinedInFile "DEFINED_IN_FILE" grpc 9 http 409 exit 1 retry false,
    /// The target's state or `ifStatus` does not fit.
    20 PreconditionFailed "PRECONDITION_FAILED" grpc 9 http 409 exit 5 retry false,
    /// The thing named does not exist, or is not to be seen.
    21 NotFound "NOT_FOUND" grpc 5 http 404 exit 5 retry false,
    /// No credential, or one that is not known.
    22 Unauthenticated "UNAUTHENTICATED" grpc 16 http 401 exit 4 retry false,
    /// The credential does not allow this.
    23 PermissionDenied "PERMISSION_DENIED" grpc 7 http 403 exit 4 retry false,
    /// The first message did not come in time.
    24 DeadlineExceeded "DEADLINE_EXCEEDED" grpc 4 http 504 exit 1 retry true,
    /// The contract version asked for is not served.
    25 VersionNotServed "VERSION_NOT_SERVED" grpc 9 http 400 exit 1 retry false,
    /// Not built in this version of the host.
    26 Unimplemented "UNIMPLEMENTED" grpc 12 http 501 exit 1 retry false,
    /// The command waits for an approval.
    27 AwaitingApproval "AWAITING_APPROVAL" grpc 0 http 202 exit 7 retry false,
    /// A page token is too old.
    28 PageExpired "PAGE_EXPIRED" grpc 9 http 400 exit 1 retry false,
    /// The host has a fault; its log says more.
    29 Internal "INTERNAL" grpc 13 http 500 exit 1 retry false,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
