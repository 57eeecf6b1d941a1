//! `engine`: decision engines that ship, each a process of its own.

use signalbox_engine_rules::ConnectEnv;

use super::Failure;
use super::args::{Engine, EngineArgs};

/// Runs `engine …` until the host refuses the engine or is gone.
pub(super) fn run(args: &EngineArgs) -> Result<u8, Failure> {
    crate::telemetry::init("info").map_err(|e| Failure::new(2, e.to_string()))?;
    let Engine::Rules { file } = &args.engine;
    let wrong = |error: signalbox_engine_rules::Error| Failure::new(1, error.to_string());
    let env = ConnectEnv::from_process().map_err(|e| Failure {
        exit: 2,
        ..wrong(e)
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                1,
                format!("the engine cannot be set up ({e}): look at the limits of the process"),
            )
        })?;
    runtime
        .block_on(signalbox_engine_rules::run(file, env))
        .map_err(wrong)?;
    Ok(0)
}
