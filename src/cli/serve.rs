//! `serve`: a host.

use super::args::ServeArgs;
use super::{Failure, Globals};

/// Runs a host until it is told to stop.
///
/// # Errors
/// A configuration that is none (exit code 78), a store that does not open (70, 75), and what ends the host.
pub fn run(globals: &Globals, args: &ServeArgs) -> Result<u8, Failure> {
    let _config = config(globals, args)?;
    Err(Failure::new(1, "this build has no host yet"))
}

/// Puts the configuration together.
pub(super) fn config(
    globals: &Globals,
    args: &ServeArgs,
) -> Result<crate::config::Config, Failure> {
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
