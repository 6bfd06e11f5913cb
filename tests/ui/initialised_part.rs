//! Half of an array is written, all of it is read.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn reversed(x: &Tensor<f32, (Fixed<128>,)>, y: &mut Tensor<f32, (Fixed<128>,)>) {
    blocks([1]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    if t < 64 {
        s[t] = x[t];
    }
    sync_threads();
    y[t] = s[127 - t]; //~
}

fn main() {}
