//! Compiles the host's `proto/` into client stubs of this crate's own.
//!
//! The host links this crate, so depending on the host's stubs would be a cycle. The server half is
//! made for this crate's tests, which speak to a small server in their own process.

use std::error::Error;

const ROOT: &str = "../../proto";
const SERVICE: &str = "signalbox/engine/v1/engine_service.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_file(SERVICE)?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .server_mod_attribute(".", "#[cfg(test)]")
        .btree_map(".")
        .boxed(".signalbox.engine.v1.Signal.kind.event")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
