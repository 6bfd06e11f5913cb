//! A 5 x 5 convolution of an image, zeros around it.
//!
//! The block's part of the image and a border of two elements, the *halo*, are copied to shared memory: each element is
//! needed by 25 results and read from memory once or twice. The copy starts two rows and columns before the block's
//! part; what is outside the image comes as 0, which is what the convolution wants there. A thread computes four
//! results below one another and so reads each row of the tile once for all four.

use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `y[r, c] = sum of w[i, j] * x[r + i - 2, c + j - 2]`. A block makes 32 x 32 results, a thread 4 x 1.
#[tile_kernel]
pub fn convolve_5x5(x: &Tensor<f32, (H, W)>, w: &Tensor<f32, (Fixed<5>, Fixed<5>)>, y: &mut Tensor<f32, (H, W)>) {
    let [bx, by] = blocks([ceil_div(W, 32), ceil_div(H, 32)]);
    let [tx, ty] = threads([32, 8]);
    let mut tile = alloc_shared::<f32>([36, 36]);
    let mut weights = alloc_local::<f32>([5, 5]);
    let mut sums = alloc_local::<f32>([4]);
    copy(x.at([by * 32 - 2, bx * 32 - 2]), &mut tile);
    for i in unroll(0..5) {
        for j in unroll(0..5) {
            weights[[i, j]] = w[[i, j]];
        }
    }
    clear(&mut sums);
    for row in unroll(0..8) {
        for j in unroll(0..5) {
            let value = tile[[ty * 4 + row, tx + j]];
            for r in unroll(0..4) {
                if row >= r && row < r + 5 {
                    sums[r] += weights[[row - r, j]] * value;
                }
            }
        }
    }
    for r in unroll(0..4) {
        *y.masked_mut([by * 32 + ty * 4 + r, bx * 32 + tx]) = sums[r];
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The image `x` convolved with the 5 x 5 weights `w` (not mirrored, as in machine learning), zeros around it.
///
/// # Errors
/// Where the shapes differ or `y` overlaps an input, and whatever a launch may fail with.
pub fn stencil(
    on: &impl LaunchOn,
    x: impl TensorInput<f32, 2>,
    w: impl TensorInput<f32, 2>,
    y: impl TensorOutput<f32, 2>,
) -> Result<(), LaunchError> {
    convolve_5x5::launch(on, x, w, y)
}
// ANCHOR_END: host

/// The convolution in f64, of an image of rows of `width` elements.
pub fn reference(x: &[f64], w: &[f64], width: usize) -> Vec<f64> {
    let height = x.len() / width.max(1);
    let at = |row: usize, column: usize| {
        let inside = (2..height + 2).contains(&row) && (2..width + 2).contains(&column);
        if inside { x[(row - 2) * width + column - 2] } else { 0.0 }
    };
    let result = |place: usize| {
        let (row, column) = (place / width, place % width);
        (0..25).map(|k| w[k] * at(row + k / 5, column + k % 5)).sum::<f64>()
    };
    (0..x.len()).map(result).collect()
}
