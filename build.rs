//! Compiles `proto/` into the stubs of `src/wire/proto.rs`, without a system compiler for protobufs.
//!
//! The descriptor set, with the comments, goes to `OUT_DIR/engine_descriptor.bin` for reflection.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const ROOT: &str = "proto";
const SERVICE: &str = "signalbox/engine/v1/engine_service.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set; build with cargo")?);

    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_file(SERVICE)?;
    fs::write(
        out.join("engine_descriptor.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::wire::codec::StrictCodec")
        .boxed(".signalbox.engine.v1.Signal.kind.event")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
