//! What a function gives one name has one extent.

use tile_runtime::prelude::*;

#[tile_fn]
fn add(into: &mut SharedArray<f32, (L,)>, from: &SharedArray<f32, (L,)>, t: usize) {
    for i in 0..ceil_div(L, 32) {
        if i * 32 + t < L {
            into[i * 32 + t] += from[i * 32 + t];
        }
    }
}

#[tile_kernel(uses(add))]
pub fn doubled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([32]);
    let mut sum = alloc_shared::<f32>([64]);
    let mut part = alloc_shared::<f32>([32]);
    copy(x.at([b * 64]), &mut sum);
    copy(x.at([b * 64]), &mut part);
    add(&mut sum, &part, t); //~
    copy(&sum, y.at_mut([b * 64]));
}

fn main() {}
