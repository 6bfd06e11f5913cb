//! The last thread reads one element too far.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn differences(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([i]);
    sync_threads();
    if i < N {
        y[i] = s[t + 1] - s[t];
    }
}
// ANCHOR_END: kernel

fn main() {}
