//! The listener for engines: tonic's own server, with every limit set here (C13).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::HealthReporter;

use crate::host::HostHandle;
use crate::wire::proto;
use crate::wire::proto::v1::engine_service_server::EngineServiceServer;

use super::registry::Registry;
use super::service::Api;
use super::session::Limits;

mod count;

/// The largest message that an engine may send.
const MESSAGE_MOST: usize = 4 << 20;
/// How long a silent connection is left alone before it is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long the answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How many calls one connection may have open.
const STREAMS_MOST: u32 = 16;
/// How long the headers of a call may be.
const HEADERS_MOST: u32 = 16 << 10;
/// How many calls may be given up before they were looked at.
const RESETS_MOST: usize = 20;
/// How many connections there may be.
const CONNECTIONS_MOST: usize = 256;
/// How long connections may take to end after the sessions have.
const GRACE: Duration = Duration::from_secs(2);

/// Why the listener does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {0} for engines: {1}; choose another address, or end what uses it")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The server failed.
    #[error("the listener for engines failed: {0}; start the host again")]
    Serve(#[from] tonic::transport::Error),
    /// The descriptors of the service do not fit together.
    #[error(
        "the service cannot be described: {0}; build the host again, it is a fault of the build"
    )]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A bound listener: its address is known before anything is served.
#[derive(Debug)]
pub struct Listener {
    incoming: TcpIncoming,
    addr: SocketAddr,
}

impl Listener {
    /// Returns the bound address; its port is never 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address as engines on this machine connect to it.
    #[must_use]
    pub fn url(&self) -> String {
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(match addr.ip() {
                IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
                IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            });
        }
        format!("http://{addr}")
    }
}

/// Listens on an address; port 0 takes a free one.
///
/// # Errors
/// The address cannot be listened on.
pub async fn bind(addr: SocketAddr) -> Result<Listener, Error> {
    let failed = |error| Error::Bind(addr, error);
    let listener = tokio::net::TcpListener::bind(addr).await.map_err(failed)?;
    // Set here: the builder's own setting is ignored on a listener that is passed in.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let addr = incoming.local_addr().map_err(failed)?;
    Ok(Listener { incoming, addr })
}

/// The settings of the listener; the defaults are the contract's.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The settings of a session's life.
    pub limits: Limits,
    /// How long a second of those limits is; shorter in tests only.
    pub second: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            second: Duration::from_secs(1),
        }
    }
}

/// The server for engines.
#[derive(Clone)]
pub struct Server {
    host: HostHandle,
    registry: Registry,
    options: Options,
}

impl Server {
    /// Makes a server; `registry` is where operators see its engines.
    #[must_use]
    pub fn new(host: HostHandle, registry: Registry, options: Options) -> Self {
        Self {
            host,
            registry,
            options,
        }
    }

    /// Serves until `shutdown`: then nothing new is accepted, what was directed is answered, every session gets its
    /// `goaway` (C12), and the connections end. Stop the host after that.
    ///
    /// # Errors
    /// The server failed; no engine can connect any more.
    pub async fn serve(
        self,
        listener: Listener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let Self {
            host,
            registry,
            options,
        } = self;
        let (stopping, tasks) = (CancellationToken::new(), TaskTracker::new());
        let api = Api {
            host,
            registry,
            tasks: tasks.clone(),
            stopping: stopping.clone(),
            limits: options.limits,
            second: options.second,
        };
        let api = EngineServiceServer::new(api).max_decoding_message_size(MESSAGE_MOST);
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<EngineServiceServer<Api>>().await;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(proto::DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .max_concurrent_streams(STREAMS_MOST)
            .http2_max_header_list_size(HEADERS_MOST)
            .http2_max_pending_accept_reset_streams(Some(RESETS_MOST))
            .add_service(api)
            .add_service(health_service)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?)
            .serve_with_incoming_shutdown(
                count::limited(listener.incoming, CONNECTIONS_MOST),
                stopping.clone().cancelled_owned(),
            );
        let stop = async {
            shutdown.await;
            not_serving(&health).await;
            stopping.cancel();
            tasks.close();
            // A session ends by itself within its drain limit.
            tasks.wait().await;
            // Connections with nothing on them end at once; those that something else keeps open are cut.
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            served = server => served?,
            () = stop => {}
        }
        // The server may have been first: its sessions are not cut short.
        stopping.cancel();
        tasks.close();
        tasks.wait().await;
        Ok(())
    }
}

async fn not_serving(health: &HealthReporter) {
    health.set_not_serving::<EngineServiceServer<Api>>().await;
    health
        .set_service_status("", tonic_health::ServingStatus::NotServing)
        .await;
}
