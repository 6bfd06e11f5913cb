//! What is wrong with a kernel because of a function's body is shown there.

use tile_runtime::prelude::*;

#[tile_fn]
fn last(s: &SharedArray<f32, (L,)>) -> f32 {
    s[L] //~
}

#[tile_kernel(uses(last))]
pub fn ends(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([64]);
    copy(x.at([b * 64]), &mut tile);
    if t == 0 && b < N {
        y[b] = last(&tile);
    }
}

fn main() {}
