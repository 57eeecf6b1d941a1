//! The host's listeners, on threads of their own: cutting them cuts every connection, as the end of a process does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, patience};
use crate::engine::{self, Registry, Server};
use crate::host::HostHandle;
use crate::operators::{OperatorService, Parts, rest};
use crate::server::adapters::{Engines, Logs};

/// Where a host listens: chosen once, the same over restarts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub engines: SocketAddr,
    /// None where operators have no listener.
    pub operators: Option<SocketAddr>,
}

impl Places {
    /// Takes a loopback address that is this host's alone, and any free port of it.
    ///
    /// On an address that all share, another test may take the port while the host is down.
    pub(super) fn new(operators: bool) -> Self {
        static HOSTS: AtomicU16 = AtomicU16::new(1);
        let ip = if cfg!(target_os = "linux") {
            let [high, low] = HOSTS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            // 127.0.0.0/16 stays everybody's.
            let process = u8::try_from(std::process::id() % 250).unwrap_or(0) + 1;
            Ipv4Addr::new(127, process, high, low)
        } else {
            Ipv4Addr::LOCALHOST
        };
        let any = SocketAddr::new(IpAddr::V4(ip), 0);
        Self {
            engines: any,
            operators: operators.then_some(any),
        }
    }
}

/// The open listeners.
pub(super) struct Listeners {
    runtime: Runtime,
    places: Places,
    registry: Registry,
    stopping: CancellationToken,
    engines: Option<JoinHandle<Result<(), engine::Error>>>,
    operators: Option<JoinHandle<std::io::Result<()>>>,
}

impl Listeners {
    /// Opens the listeners.
    pub(super) async fn open(
        handle: HostHandle,
        places: Places,
        options: engine::Options,
        data_dir: PathBuf,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-listener")
            .enable_all()
            .build()
            .expect("threads for the listeners can be started");
        let bound = runtime
            .spawn(bind(places))
            .await
            .expect("binding a port does not panic");
        let (for_engines, for_operators) = bound;
        let places = Places {
            engines: for_engines.addr(),
            operators: for_operators.as_ref().map(|(_, at)| *at),
        };
        let (registry, stopping) = (Registry::default(), CancellationToken::new());
        let server = Server::new(handle.clone(), registry.clone(), options);
        let engines = server.serve(for_engines, stopping.clone().cancelled_owned());
        let engines = Some(runtime.spawn(engines));
        let service = OperatorService::new(Parts {
            host: handle.clone(),
            engines: Arc::new(Engines::new(registry.clone(), handle)),
            logs: Arc::new(Logs::new(data_dir)),
            stopping: stopping.clone(),
        });
        let operators = for_operators.map(|(listener, _)| {
            runtime.spawn(rest::serve(listener, service, rest::Hosts::default()))
        });
        Self {
            runtime,
            places,
            registry,
            stopping,
            engines,
            operators,
        }
    }

    pub(super) fn places(&self) -> Places {
        self.places
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Says goodbye to every session, and returns when all have ended and everybody is answered.
    pub(super) async fn close_politely(&mut self) {
        self.stopping.cancel();
        if let Some(serving) = self.engines.take() {
            match patience("the listener for engines to close", serving).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("{error}"),
                Err(error) => panic!("the listener for engines has panicked: {error}"),
            }
        }
        if let Some(serving) = self.operators.take() {
            match patience("the listener for operators to close", serving).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("{error}"),
                Err(error) => panic!("the listener for operators has panicked: {error}"),
            }
        }
    }

    /// Cuts every connection, and returns when nothing holds the host any more.
    pub(super) async fn cut(self) {
        tokio::task::spawn_blocking(move || self.cut_blocking())
            .await
            .expect("the listeners' threads end");
    }

    pub(super) fn cut_blocking(self) {
        self.runtime.shutdown_timeout(PATIENCE);
    }
}

async fn bind(places: Places) -> (engine::Listener, Option<(TcpListener, SocketAddr)>) {
    let engines = match engine::bind(places.engines).await {
        Ok(listener) => listener,
        Err(error) => panic!("{error}"),
    };
    let Some(at) = places.operators else {
        return (engines, None);
    };
    let operators = match TcpListener::bind(at).await {
        Ok(listener) => listener,
        Err(error) => panic!("cannot listen on {at} for operators: {error}"),
    };
    let at = operators.local_addr().expect("a listener has an address");
    (engines, Some((operators, at)))
}
