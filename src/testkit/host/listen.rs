//! The host's listeners, on threads of their own: cutting them cuts every connection, as the end of a process does.

use std::net::SocketAddr;

use tokio::runtime::Runtime;

use crate::host::HostHandle;

/// The open listeners.
pub(super) struct Listeners {
    runtime: Runtime,
    engines: SocketAddr,
}

impl Listeners {
    /// Opens the listeners; for engines at the address of the last time, if there was one.
    pub(super) async fn open(_handle: HostHandle, engines_at: Option<SocketAddr>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-listener")
            .enable_all()
            .build()
            .expect("threads for the listeners can be started");
        let at = engines_at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            runtime,
            engines: at,
        }
    }

    pub(super) fn engines(&self) -> SocketAddr {
        self.engines
    }

    /// Waits until the sessions of a host that stops have been told and have ended.
    pub(super) async fn close_politely(&mut self) {}

    /// Cuts every connection, and returns when nothing holds the host any more.
    pub(super) async fn cut(self) {
        tokio::task::spawn_blocking(move || self.cut_blocking())
            .await
            .expect("the listeners' threads end");
    }

    pub(super) fn cut_blocking(self) {
        self.runtime.shutdown_timeout(super::PATIENCE);
    }
}
