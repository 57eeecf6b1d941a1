//! The engine's one task: connects, runs the session, and comes back after failures.
//!
//! A managed engine does not come back: it ends, and its host starts it again (C42).

use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::backoff::Backoff;
use crate::env::ConnectEnv;
use crate::error::Error;
use crate::proto as pb;
use crate::proto::engine_service_client::EngineServiceClient;
use crate::rules::RuleSet;
use crate::session::{Effect, End, Session};

/// How often the engine says that it is alive (C13).
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long acknowledgements are gathered before they are sent.
const ACK_EVERY: Duration = Duration::from_millis(200);
/// How long a session must have lasted for the backoff to begin anew (C42).
const HEALTHY: Duration = Duration::from_secs(60);
/// How long connecting, and the answer's first headers, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The transport's ping on a silent connection, and how long its answer may take.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Follows the rules of a file until the host refuses the engine or, if managed, until the host or the
/// session is gone.
///
/// # Errors
/// Names what is wrong with the file, the environment's values or the host's refusal; for a managed
/// engine also why its session ended, where that was a failure.
pub async fn run(file: &Path, env: ConnectEnv) -> Result<(), Error> {
    let rules = RuleSet::load(file)?;
    tracing::info!(file = %file.display(), rules = rules.rules.len(), addr = env.addr, supervisor = env.supervisor, "rules loaded");
    let host_gone = if env.managed {
        Some(watch_stdin()?)
    } else {
        None
    };
    let host_gone = pin!(async move {
        match host_gone {
            // The sender is dropped only by the thread's end, which means the same.
            Some(end) => drop(end.await),
            None => std::future::pending().await,
        }
    });
    follow(rules, env, host_gone).await
}

/// Runs sessions until one ends for good.
pub(crate) async fn follow(
    rules: RuleSet,
    env: ConnectEnv,
    mut host_gone: impl Future<Output = ()> + Unpin,
) -> Result<(), Error> {
    let channel = env
        .endpoint
        .clone()
        .connect_timeout(PATIENCE)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_lazy();
    let mut session = Session::new(rules, env.supervisor.clone());
    let mut backoff = Backoff::default();
    loop {
        let mut link = Link {
            env: &env,
            channel: channel.clone(),
            session: &mut session,
            healthy: false,
        };
        let end = tokio::select! {
            end = link.run() => end,
            () = &mut host_gone => {
                tracing::info!("host is gone");
                return Ok(());
            }
        };
        if link.healthy {
            backoff.reset();
        }
        let wait = match verdict(&env, end)? {
            Next::Stop => return Ok(()),
            Next::Again { asked } => backoff.next(asked, fastrand::f64()),
        };
        tracing::info!(
            wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            "connecting again after a pause"
        );
        tokio::time::sleep(wait).await;
    }
}

/// What comes after a session.
enum Next {
    /// A managed engine ends without a failure.
    Stop,
    /// Try again, after at least what the host asked for.
    Again { asked: Option<Duration> },
}

/// How a session ended.
enum Ended {
    /// As the host or the machine said.
    Said(End),
    /// The host closed the stream without a word.
    Closed,
    /// With an error of the stream or of the connection.
    Failed(Status),
}

fn verdict(env: &ConnectEnv, ended: Ended) -> Result<Next, Error> {
    let (asked, failure) = match ended {
        Ended::Said(End::Replaced(message)) => {
            return Err(Error::Replaced {
                supervisor: env.supervisor.clone(),
                message,
            });
        }
        Ended::Said(End::Goaway {
            reason: _,
            retry_after,
        }) => (retry_after, None),
        Ended::Said(End::Fault(message)) => (None, Some(message)),
        Ended::Closed => (None, None),
        Ended::Failed(status) => {
            if let Some(advice) = advice(status.code()) {
                return Err(Error::Refused {
                    addr: env.addr.clone(),
                    code: status.code().description(),
                    message: status.message().to_owned(),
                    advice,
                });
            }
            let asked = status
                .get_details_retry_info()
                .and_then(|info| info.retry_delay);
            (
                asked,
                Some(format!(
                    "{}: {}",
                    status.code().description(),
                    status.message()
                )),
            )
        }
    };
    if let Some(message) = &failure {
        tracing::warn!(message, "session failed");
    }
    match failure {
        Some(message) if env.managed => Err(Error::SessionEnded { message }),
        None if env.managed => Ok(Next::Stop),
        _ => Ok(Next::Again { asked }),
    }
}

/// Returns what to do about an error that no second try can heal.
fn advice(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => {
            Some("issue a new credential for the supervisor and set SIGNALBOX_ENGINE_TOKEN to it")
        }
        Code::PermissionDenied => Some(
            "the token is another supervisor's: correct SIGNALBOX_SUPERVISOR or SIGNALBOX_ENGINE_TOKEN",
        ),
        Code::FailedPrecondition => {
            Some("use an engine and a host that speak the same contract version")
        }
        _ => None,
    }
}

/// One session on the wire.
struct Link<'a> {
    env: &'a ConnectEnv,
    channel: Channel,
    session: &'a mut Session,
    healthy: bool,
}

impl Link<'_> {
    async fn run(&mut self) -> Ended {
        // One place is enough: `pump` waits for a free one beside everything else that it waits for.
        let (outbound, frames) = mpsc::channel(1);
        match self.open(frames).await {
            Ok(stream) => self.pump(stream, outbound).await,
            Err(status) => Ended::Failed(status),
        }
    }

    async fn open(
        &self,
        frames: mpsc::Receiver<pb::ConnectRequest>,
    ) -> Result<Streaming<pb::ConnectResponse>, Status> {
        let mut request = tonic::Request::new(ReceiverStream::new(frames));
        request
            .metadata_mut()
            .insert("authorization", self.env.bearer.clone());
        let mut client = EngineServiceClient::new(self.channel.clone());
        match tokio::time::timeout(PATIENCE, client.connect(request)).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(Status::unavailable("no answer within 10 s")),
        }
    }

    /// Carries frames until the session ends. Reading never waits for writing: a host that reads slowly
    /// still gets its results read.
    async fn pump(
        &mut self,
        mut stream: Streaming<pb::ConnectResponse>,
        outbound: mpsc::Sender<pb::ConnectRequest>,
    ) -> Ended {
        let mut outbox = std::collections::VecDeque::from([self.session.hello()]);
        let mut later = JoinSet::new();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let mut acks = tokio::time::interval(ACK_EVERY);
        acks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut healthy = pin!(tokio::time::sleep(HEALTHY));
        loop {
            let effects = tokio::select! {
                permit = outbound.reserve(), if !outbox.is_empty() => {
                    match (permit, outbox.pop_front()) {
                        (Ok(permit), Some(body)) => permit.send(pb::ConnectRequest { body: Some(body) }),
                        // The transport has dropped the stream; reading says why.
                        (Err(_), _) => outbox.clear(),
                        (Ok(_), None) => {}
                    }
                    continue;
                }
                frame = stream.message() => match frame {
                    Ok(Some(pb::ConnectResponse { body: Some(body) })) => self.session.on_frame(body),
                    // A body that this version does not know.
                    Ok(Some(pb::ConnectResponse { body: None })) => continue,
                    Ok(None) => return Ended::Closed,
                    Err(status) => return Ended::Failed(status),
                },
                Some(Ok(sent)) = later.join_next() => self.session.again(sent),
                _ = acks.tick() => {
                    outbox.extend(self.session.take_ack());
                    continue;
                }
                _ = heartbeat.tick() => {
                    outbox.push_back(pb::connect_request::Body::Alive(pb::Alive {}));
                    continue;
                }
                () = &mut healthy, if !self.healthy => {
                    self.healthy = true;
                    continue;
                }
            };
            for effect in effects {
                match effect {
                    Effect::Send(body) => outbox.push_back(body),
                    Effect::Later(delay, sent) => {
                        later.spawn(async move {
                            tokio::time::sleep(delay).await;
                            sent
                        });
                    }
                    Effect::End(end) => return Ended::Said(end),
                }
            }
        }
    }
}

/// Watches standard input, whose end says that the host has died.
///
/// A plain thread reads it: the runtime's own reader would keep the process from ending.
fn watch_stdin() -> Result<oneshot::Receiver<()>, Error> {
    let (gone, watch) = oneshot::channel();
    std::thread::Builder::new()
        .name("watch-host".to_owned())
        .spawn(move || {
            let mut bytes = [0_u8; 256];
            let mut stdin = std::io::stdin().lock();
            loop {
                match stdin.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        tracing::warn!(error = %e, "standard input cannot be read, so the host counts as gone");
                        break;
                    }
                }
            }
            if gone.send(()).is_err() {
                tracing::debug!("the engine had ended before its host");
            }
        })
        .map_err(Error::Watch)?;
    Ok(watch)
}

#[cfg(test)]
mod tests;
