//! Which kernels are compiled: all of them.

use tile_runtime::kernel::Definition;

/// The bundled kernels and those of the examples.
pub fn kernels() -> Vec<&'static Definition> {
    vec![]
}
