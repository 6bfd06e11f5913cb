//! Which devices a whole-program test runs on.

use tile_runtime::prelude::*;

/// Both simulators, and the GPU where there is one: what a kernel gives must be the same on all of them.
pub fn devices() -> Vec<Device> {
    let gpu = match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("SKIPPED on a GPU, there is none: {error}");
            None
        }
    };
    [Device::simulator(), Device::checked_simulator()].into_iter().chain(gpu).collect()
}
