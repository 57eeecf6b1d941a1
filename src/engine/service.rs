//! The calls of `EngineService`, version 1. Each begins with the credential; what is not built says so.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::contract::code::Code;
use crate::contract::id::{SessionId, SupervisorId};
use crate::core::record::Access;
use crate::host::HostHandle;
use crate::wire::directive::{receive, refusal, result, retry_after_ms};
use crate::wire::proto::v1 as pb;
use crate::wire::proto::v1::engine_service_server::EngineService;
use crate::wire::{Malformed, status};

use super::registry::{Registry, Wait};
use super::session::{self, Limits, Link, Outgoing};

/// The service.
pub struct Api {
    pub host: HostHandle,
    pub registry: Registry,
    pub tasks: TaskTracker,
    pub stopping: CancellationToken,
    pub limits: Limits,
    pub second: Duration,
}

impl Api {
    /// Finds whose engine calls (C8).
    fn authenticate(&self, metadata: &MetadataMap) -> Result<SupervisorId, Status> {
        let header = metadata.get("authorization").and_then(|v| v.to_str().ok());
        let token = header.and_then(|h| {
            let (scheme, token) = h.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else {
            return Err(status::refused(
                Code::Unauthenticated,
                "send the metadata `authorization: Bearer <token>` with the supervisor's credential",
            ));
        };
        match self.host.authenticate(token).as_deref().map(|c| &c.access) {
            Some(Access::Engine(supervisor)) => Ok(supervisor.clone()),
            Some(Access::Viewer | Access::Admin) => Err(status::refused(
                Code::PermissionDenied,
                "the credential is an operator's; engines have their own",
            )),
            None => Err(status::refused(
                Code::Unauthenticated,
                "the token is not known; issue a new credential for the supervisor",
            )),
        }
    }

    fn unbuilt<T>(&self, metadata: &MetadataMap, call: &str) -> Result<T, Status> {
        self.authenticate(metadata)?;
        Err(status::refused(
            Code::Unimplemented,
            format!("this version of the host does not serve {call} yet"),
        ))
    }
}

#[tonic::async_trait]
impl EngineService for Api {
    type ConnectStream = Outgoing;

    async fn connect(
        &self,
        request: Request<Streaming<pb::ConnectRequest>>,
    ) -> Result<Response<Outgoing>, Status> {
        let supervisor = self.authenticate(request.metadata())?;
        if self.stopping.is_cancelled() {
            return Err(status::retry_after(
                Code::Unavailable,
                "the host stops; come back when it is up again",
                Duration::from_secs(1),
            ));
        }
        let now = self.host.clock().now();
        if let Err(wait) = self.registry.may_connect(&supervisor, now) {
            let (ms, message) = match wait {
                Wait::Backoff(ms) => (
                    ms,
                    "the engine failed a short while ago; wait as long as this says",
                ),
                Wait::Fighting(ms) => (
                    ms,
                    "sessions of this supervisor take over from each other again and again; run one engine",
                ),
            };
            tracing::warn!(%supervisor, ?wait, "engine told to wait");
            return Err(status::retry_after(
                Code::Unavailable,
                message,
                Duration::from_millis(ms),
            ));
        }
        let (task, outgoing) = session::start(Link {
            host: self.host.clone(),
            registry: self.registry.clone(),
            supervisor,
            incoming: request.into_inner(),
            stopping: self.stopping.clone(),
            limits: self.limits,
            second: self.second,
        });
        self.tasks.spawn(task);
        Ok(Response::new(outgoing))
    }

    async fn submit_directive(
        &self,
        request: Request<pb::SubmitDirectiveRequest>,
    ) -> Result<Response<pb::SubmitDirectiveResponse>, Status> {
        let supervisor = self.authenticate(request.metadata())?;
        let pb::SubmitDirectiveRequest { session, directive } = request.into_inner();
        let session = match session.as_str() {
            "" => None,
            text => Some(
                text.parse::<SessionId>()
                    .map_err(|e| status::malformed(&Malformed::new("session", format!("{e}"))))?,
            ),
        };
        let Some(directive) = directive else {
            let missing = Malformed::new("directive", "missing; send the directive");
            return Err(status::malformed(&missing));
        };
        let (label, directive) = receive(directive);
        let answer = match directive {
            Err(malformed) => refusal(&malformed),
            Ok(directive) => self
                .host
                .submit(supervisor, session, directive)
                .await
                .map_err(|refused| match retry_after_ms(refused.code) {
                    Some(ms) => status::retry_after(
                        refused.code,
                        refused.message,
                        Duration::from_millis(ms),
                    ),
                    None => status::refused(refused.code, refused.message),
                })?,
        };
        Ok(Response::new(pb::SubmitDirectiveResponse {
            result: Some(result(label, answer, true)),
        }))
    }

    async fn explain_directive(
        &self,
        request: Request<pb::ExplainDirectiveRequest>,
    ) -> Result<Response<pb::ExplainDirectiveResponse>, Status> {
        self.unbuilt(request.metadata(), "ExplainDirective")
    }

    async fn get_self(
        &self,
        request: Request<pb::GetSelfRequest>,
    ) -> Result<Response<pb::GetSelfResponse>, Status> {
        self.unbuilt(request.metadata(), "GetSelf")
    }

    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        self.unbuilt(request.metadata(), "ListEvents")
    }

    type GetSnapshotStream = tokio_stream::Empty<Result<pb::GetSnapshotResponse, Status>>;

    async fn get_snapshot(
        &self,
        request: Request<pb::GetSnapshotRequest>,
    ) -> Result<Response<Self::GetSnapshotStream>, Status> {
        self.unbuilt(request.metadata(), "GetSnapshot")
    }

    async fn list_executions(
        &self,
        request: Request<pb::ListExecutionsRequest>,
    ) -> Result<Response<pb::ListExecutionsResponse>, Status> {
        self.unbuilt(request.metadata(), "ListExecutions")
    }

    async fn get_execution(
        &self,
        request: Request<pb::GetExecutionRequest>,
    ) -> Result<Response<pb::GetExecutionResponse>, Status> {
        self.unbuilt(request.metadata(), "GetExecution")
    }

    async fn get_workflow(
        &self,
        request: Request<pb::GetWorkflowRequest>,
    ) -> Result<Response<pb::GetWorkflowResponse>, Status> {
        self.unbuilt(request.metadata(), "GetWorkflow")
    }

    async fn list_inputs(
        &self,
        request: Request<pb::ListInputsRequest>,
    ) -> Result<Response<pb::ListInputsResponse>, Status> {
        self.unbuilt(request.metadata(), "ListInputs")
    }

    async fn tail_logs(
        &self,
        request: Request<pb::TailLogsRequest>,
    ) -> Result<Response<pb::TailLogsResponse>, Status> {
        self.unbuilt(request.metadata(), "TailLogs")
    }

    async fn get_scheduler(
        &self,
        request: Request<pb::GetSchedulerRequest>,
    ) -> Result<Response<pb::GetSchedulerResponse>, Status> {
        self.unbuilt(request.metadata(), "GetScheduler")
    }
}
