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

use tile_runtime::prelude::*;

/// The GPU, or `None` after saying aloud that there is none.
pub fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
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
