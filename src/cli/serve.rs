//! `serve`: a host, from its start until it is told to stop.

use std::future::Future;

use super::args::ServeArgs;
use super::{Failure, Globals, pointer};
use crate::server::{self, Running};
use crate::telemetry;

/// Runs a host until SIGTERM or SIGINT.
///
/// # Errors
/// A configuration that is none (exit code 78), a store that does not open (70, 75), and what ends the host.
pub fn run(globals: &Globals, args: &ServeArgs) -> Result<u8, Failure> {
    telemetry::init("info").map_err(|e| Failure::new(78, e.to_string()))?;
    let config = config(globals, args)?;
    with_threads(async {
        let running = server::start(&config).await.map_err(failure)?;
        let told = stop_signal()?;
        let _pointer = tell(&running);
        running.until(told).await.map_err(failure)?;
        Ok(0)
    })
}

/// Says where everything is, to whoever started it and to the command line on this machine.
fn tell(running: &Running) -> Option<pointer::Guard> {
    let Running {
        grpc,
        http,
        admin_key,
        ..
    } = running;
    println!("engines   {grpc}");
    println!("operators {http}");
    match admin_key {
        Some(path) => println!("admin key {}", path.display()),
        None => println!("admin key taken away; other keys are as good"),
    }
    println!("ready");
    match pointer::write(http, admin_key.as_deref()) {
        Ok(guard) => Some(guard),
        Err(error) => {
            tracing::warn!(%error, "the command line on this machine must be told --url and --key");
            None
        }
    }
}

/// Makes the failure of a host.
pub(super) fn failure(error: server::Error) -> Failure {
    Failure::new(error.exit_code(), error.to_string())
}

/// Returns what ends when the process is told to stop.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |e| {
        Failure::new(
            1,
            format!("signals cannot be caught ({e}): look at the limits of the process"),
        )
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Runs something on as many threads as the machine has.
pub(super) fn with_threads<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                1,
                format!("the program cannot be set up ({e}): look at the limits of the process"),
            )
        })?;
    let result = runtime.block_on(work);
    // What still blocks a thread, such as a read of a journal, is not waited for.
    runtime.shutdown_background();
    result
}

/// Puts the configuration together.
fn config(globals: &Globals, args: &ServeArgs) -> Result<crate::config::Config, Failure> {
    let ServeArgs { http, grpc, config } = args.clone();
    let flags = crate::config::Flags {
        data_dir: globals.data_dir.clone(),
        grpc,
        http,
    };
    let env = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    crate::config::load(config.as_deref(), env, &flags).map_err(|e| Failure::new(78, e.to_string()))
}
