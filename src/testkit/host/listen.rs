//! The host's listeners, on threads of their own: cutting them cuts every connection, as the end of a process does.

use std::net::SocketAddr;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, patience};
use crate::engine::{self, Registry, Server};
use crate::host::HostHandle;

/// The open listeners.
pub(super) struct Listeners {
    runtime: Runtime,
    engines: SocketAddr,
    registry: Registry,
    stopping: CancellationToken,
    serving: Option<JoinHandle<Result<(), engine::Error>>>,
}

impl Listeners {
    /// Opens the listeners; for engines at the address of the last time, if there was one.
    pub(super) async fn open(
        handle: HostHandle,
        engines_at: Option<SocketAddr>,
        options: engine::Options,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-listener")
            .enable_all()
            .build()
            .expect("threads for the listeners can be started");
        let at = engines_at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let bound = runtime
            .spawn(engine::bind(at))
            .await
            .expect("binding a port does not panic");
        let listener = match bound {
            Ok(listener) => listener,
            Err(error) => panic!("{error}"),
        };
        let (engines, registry) = (listener.addr(), Registry::default());
        let stopping = CancellationToken::new();
        let server = Server::new(handle, registry.clone(), options);
        let serving = runtime.spawn(server.serve(listener, stopping.clone().cancelled_owned()));
        Self {
            runtime,
            engines,
            registry,
            stopping,
            serving: Some(serving),
        }
    }

    pub(super) fn engines(&self) -> SocketAddr {
        self.engines
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Says goodbye to every session, and returns when all have ended.
    pub(super) async fn close_politely(&mut self) {
        self.stopping.cancel();
        let Some(serving) = self.serving.take() else {
            return;
        };
        match patience("the listeners to close", serving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("{error}"),
            Err(error) => panic!("the listeners have panicked: {error}"),
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
