//! What only a GPU can tell. Without one every test here says so and passes.
//!
//! `cargo xtask gpu-bundle` builds this binary for a machine that has a GPU and no Rust. With `TILE_RESULTS=FOLDER`
//! the ladder's hashes are written there.

mod bench;
mod faults;
mod gemm;
mod gemv;
mod host;
mod indices;
mod instances;
mod ladder;
mod lent;
mod messages;
mod packed;
mod parts;
mod pdl;
mod rows;
mod split;
mod streams;
mod tf32;
mod tuner;

use cudarc::driver::{CudaContext, CudaStream};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use tile_runtime::prelude::*;

/// Set in the process of a single test.
const ALONE: &str = "TILE_TEST_ALONE";

/// Whether this process is the test's alone, by its path: `faults::an_illegal_address`. Where others share it, the test is run in a process of its own
/// and this is false. A fault, or an assertion that fails, is the error of whatever waits for the device next, in any test.
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new(me).args(["--exact", test, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success(), "{test} failed in its own process");
    false
}

/// cudarc's context, with a stream of it.
///
/// The first stream of a context waits for everything on the device. The driver refuses that while any thread captures, and ends the capture with an
/// error. So there is one context, and its first stream is made before any test begins ([`gpu`]).
pub fn cudarc_context() -> Arc<CudaContext> {
    static CONTEXT: OnceLock<(Arc<CudaContext>, Arc<CudaStream>)> = OnceLock::new();
    let made = CONTEXT.get_or_init(|| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        (context, stream)
    });
    made.0.clone()
}

/// The GPU, or `None` after saying aloud that there is none.
pub fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => {
            cudarc_context();
            Some(device)
        }
        Err(error) => {
            eprintln!("SKIPPED, no GPU: {error}");
            None
        }
    }
}

/// Where to write results, if anywhere.
pub fn results_folder() -> Option<std::path::PathBuf> {
    std::env::var_os("TILE_RESULTS").map(Into::into)
}
