//! The handlers: each takes a request apart, asks the service, and puts the answer together.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;

use super::body::{Asked, Definition, Strict};
use super::problem::Rejected;
use crate::contract::CONTRACT_VERSION;
use crate::contract::code::Code;
use crate::contract::operation::{OPERATIONS, Operation};
use crate::operators::view::{
    AsOf, AuditQuery, CommandRequest, CommandResult, CredentialRequest, ExecutionsQuery, LogsQuery,
};
use crate::operators::{Caller, Commanded, Error, OperatorService};

/// The header with the idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long the host may take to show that it is there.
const READY_TIME: Duration = Duration::from_secs(2);

type Answer = Result<Response, Rejected>;

fn ok(body: impl Serialize) -> Answer {
    Ok((
        [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
        Json(body),
    )
        .into_response())
}

/// What this host serves.
#[derive(Serialize)]
struct Contract {
    version: u32,
    operations: &'static [Operation],
}

pub(super) async fn contract(State(service): State<OperatorService>) -> Answer {
    let as_of = *service.host().last_seq().borrow();
    ok(AsOf {
        as_of,
        body: Contract {
            version: CONTRACT_VERSION,
            operations: OPERATIONS,
        },
    })
}

pub(super) async fn workflows(State(service): State<OperatorService>) -> Answer {
    ok(service.workflows().await?)
}

pub(super) async fn workflow(
    State(service): State<OperatorService>,
    Path(id): Path<String>,
) -> Answer {
    ok(service.workflow(&id).await?)
}

pub(super) async fn save_workflow(
    State(service): State<OperatorService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Definition, Rejected>,
) -> Answer {
    caller.admin()?;
    let Definition { text, format } = body?;
    ok(service.save_workflow(&caller, &id, &text, format).await?)
}

pub(super) async fn supervisors(State(service): State<OperatorService>) -> Answer {
    ok(service.supervisors().await?)
}

pub(super) async fn supervisor(
    State(service): State<OperatorService>,
    Path(id): Path<String>,
) -> Answer {
    ok(service.supervisor(&id).await?)
}

pub(super) async fn save_supervisor(
    State(service): State<OperatorService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Definition, Rejected>,
) -> Answer {
    caller.admin()?;
    let Definition { text, format } = body?;
    ok(service.save_supervisor(&caller, &id, &text, format).await?)
}

pub(super) async fn engine_credential(
    State(service): State<OperatorService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    let made = service.issue_engine_credential(&caller, &id).await?;
    Ok((StatusCode::CREATED, ok(made)?).into_response())
}

pub(super) async fn operator_key(
    State(service): State<OperatorService>,
    Extension(caller): Extension<Caller>,
    body: Result<Strict<CredentialRequest>, Rejected>,
) -> Answer {
    caller.admin()?;
    let made = service.issue_operator_key(&caller, &body?.0).await?;
    Ok((StatusCode::CREATED, ok(made)?).into_response())
}

pub(super) async fn command(
    State(service): State<OperatorService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Strict<CommandRequest>, Rejected>,
) -> Answer {
    caller.admin()?;
    let key = headers
        .get(IDEMPOTENCY_KEY)
        .map(HeaderValue::to_str)
        .transpose();
    let key = key.map_err(|_| {
        Error::field(
            "Idempotency-Key",
            "use printable ASCII characters, 1 to 128 of them",
        )
    })?;
    let Commanded { answer, execution } = service
        .command(&caller, body?.0, key.map(str::to_owned))
        .await?;
    match Error::of_answer(&answer) {
        Some(error) => Err(error.into()),
        None => ok(CommandResult {
            answer,
            execution_id: execution,
        }),
    }
}

pub(super) async fn executions(
    State(service): State<OperatorService>,
    Asked(query): Asked<ExecutionsQuery>,
) -> Answer {
    ok(service.executions(&query).await?)
}

pub(super) async fn execution(
    State(service): State<OperatorService>,
    Path(id): Path<String>,
) -> Answer {
    ok(service.execution(&id).await?)
}

pub(super) async fn logs(
    State(service): State<OperatorService>,
    Path(id): Path<String>,
    Asked(query): Asked<LogsQuery>,
) -> Answer {
    ok(service.logs(&id, &query).await?)
}

pub(super) async fn engines(State(service): State<OperatorService>) -> Answer {
    ok(service.engines().await?)
}

pub(super) async fn audit(
    State(service): State<OperatorService>,
    Asked(query): Asked<AuditQuery>,
) -> Answer {
    ok(service.audit(&query).await?)
}

pub(super) async fn alive() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(
    State(service): State<OperatorService>,
) -> Result<&'static str, Rejected> {
    if service.stopping().is_cancelled() {
        return Err(Error::new(
            Code::Unavailable,
            "the host is stopping; try again when it is back",
        )
        .into());
    }
    match tokio::time::timeout(READY_TIME, service.host().view()).await {
        Ok(Ok(_)) => Ok("ok\n"),
        Ok(Err(refusal)) => Err(Error::from(refusal).into()),
        Err(_) => Err(Error::new(
            Code::Unavailable,
            "the host does not answer in time; try again in a second",
        )
        .into()),
    }
}

pub(super) async fn nothing_here() -> Rejected {
    Error::new(
        Code::NotFound,
        "there is nothing at this address; GET /api/supervisor-contract says what is served",
    )
    .into()
}

pub(super) async fn wrong_method() -> Rejected {
    Rejected::with_status(
        StatusCode::METHOD_NOT_ALLOWED,
        "this address does not take that method; see the Allow header",
    )
}
