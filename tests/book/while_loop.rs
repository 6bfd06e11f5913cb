//! A loop that no one can see the end of.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn halvings(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let mut v = x[i];
        while v > 1.0 {
            v = v * 0.5;
        }
        y[i] = v;
    }
}
// ANCHOR_END: kernel

fn main() {}
