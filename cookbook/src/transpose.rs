//! `y = x^T`, both sides coalesced.
//!
//! Threads that are neighbours should access neighbours in memory, and reading along rows and writing along columns
//! cannot both do so. A tile in shared memory turns: it is filled along the rows of `x` and emptied along those of `y`.
//! Its rows are padded, so that what a warp reads of a column lies in 32 different banks; `lints(TK0601 = "deny")` makes
//! the compiler check that.

use crate::vector::width;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `y[j, i] = x[i, j]`, in tiles of 64 x 64; each thread moves `VEC` elements of a row at a time.
#[tile_kernel(
    instances(VEC in [2, 1], where VEC * T::BITS == 32 || VEC == 1),
    dtypes(T in [f16, bf16, f32, i32, u32]),
    require(M % VEC == 0 && N % VEC == 0),
    lints(TK0601 = "deny")
)]
pub fn transpose_tiles<T: Number, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (N, M)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    let [tx, ty] = threads([64 / VEC, 8]);
    let mut tile = alloc_shared::<T>([64, 64 + 32 / (T::BITS * VEC)]); // `VEC` rows are an odd number of words
    let mut values = alloc_local::<T>([8, VEC]);
    for r in unroll(0..8) {
        for v in vectorized(0..VEC) {
            values[[r, v]] = x.masked([by * 64 + r * 8 + ty, bx * 64 + tx * VEC + v]);
        }
    }
    for r in unroll(0..8) {
        for v in unroll(0..VEC) {
            tile[[r * 8 + ty, tx * VEC + v]] = values[[r, v]];
        }
    }
    sync_threads();
    for r in unroll(0..8) {
        for v in unroll(0..VEC) {
            values[[r, v]] = tile[[tx * VEC + v, r * 8 + ty]];
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([bx * 64 + r * 8 + ty, by * 64 + tx * VEC + v]) = values[[r, v]];
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The transpose of `x` in `y`.
///
/// # Errors
/// Where `y` is not of the transposed shape or overlaps `x`, and whatever a launch may fail with.
pub fn transpose<T: Number>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let vec = if T::BITS == 16 { width(2, &[x.argument(), y.argument()]) } else { 1 };
    transpose_tiles::<T>::instance(on.device(), TransposeTilesParams { VEC: vec })?.launch_on(on, x, y)
}
// ANCHOR_END: host

/// The transpose of a matrix of rows of `n` elements.
pub fn reference<T: Copy>(x: &[T], n: usize) -> Vec<T> {
    let m = x.len() / n.max(1);
    (0..x.len()).map(|at| x[at % m * n + at / m]).collect()
}
