//! For integration tests of engines, and of the host itself: a whole host in the test's own process, with a clock
//! that the test moves, attempts that end when the test says so, and an engine that can misbehave. What is between
//! them is real: the core, the journal, the listeners, and every byte of the contract on a socket.
//!
//! [`Host::builder`] makes a host; [`Host::engine`] connects a [`FakeEngine`] to it; [`FakeRuntime`] and
//! [`ManualClock`] come with it unless the builder is told otherwise. A test of an engine of your own takes
//! [`Host::engine_addr`] and [`Host::credential`] and lets its engine connect.
//!
//! ```
//! use signalbox::testkit::Host;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let host = Host::builder()
//!     .workflow("{ id: nightly, nodes: { build: { run: [make] } } }")
//!     .supervisor(
//!         "{ id: night, owns: ['node:nightly/build'], engine: { transport: attached }, allowedCommands: [node.retry] }",
//!     )
//!     .start()
//!     .await;
//! let mut engine = host.engine("night").await;
//!
//! let run = host.start_run("nightly").await;
//! host.exit(&run, "build", 2).await;
//! let (event, failed) = engine.until_node(&run, "build", "FAILED").await;
//! assert_eq!(failed.attempt, 1);
//! let retry = engine
//!     .command("k-1", "node.retry", &format!("node:{run}/build"))
//!     .cause(&format!("event:{event}"))
//!     .await;
//! assert_eq!(retry.targets[0].outcome, "APPLIED");
//! assert_eq!(host.runtime().starts().len(), 2);
//! # }
//! ```
//!
//! Time stands still until [`Host::advance`], for the pauses that the host asks of failed engines too: an engine that
//! broke the contract connects again only after the clock was moved.
//!
//! Nothing here waits for a time: every helper awaits an event, and panics after [`PATIENCE`] with what it waited
//! for. All helpers panic instead of returning errors, so that a test reads as a list of promises.
//!
//! Absent on purpose: a mock of the host. What a test sees here is what it would see in production.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends with the words of what failed"
)]

mod clock;
mod definition;
mod engine;
mod host;
mod runtime;
mod store;

use std::future::Future;
use std::time::Duration;

pub use clock::{ManualClock, WALL_BEGIN};
pub use definition::Definition;
pub use engine::{
    EngineClient, EngineDirective, FakeEngine, SessionStarted, Wire, command_directive, hello,
};
pub use host::{Builder, Host, OperatorCommand};
pub use runtime::FakeRuntime;
pub use store::CrashPoint;

/// How long anything may take before a test gives up: far longer than it takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Awaits an event that must come.
///
/// # Panics
/// After [`PATIENCE`], saying what did not come.
pub async fn patience<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, event).await {
        Ok(event) => event,
        Err(_) => panic!("waited {} s in vain for {what}", PATIENCE.as_secs()),
    }
}
