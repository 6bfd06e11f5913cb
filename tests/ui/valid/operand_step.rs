//! Nearest neighbour: Data says how far a loop steps: it may not step at all, and never end.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn strided(steps: &Tensor<u32, (N,)>, x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let step = steps[i] as usize;
        let mut sum = 0.0f32;
        for k in (0..K).step_by(max(step, 1)) {
            sum += x[k];
        }
        y[i] = sum;
    }
}
