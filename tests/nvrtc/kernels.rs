//! Which kernels are compiled: all of them.

#[path = "../../examples/first_kernel.rs"]
#[allow(dead_code)] // its `main` is not called here
mod first_kernel;
#[path = "../grammar/kernels.rs"]
mod grammar;

use tile_kernel_examples::ladder;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::f16;

/// The bundled kernels, the ladder's, the book's first ones, and those that use every form of the language.
pub fn kernels() -> Vec<&'static Definition> {
    let mut all = ladder::definitions();
    all.push(tile_kernels::gemv::definition());
    all.push(tile_kernels::gemv::specialized::gemv_specialized::<f32>::definition());
    // Of the bundled GEMM only this one yet: its 120 instances for aligned operands take minutes, and those with an epilogue
    // spill (README).
    all.push(tile_kernels::gemm::kernel::gemm_any::<f16, false, true>::definition());
    all.extend([first_kernel::saxpy::definition(), first_kernel::scaled_add::<f32>::definition()]);
    all.extend([
        grammar::statements::<f32>::definition(),
        grammar::tiles::definition(),
        grammar::expressions::definition(),
        grammar::specialized::definition(),
        grammar::functions::<2>::definition(),
        grammar::reductions::definition(),
    ]);
    all.push(super::products::product::<f16, 128, 128, 32, 4, 256, false, true>::definition());
    all
}
