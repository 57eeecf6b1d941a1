//! The `signalbox` program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    let _scenario = kill_at_fail_points();
    let mut args = std::env::args_os().skip(1);
    // First of all and with nothing loaded: every attempt of every node pays for this way.
    if args.next().as_deref() == Some(OsStr::new("shim"))
        && let Some(dir) = args.next()
    {
        return signalbox::runtime::local::shim::main(Path::new(&dir));
    }
    signalbox::cli::main()
}

/// Takes fail points from the environment. One that panics ends the process as a kill would: at once, with nothing
/// finished.
#[cfg(feature = "failpoints")]
fn kill_at_fail_points() -> fail::FailScenario<'static> {
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    fail::FailScenario::setup()
}
