//! Kernels a step away from the plain GEMM: what keeps the fastest path and what does not (`tests/cliff.rs`, `examples/cliff.rs`).

pub mod kernels;

use kernels::*;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::f16;

/// All of them.
pub fn definitions() -> [&'static Definition; 15] {
    [
        reference::<f16, 128, 128, 64, 4, 256>::definition(),
        plain::<f16, 128, 128, 64, 256>::definition(),
        low_rank::<f16, 128, 128, 64, 4, 256>::definition(),
        shared_bias::<f16, 128, 128, 64, 4, 256>::definition(),
        shared_scales::<f16, 128, 128, 64, 4, 256>::definition(),
        global_scales::<f16, 128, 128, 64, 4, 256>::definition(),
        windowed::<f16, 128, 128, 64, 4, 256>::definition(),
        shared_result::<f16, 128, 128, 64, 4, 256>::definition(),
        converted::<f16, 128, 128, 64, 4, 256>::definition(),
        row_sums::<f16, 128, 128, 64, 4, 256>::definition(),
        wide::<f16, 192, 128, 64, 4, 256>::definition(),
        fused_mlp::<f16, 128, 128, 64, 3, 256>::definition(),
        atomic_split::<f16, 128, 128, 64, 4, 256, 2>::definition(),
        gram::<f16, 128, 128, 64, 4, 256>::definition(),
        swiglu::<f16, 128, 128, 64, 3, 256>::definition(),
    ]
}
