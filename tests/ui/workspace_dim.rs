//! The dims of a workspace are those of tensors: nobody gives it.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn doubled(
    x: &Tensor<f32, (N,)>,
    y: &mut Tensor<f32, (N,)>,
    kept: &mut Workspace<f32, (S,)>, //~
) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        *kept.masked_mut([i]) = x[i];
        y[i] = x[i] * 2.0;
    }
}

fn main() {}
