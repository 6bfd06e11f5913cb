//! Half of the threads never come to the barrier.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn halves(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([i]);
    if t < 64 {
        sync_threads();
        s[t] += s[t + 64];
    }
    if t == 0 && i < N {
        y[i] = s[0];
    }
}
// ANCHOR_END: kernel

fn main() {}
