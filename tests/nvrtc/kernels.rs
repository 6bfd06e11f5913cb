//! Which kernels are compiled: all of them.

use tile_kernel_examples::ladder;
use tile_runtime::kernel::Definition;

/// The bundled kernels and the ladder's.
pub fn kernels() -> Vec<&'static Definition> {
    let mut all = ladder::definitions();
    all.push(tile_kernels::gemv::definition());
    all
}
