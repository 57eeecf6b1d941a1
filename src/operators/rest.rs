//! The REST skin: HTTP and JSON on a listener of its own, `application/problem+json` for everything that is not a
//! success (RFC 9457), and the event stream as server-sent events.
//!
//! Invariants:
//! - Nothing below `/api` is looked at before the key and its role are checked; nothing at all for a `Host` that is
//!   not ours, so that a page in a browser cannot reach a loopback listener by a name of its own.
//! - Every body has a limit of 1 MiB and 30 s; every request but a command (which may wait for a review) and the
//!   stream has 30 s.
//! - Unknown fields of bodies and queries are refused by name.
//!
//! Absent on purpose: decisions, TLS, and cookies (so there is nothing that another site could make a browser send).

mod body;
mod events;
mod guard;
mod problem;
mod routes;

use std::io;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Router, http};
use tokio::net::TcpListener;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tower_http::trace::TraceLayer;

use super::OperatorService;

pub use guard::Hosts;
pub use problem::{PROBLEM_JSON, Problem};

/// The largest body of a request, in bytes.
pub const MAX_BODY: usize = 1024 * 1024;
/// How long a request may take, unless it commands or streams.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Makes the router.
pub fn router(service: OperatorService, hosts: Hosts) -> Router {
    let waits = Router::new()
        .route("/api/commands", post(routes::command))
        .route("/api/events", get(events::stream));
    let quick = Router::new()
        .route("/api/supervisor-contract", get(routes::contract))
        .route("/api/workflows", get(routes::workflows))
        .route(
            "/api/workflows/{id}",
            get(routes::workflow).put(routes::save_workflow),
        )
        .route("/api/supervisors", get(routes::supervisors))
        .route(
            "/api/supervisors/{id}",
            get(routes::supervisor).put(routes::save_supervisor),
        )
        .route(
            "/api/supervisors/{id}/credentials",
            post(routes::engine_credential),
        )
        .route("/api/credentials", post(routes::operator_key))
        .route("/api/executions", get(routes::executions))
        .route("/api/executions/{id}", get(routes::execution))
        .route("/api/executions/{id}/logs", get(routes::logs))
        .route("/api/engines", get(routes::engines))
        .route("/api/audit", get(routes::audit))
        .layer(from_fn(|request, next| {
            guard::in_time(REQUEST_TIME, request, next)
        }));
    let health = Router::new()
        .route("/livez", get(routes::alive))
        .route("/readyz", get(routes::ready));
    waits
        .merge(quick)
        .layer(from_fn_with_state(service.clone(), guard::authenticate))
        .merge(health)
        .fallback(routes::nothing_here)
        .method_not_allowed_fallback(routes::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(RequestBodyTimeoutLayer::new(REQUEST_TIME))
        .layer(from_fn_with_state(hosts, guard::right_host))
        .layer(from_fn(problem::write))
        .layer(TraceLayer::new_for_http().make_span_with(|request: &http::Request<_>| {
            // Neither headers nor queries: keys and people's texts stay out of logs.
            tracing::debug_span!("http", method = %request.method(), path = request.uri().path())
        }))
        .with_state(service)
}

/// Serves the operators' surface until the service is told to stop; what was received is answered first.
///
/// # Errors
/// Fails when the listener does.
pub async fn serve(
    listener: TcpListener,
    service: OperatorService,
    hosts: Hosts,
) -> io::Result<()> {
    use axum::serve::ListenerExt as _;
    let listener = listener.tap_io(|stream| {
        // Small answers must not wait for the acknowledgement of the ones before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY on a connection");
        }
    });
    let stopping = service.stopping().clone();
    axum::serve(listener, router(service, hosts))
        .with_graceful_shutdown(stopping.cancelled_owned())
        .await
}
