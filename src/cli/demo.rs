//! `demo`: a real workflow that an engine governs, from start to end.

use super::serve::with_threads;
use super::{Failure, Globals};
use crate::{demo, telemetry};

/// Runs the demo; 0 only if the report's checksum is right.
///
/// # Errors
/// Whatever keeps it from ending.
pub fn run(globals: &Globals) -> Result<u8, Failure> {
    telemetry::init("error").map_err(|e| Failure::new(78, e.to_string()))?;
    let dir = globals.data_dir.clone();
    with_threads(async {
        demo::run(dir)
            .await
            .map_err(|e| Failure::new(e.exit_code(), e.to_string()))?;
        Ok(0)
    })
}
