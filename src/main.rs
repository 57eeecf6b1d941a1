//! The `signalbox` program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // First of all and with nothing loaded: every attempt of every node pays for this way.
    if args.next().as_deref() == Some(OsStr::new("shim"))
        && let Some(dir) = args.next()
    {
        return signalbox::runtime::local::shim::main(Path::new(&dir));
    }
    signalbox::cli::main()
}
